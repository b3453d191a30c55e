"""Small segments merged, dead rows dropped: `python -m jobs.compact --config FILE`, or `quire compact`.

The new version ranks exactly as the live one did, takes less space and is searched faster.
"""

import argparse
import logging
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from jobs.printing import print_failure, print_json, print_pairs
from rag.config import RagConfig, load_config
from rag.errors import RagError
from rag.ids import VersionId
from rag.index.compact import compact, plan_compaction
from rag.index.manifest import with_encoder_of
from rag.index.reclaim import reclaim
from rag.index.store import open_store


@dataclass(frozen=True, slots=True)
class CompactReport:
    """What a compaction did; nothing where the version it names was live before."""

    version: VersionId
    published: bool
    segments_before: int
    segments_after: int
    rows_dropped: int


def compact_index(config: RagConfig, *, everything: bool = False) -> CompactReport:
    """Compacts the live version and publishes the result. With `everything` no dead row stays.

    Raises NotFound where nothing is live, IndexMismatch for other settings, RagError while another run writes.
    """
    store = open_store(config)
    with store.writing():
        live = store.manifest(store.current())
        segments = sum(len(shard.segments) for shard in live.shards)
        plan = plan_compaction(live, config.index.segment_chunks, everything=everything)
        if not plan:
            return CompactReport(live.version, False, segments, segments, 0)
        manifest = compact(store, live, plan, with_encoder_of(config, live))
        store.publish(manifest.version, {"compacted": True})
        reclaim(store, config.index)
    left = sum(len(shard.segments) for shard in manifest.shards)
    dropped = live.counts.tombstones - manifest.counts.tombstones
    return CompactReport(manifest.version, True, segments, left, dropped)


def run(config_file: Path, *, everything: bool = False, as_json: bool = False) -> int:
    """Compact and print the report; the exit code."""
    report = compact_index(load_config(config_file), everything=everything)
    if as_json:
        print_json(asdict(report))
        return 0
    state = "published" if report.published else "unchanged: nothing to gain"
    segments = f"{report.segments_before} before, {report.segments_after} after"
    print_pairs(
        "Compaction",
        {"version": f"{report.version} ({state})", "segments": segments, "dead rows dropped": report.rows_dropped},
    )
    return 0


def main() -> None:
    """Run `python -m jobs.compact`. Exit codes: 0, 1 when it failed, 2 for wrong arguments or configuration."""
    parser = argparse.ArgumentParser(prog="python -m jobs.compact", description="Merge segments, drop dead rows.")
    parser.add_argument("--config", type=Path, required=True, help="rag.yaml")
    parser.add_argument("--all", action="store_true", dest="everything", help="leave no dead row")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print the report as JSON")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        code = run(given.config, everything=given.everything, as_json=given.as_json)
    except RagError as error:
        code = print_failure(error)
    sys.exit(code)


if __name__ == "__main__":
    main()
