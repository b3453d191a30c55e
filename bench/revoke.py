"""How long does a revoked document stay readable, and a revocation that is taken back stay in force?

python -m bench.revoke

Shards that are open, on a folder and on an object store (fsspec's memory filesystem): a client searches them every
10 ms and fetches what it finds, while one document after the other is revoked and opened again. The time runs from the
command's return to the last answer that still shows the document, or the first that shows it again.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.paragraphs import paragraph_chunks
from bench.report import Run, out, print_table, verdict
from rag.config import EmbedConfig, IndexConfig, RagConfig, RemoteConfig
from rag.data import EncodedQuery
from rag.evaluate.collection_index import READER, commit_chunks
from rag.index.revoke import revoke, unrevoke
from rag.index.shard import LocalShard
from rag.index.store import open_store
from rag.local import open_shards
from rag.parts import build_embedder

LIMIT_S, EVERY_S = 5.0, 0.01
DOCUMENTS, PARAGRAPHS = 200, 5

Figures = dict[str, Any]  # Any: numbers by name, as JSON


def build(config: RagConfig) -> list[LocalShard]:
    """Open shards over a published version."""
    paragraphs = [
        (f"page-{page}.md", f"Paragraph {place} of page {page} says what rule {page} is.")
        for page in range(DOCUMENTS)
        for place in range(PARAGRAPHS)
    ]
    chunks = paragraph_chunks(paragraphs)
    vectors = build_embedder(config).embed_passages([chunk.embedded_text for chunk in chunks])
    version = commit_chunks(config, chunks, vectors)
    open_store(config).publish(version)
    return open_shards(config, version)


def seconds_until(holds: Callable[[], bool]) -> float:
    """How long it takes until it holds; looked at every few milliseconds."""
    started = time.perf_counter()
    while not holds():
        if time.perf_counter() - started > 4 * LIMIT_S:
            return float("inf")
        time.sleep(EVERY_S)
    return time.perf_counter() - started


def readable(shards: Sequence[LocalShard], query: EncodedQuery, uri: str) -> bool:
    """Whether a search, or a fetch of all that it finds, still shows the document."""
    for shard in shards:
        found = shard.search(query, PARAGRAPHS * DOCUMENTS, PARAGRAPHS)
        names = [candidate.chunk_id for candidate in (*found.dense, *found.bm25)]
        if any(chunk.metadata.uri == uri for chunk in shard.fetch(query, names, neighbours=1)):
            return True
    return False


def measure(config: RagConfig, rounds: int) -> Figures:
    """Times to hide and to show again, over so many documents."""
    shards, store = build(config), open_store(config)
    vector = build_embedder(config).embed_queries(["paragraph of page rule"])[0]
    query = EncodedQuery("paragraph page rule", vector, READER, shards[0].manifest.version)
    readable(shards, query, "page-0.md")  # warms up: the first search of a process compiles
    hidden, shown = [], []
    for place in range(rounds):
        uri = f"page-{place * 7 % DOCUMENTS}.md"
        revoke(store, uri)
        hidden.append(seconds_until(lambda uri=uri: not readable(shards, query, uri)))  # type: ignore[misc]
        unrevoke(store, uri)
        shown.append(seconds_until(lambda uri=uri: readable(shards, query, uri)))  # type: ignore[misc]
    return {
        name: {"median_s": float(np.median(values)), "max_s": float(np.max(values)), "rounds": rounds}
        for name, values in (("hidden", hidden), ("shown again", shown))
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.revoke", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    started = Run("revoke")
    figures: Figures = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, url in (("folder", ""), ("object store", "memory://bench-revoke")):
            place = Path(scratch) / name.replace(" ", "-")
            config = RagConfig(
                store=place,
                var=place,
                models=place,
                embed=EmbedConfig(embedder="hashing"),
                index=IndexConfig(num_shards=2),
                remote=RemoteConfig(url=url),
            )
            figures[name] = measure(config, given.rounds)
    rows = [(name, what, one["median_s"], one["max_s"]) for name, both in figures.items() for what, one in both.items()]
    print_table("From the command to the answers", ("store", "document", "median s", "max s"), rows)
    worst = max(row[3] for row in rows)
    claims = {f"a revocation is in force within {LIMIT_S:.0f} s, and so is its end": worst <= LIMIT_S}
    out.print(f"written to {started.write({**figures, 'claims': claims}).name}")
    held = [verdict(holds, claim) for claim, holds in claims.items()]
    raise SystemExit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
