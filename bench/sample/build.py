"""Builds the sample corpus: the committed text documents and the PDFs, in one folder.

python -m bench.sample.build OUT [--force]
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from bench.sample import pdf_content, pdf_manual
from bench.sample.pdf_blocks import Sheet
from bench.sample.pdf_render import render_pdf

SAMPLE = Path(__file__).parent
CORPUS = SAMPLE / "corpus"

SHEETS: tuple[Sheet, ...] = (
    pdf_content.LIDAR_FUSION,
    pdf_content.CAPITAL_ASSETS,
    pdf_content.TORQUE_VALUES,
    pdf_content.SCAN_LEASE,
    pdf_content.CYCLE_LIFE,
    pdf_content.ACCEPTANCE_REPORT,
    pdf_content.GRIPPER_NOTE,
    pdf_content.INVOICE,
    pdf_content.RELEASE_NOTES,
    pdf_content.PARTS_CATALOGUE,
    pdf_content.CAMERA_POLICY,
    pdf_content.YARD_HANDBOOK,
    pdf_manual.OPERATOR_MANUAL,
)


def build_sample(out: Path) -> list[Path]:
    """The files of the sample under `out`, sorted; `out` afterwards holds them and nothing else.

    The sample is written beside `out` and moved into place at the end, so that a broken build leaves what was there.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as scratch:
        fresh, previous = Path(scratch) / "fresh", Path(scratch) / "previous"
        shutil.copytree(CORPUS, fresh)
        for sheet in SHEETS:
            target = fresh / sheet.path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(render_pdf(sheet))
        if out.exists():
            out.rename(previous)
        fresh.rename(out)
    return sorted(path for path in out.rglob("*") if path.is_file())


def main() -> None:
    """Builds the sample where the command line says, and prints how many files it has."""
    parser = argparse.ArgumentParser(description="Build the sample corpus.")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write; it is replaced as a whole")
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists and is not empty")
    args = parser.parse_args()
    out: Path = args.out
    if out.exists() and (not out.is_dir() or any(out.iterdir())) and not args.force:
        parser.error(f"{out} exists; pass --force to replace it")
    print(f"{len(build_sample(out))} files in {out}")


if __name__ == "__main__":
    main()
