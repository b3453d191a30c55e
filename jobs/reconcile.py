"""The index against its sources: `python -m jobs.reconcile --config FILE [PATH...]`, or `quire reconcile`.

Lists what the sources hold and compares it with what the live version holds. Documents that are indexed and gone from
their source are missed deletions; `--repair` takes them out. What is missing or changed is for the next ingest.
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jobs.ingest_plan import Plan, make_plan
from jobs.printing import print_error, print_failure, print_json, print_pairs, print_rows, say
from rag.config import RagConfig, load_config
from rag.errors import RagError
from rag.ids import VersionId
from rag.index.commit import commit_version
from rag.index.consistency import check_version
from rag.index.manifest import Manifest, with_encoder_of
from rag.index.reclaim import reclaim
from rag.index.registry import DocumentRecord
from rag.index.revoke import absorb_revocations
from rag.index.store import IndexStore, open_store

SHOWN = 20


@dataclass(frozen=True, slots=True)
class ReconcileReport:
    """How far the live version is from its sources, each thing by uri."""

    version: VersionId  # live at the end
    indexed: int
    listed: int
    missed_deletes: tuple[str, ...]  # indexed, and gone from their source
    missing: tuple[str, ...]  # in a source, not indexed
    changed: tuple[str, ...]  # newer in the source
    other_readers: tuple[str, ...]  # readers or other metadata differ
    unlisted: tuple[str, ...]  # sources that could not be read, or are nowhere now: not compared
    repaired: bool = False

    @property
    def exit_code(self) -> int:
        """1 when something differs that was not repaired."""
        left = self.missing or self.changed or self.other_readers or self.unlisted
        return 1 if left or (self.missed_deletes and not self.repaired) else 0

    def to_json(self) -> dict[str, Any]:  # Any: JSON
        return asdict(self)

    def rows(self) -> dict[str, object]:
        """The summary as names and values for a table."""
        return {
            "version": self.version,
            "documents": f"{self.indexed} indexed, {self.listed} in the sources",
            "missed deletions": f"{len(self.missed_deletes)}{', repaired' if self.repaired else ''}",
            "not indexed": len(self.missing),
            "changed in the source": len(self.changed),
            "other readers or metadata": len(self.other_readers),
            "not compared": len(self.unlisted),
        }


def reconcile(config: RagConfig, roots: Sequence[Path] = (), *, repair: bool = False) -> ReconcileReport:
    """Compares the live version with the sources; with `repair` missed deletions are taken out and published.

    Without roots, those of the indexed documents. A root that is nowhere now, an unmounted disk perhaps, deletes
    nothing. Raises IndexDamaged where the version contradicts itself, NotFound where nothing is live.
    """
    store = open_store(config)
    with store.writing():
        live = store.manifest(store.current())
        check_version(store, live)
        known = store.registry(live.version)
        places = list(roots) or [Path(root) for root in sorted({record.root for record in known})]
        there = [place for place in places if place.exists()]
        plan = make_plan(there, config.sources, known)
        report = _report(live, known, plan, [str(place) for place in places if not place.exists()])
        if not repair or not plan.deleted:
            return report
        manifest = _without(store, config, live, known, plan)
        store.publish(manifest.version, {"reconciled": len(plan.deleted)})
        absorb_revocations(store, manifest)
        reclaim(store, config.index)
    return ReconcileReport(**{**_fields(report), "version": manifest.version, "repaired": True})


def _without(
    store: IndexStore, config: RagConfig, live: Manifest, known: Sequence[DocumentRecord], plan: Plan
) -> Manifest:
    gone = set(plan.deleted)
    kept = [record for record in known if record.document_id not in gone]
    own = with_encoder_of(config, live)
    return commit_version(store, {}, gone, kept, own, live.encoder.dim, parent=live.version, made_by="reconcile")


def _report(live: Manifest, known: Sequence[DocumentRecord], plan: Plan, nowhere: Sequence[str]) -> ReconcileReport:
    uri_of = {record.document_id: record.uri for record in known}
    compared = [(task, task.known) for task in plan.to_read]
    return ReconcileReport(
        version=live.version,
        indexed=len(known),
        listed=plan.num_listed,
        missed_deletes=tuple(sorted(uri_of[document] for document in plan.deleted)),
        missing=tuple(task.source.uri for task, before in compared if before is None),
        changed=tuple(t.source.uri for t, before in compared if before and before.watermark != t.source.watermark),
        other_readers=tuple(
            t.source.uri for t, before in compared if before and before.metadata_hash != t.metadata_hash
        ),
        unlisted=(*nowhere, *(row.uri for row in plan.failed)),
    )


def _fields(report: ReconcileReport) -> dict[str, Any]:  # Any: each field has its own type
    return {name: getattr(report, name) for name in report.__slots__}


def run(config_file: Path, roots: Sequence[Path], *, repair: bool = False, as_json: bool = False) -> int:
    """Reconcile and print the report; the exit code: 1 when something differs that was not repaired."""
    report = reconcile(load_config(config_file), roots, repair=repair)
    if as_json:
        print_json(report.to_json())
        return report.exit_code
    print_pairs("Index against sources", report.rows())
    kinds = {
        "missed deletion": report.missed_deletes,
        "not indexed": report.missing,
        "changed": report.changed,
        "other readers": report.other_readers,
        "not compared": report.unlisted,
    }
    rows = [(kind, uri) for kind, uris in kinds.items() for uri in uris]
    if rows:
        print_rows("Differences", ("what", "document"), rows[:SHOWN])
    if len(rows) > SHOWN:
        say(f"and {len(rows) - SHOWN} more; --json lists all")
    if report.missed_deletes and not report.repaired:
        print_error("--repair takes the missed deletions out of the index")
    if report.missing or report.changed or report.other_readers:
        say("`quire ingest` brings in what is missing or changed")
    return report.exit_code


def main() -> None:
    """Run `python -m jobs.reconcile`. Exit codes: 0, 1 when something differs, 2 for wrong arguments."""
    parser = argparse.ArgumentParser(prog="python -m jobs.reconcile", description="Compare the index with its sources.")
    parser.add_argument("--config", type=Path, required=True, help="rag.yaml")
    parser.add_argument("--repair", action="store_true", help="take missed deletions out")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print the report as JSON")
    parser.add_argument("paths", type=Path, nargs="*", metavar="PATH", help="the sources; left out: those indexed")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        code = run(given.config, given.paths, repair=given.repair, as_json=given.as_json)
    except RagError as error:
        code = print_failure(error)
    sys.exit(code)


if __name__ == "__main__":
    main()
