"""Does parsing keep its memory flat, and does no document take another one with it, over 2,000 documents?

python -m bench.parse_memory --data ../shared/data

The real parser, in its own process as an ingest runs it, over the reports and the awkward files again and again until
there were enough. After each document the memory of this process and of the parsing process is read. Scans take
seconds a page, so they come only in every tenth round. A file that fails must fail each time for the same reason.
"""

import argparse
import csv
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bench.memory import MIB, Sample, anonymous_bytes, trend_of
from bench.report import PROJECT, RESULTS, Run, need, out, print_table, summary, verdict
from rag.config import SourcesConfig, load_config
from rag.data import Access, DocumentMetadata, RawDocument
from rag.errors import RagError
from rag.ids import digest
from rag.parse.isolation import IsolatedParser
from rag.parse.media_type import PDF
from rag.parts import build_document_parser

NUM_DOCUMENTS = 2_000
SCAN_ROUNDS = 10
SLOW = frozenset({"scanned", "fonts"})  # categories of the awkward files that need OCR
FLAT_SHARE, FLAT_MIB = 0.10, 32.0  # growth that still counts as flat: the larger of the two


@dataclass(frozen=True, slots=True)
class Parsed:
    """What one document came to, and what the two processes held after it."""

    name: str
    reason: str  # "" where it was read
    seconds: float
    here: int  # bytes
    worker: int | None  # None where the process was replaced


def documents(data: Path) -> tuple[list[RawDocument], list[RawDocument]]:
    """The documents of every round, and the scans."""
    awkward = need(data / "pdf-awkward", "the awkward files")
    with (awkward / "index.tsv").open(encoding="utf-8") as file:
        categories = {row["file"]: row["category"] for row in csv.DictReader(file, delimiter="\t")}
    files = [*sorted(need(data / "pdf-reports-ntsb", "the reports").rglob("*.pdf")), *sorted(awkward.rglob("*.pdf"))]
    usual: list[RawDocument] = []
    scans: list[RawDocument] = []
    for path in files:
        content = path.read_bytes()
        metadata = DocumentMetadata(path.name, "", Access("default", ()), media_type=PDF)
        slow = categories.get(path.name, "") in SLOW
        (scans if slow else usual).append(RawDocument(content, digest(content), metadata))
    return usual, scans


def rounds(usual: Sequence[RawDocument], scans: Sequence[RawDocument], count: int) -> Iterator[RawDocument]:
    """So many documents, round after round, each under a name of its round."""
    given = at = 0
    while given < count:
        for raw in [*usual, *(scans if at % SCAN_ROUNDS == 0 else ())]:
            if given == count:
                return
            yield replace(raw, metadata=replace(raw.metadata, uri=f"{at}/{raw.metadata.uri}"))
            given += 1
        at += 1


def parse_all(parser: IsolatedParser, raws: Iterator[RawDocument]) -> list[Parsed]:
    """Parse one after the other; what fails is recorded with its reason, its round left out."""
    parsed: list[Parsed] = []
    for raw in raws:
        started = time.perf_counter()
        reason = ""
        try:
            parser.parse(raw)
        except RagError as error:
            reason = str(error).partition(": ")[2]
        seconds = time.perf_counter() - started
        worker = anonymous_bytes(parser.worker_pid) if parser.worker_pid else None
        name = raw.metadata.uri.partition("/")[2]
        parsed.append(Parsed(name, reason, seconds, anonymous_bytes(os.getpid()) or 0, worker))
        if len(parsed) % 100 == 0:
            out.print(f"{len(parsed):,} documents, this process {parsed[-1].here // MIB:,} MiB")
    return parsed


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.parse_memory", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=PROJECT.parent / "shared" / "data", help="folder of the data sets")
    parser.add_argument("--config", type=Path, default=PROJECT / "serve_configs" / "local" / "rag.yaml")
    parser.add_argument("--documents", type=int, default=NUM_DOCUMENTS)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON record")
    args = parser.parse_args()
    config = load_config(args.config).model_copy(update={"sources": SourcesConfig()})
    run = Run("parse_memory")
    isolated = IsolatedParser(partial(build_document_parser, config), config.parse)
    started = time.perf_counter()
    parsed = parse_all(isolated, rounds(*documents(args.data), args.documents))
    seconds = time.perf_counter() - started
    isolated.close()

    reasons: dict[str, set[str]] = defaultdict(set)
    for one in parsed:
        reasons[one.name].add(one.reason)
    quarter = len(parsed) // 4
    here = trend_of("caller", [Sample(at, one.here) for at, one in enumerate(parsed)], quarter)
    held = [(at, one.worker) for at, one in enumerate(parsed) if one.worker is not None]
    worker = trend_of("parsing process", [Sample(at, value) for at, value in held], quarter)
    trends = [trend for trend in (here, worker) if trend is not None]
    rows = [(t.name, t.median_mib, t.peak_mib, t.growth_mib) for t in trends]
    print_table("memory after each document", ("process", "median MiB", "peak MiB", "growth MiB after a quarter"), rows)
    unsteady = sorted(name for name, found in reasons.items() if len(found) > 1)
    checks = [
        verdict(len(parsed) == args.documents, f"{len(parsed):,} documents were read or have a reason"),
        verdict(not unsteady, f"every file came to the same each time {unsteady or ''}"),
        *(
            verdict(
                trend.growth_mib <= max(FLAT_MIB, FLAT_SHARE * trend.median_mib),
                f"{trend.name}: {trend.growth_mib:+.1f} MiB over the last three quarters",
            )
            for trend in trends
        ),
    ]
    figures = {
        "documents": len(parsed),
        "failed": sum(bool(one.reason) for one in parsed),
        "reasons": {name: sorted(found) for name, found in sorted(reasons.items()) if found != {""}},
        "seconds": round(seconds, 1),
        "seconds_per_document": summary([one.seconds for one in parsed]),
        "memory": [
            {"process": t.name, "median_mib": t.median_mib, "peak_mib": t.peak_mib, "growth_mib": t.growth_mib}
            for t in trends
        ],
        "flat": all(checks[2:]),
        "same_each_time": not unsteady,
    }
    run.write(figures, config, args.results)
    raise SystemExit(0 if all(checks) else 1)


if __name__ == "__main__":
    main()
