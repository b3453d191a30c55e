"""Does a search or a fetch ever show somebody what they may not read?

python -m bench.leaks --checks 1e6

Random callers ask random questions of two versions of an index (the second has tombstones and newer segments) that is
built with every dense backend, while documents and groups are revoked and given back. One check is one caller with one
question: whatever ids come out, of the dense leg, of BM25, of the scores, or of a fetch by random ids with neighbours,
are looked up in the permissions as the sources had them, which the index never sees. The planner may not fall back on
exact search, so that the backends' own masks are what is tried.
"""

import argparse
import multiprocessing
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, repeat
from pathlib import Path
from typing import Any, get_args

import numpy as np

from bench.report import RESULTS, Run, out, print_table, stop, verdict
from bench.search import Kind as Kind
from rag.config import DenseIndexConfig, IndexConfig, PlanConfig, RagConfig, SearchConfig
from rag.data import Access, Chunk, DocumentMetadata, EncodedQuery, Principal, Vectors
from rag.evaluate.collection_index import records_of
from rag.ids import ChunkId, DocumentId, VersionId, chunk_id, document_id, shard_of
from rag.index.commit import commit_version
from rag.index.revocations import Revocation, RevocationFeed, RevocationList
from rag.index.segment import SegmentInfo, write_segment
from rag.index.shard import LocalShard, open_shard
from rag.index.store import IndexStore

DIM, K, NUM_SHARDS = 16, 8, 2
TENANTS, GROUPS = ("acme", "rival"), tuple(f"group-{n}" for n in range(8))
WORDS = tuple(f"word{n}" for n in range(60))
DOCUMENTS, CHUNKS_A_DOCUMENT = 220, 4
CHECKS_A_REVOCATION = 400


@dataclass(slots=True)
class World:
    """An index of one backend, and the permissions of its documents as the sources had them."""

    shards: dict[str, list[LocalShard]]  # version -> its shards
    chunks: dict[str, dict[ChunkId, Chunk]]  # version -> what is live in it
    revoked: list[RevocationList] = field(default_factory=lambda: [RevocationList()])  # the one in force

    def may_read(self, version: str, name: ChunkId, principal: Principal) -> bool:
        """By the sources alone; not a line of it is the index's."""
        chunk = self.chunks[version].get(name)
        if chunk is None or chunk.metadata.access.tenant != principal.tenant:
            return False
        groups = set(principal.groups)
        for entry in self.revoked[0].revocations:
            if entry.kind == "document" and entry.name == chunk.document_id:
                return False
            if entry.kind == "group" and entry.tenant in (None, principal.tenant):
                groups.discard(entry.name)
        return not groups.isdisjoint(chunk.metadata.access.groups)


@dataclass(frozen=True, slots=True)
class Leak:
    """One id that came out and must not have."""

    version: str
    where: str
    chunk_id: ChunkId
    principal: Principal


def build_world(folder: Path, kind: Kind, seed: int) -> World:
    """Two versions: the second without a third of the documents of the first, and with others instead."""
    dense = DenseIndexConfig.model_validate(
        {"kind": kind, "min_rows": 256, "nlist": 16, "nprobe": 2, "m": 8, "ef_construction": 32, "pq_bytes": 8}
    )
    config = RagConfig(
        store=folder,
        var=folder,
        models=folder,
        index_name=kind.replace("_", "-"),
        index=IndexConfig(num_shards=NUM_SHARDS, dense=dense),
        search=SearchConfig(plan=PlanConfig(exact_rows=0, exact_share=0.0, exact_share_hnsw=0.0), mask_cache_mb=1),
    )
    rng = np.random.default_rng([seed, DOCUMENTS])
    store = IndexStore(config.index_root)
    first = _documents(rng, range(DOCUMENTS))
    gone = {name for name in first if rng.random() < 0.3}
    added = _documents(rng, range(DOCUMENTS, DOCUMENTS + DOCUMENTS // 2))
    kept = {name: chunks for name, chunks in first.items() if name not in gone}
    versions: list[tuple[VersionId, dict[DocumentId, list[Chunk]]]] = []
    for new, removed, live in ((first, set[DocumentId](), first), (added, gone, kept | added)):
        parent = versions[-1][0] if versions else None
        manifest = commit_version(
            store,
            _segments(store, rng, new, config),
            removed,
            records_of(chain.from_iterable(live.values()), NUM_SHARDS),
            config,
            DIM,
            parent,
        )
        versions.append((manifest.version, live))
    world = World({}, {})
    for version, live in versions:
        world.chunks[version] = {chunk.id: chunk for chunks in live.values() for chunk in chunks}
        world.shards[version] = [open_shard(config.index_root, version, n, config) for n in range(NUM_SHARDS)]
        for shard in world.shards[version]:
            shard.follow(RevocationFeed(lambda: world.revoked[0], interval_s=0.0))
    return world


def hunt(world: World, num_checks: int, rng: np.random.Generator) -> Iterator[tuple[Leak | None, Counter[str]]]:
    """One check after another: the first leak in it or None, and what it looked at."""
    versions = list(world.shards)
    principals: list[Principal] = []
    for number in range(num_checks):
        if number % CHECKS_A_REVOCATION == 0:
            world.revoked[0] = _revocations(world, rng)
            principals = [_principal(rng) for _ in range(40)]
        version = versions[int(rng.integers(len(versions)))]
        shard = world.shards[version][int(rng.integers(NUM_SHARDS))]
        yield _check(world, version, shard, principals[int(rng.integers(len(principals)))], rng)


def _check(
    world: World, version: str, shard: LocalShard, principal: Principal, rng: np.random.Generator
) -> tuple[Leak | None, Counter[str]]:
    vector = rng.standard_normal(DIM).astype(np.float32)
    text = " ".join(WORDS[n] for n in rng.integers(0, len(WORDS), 3))
    query = EncodedQuery(text, vector / np.linalg.norm(vector), principal, shard.manifest.version)
    found = shard.search(query, K, K)
    shown = {
        "dense": [candidate.chunk_id for candidate in found.dense],
        "bm25": [candidate.chunk_id for candidate in found.bm25],
        "scores": list(found.scores),
    }
    if rng.random() < 0.1:
        known = list(world.chunks[version])
        asked = [known[n] for n in rng.integers(0, len(known), 4)]
        shown["fetch"] = [chunk.id for chunk in shard.fetch(query, asked, neighbours=1)]
    counts = Counter({f"ids by {where}": len(ids) for where, ids in shown.items()})
    counts[f"searched by {found.strategy}"] += 1
    for where, ids in shown.items():
        for name in ids:
            if not world.may_read(version, name, principal):
                return Leak(version, where, name, principal), counts
    return None, counts


def _documents(rng: np.random.Generator, numbers: Sequence[int] | range) -> dict[DocumentId, list[Chunk]]:
    made: dict[DocumentId, list[Chunk]] = {}
    for number in numbers:
        tenant = TENANTS[int(rng.random() < 0.2)]
        groups = tuple(sorted(name for name in GROUPS if rng.random() < 0.2))
        document = document_id(tenant, f"d{number}")
        made[document] = []
        for ordinal in range(CHUNKS_A_DOCUMENT):
            text = " ".join(WORDS[n] for n in rng.integers(0, len(WORDS), 12))
            made[document].append(
                Chunk(
                    id=chunk_id(document, text, ordinal),
                    document_id=document,
                    ordinal=ordinal,
                    section=0,
                    text=text,
                    start=0,
                    end=len(text),
                    headings=(),
                    regions=(),
                    num_tokens=12,
                    metadata=DocumentMetadata(uri=f"d{number}", title="", access=Access(tenant, groups)),
                )
            )
    return made


def _segments(
    store: IndexStore, rng: np.random.Generator, documents: dict[DocumentId, list[Chunk]], config: RagConfig
) -> dict[int, list[SegmentInfo]]:
    by_shard: dict[int, list[Chunk]] = {}
    for document, chunks in documents.items():
        by_shard.setdefault(shard_of(document, NUM_SHARDS), []).extend(chunks)
    made: dict[int, list[SegmentInfo]] = {}
    for shard, chunks in sorted(by_shard.items()):
        vectors: Vectors = rng.standard_normal((len(chunks), DIM)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        made[shard] = [write_segment(store.segments_dir, chunks, vectors, config.index)]
    return made


def _principal(rng: np.random.Generator) -> Principal:
    """Anybody: of no group, of many, of one that does not exist, an operator."""
    groups = frozenset(name for name in (*GROUPS, "nobody") if rng.random() < rng.random())
    return Principal("somebody", TENANTS[int(rng.random() < 0.3)], groups, operator=bool(rng.random() < 0.2))


def _revocations(world: World, rng: np.random.Generator) -> RevocationList:
    documents = sorted({chunk.document_id for chunks in world.chunks.values() for chunk in chunks.values()})
    chosen = [documents[n] for n in rng.integers(0, len(documents), int(rng.integers(0, 40)))]
    groups = [(TENANTS[int(rng.integers(2))], name) for name in GROUPS if rng.random() < 0.1]
    now = datetime.now(UTC)
    return RevocationList(
        revocations=(
            *(Revocation(kind="document", name=name, label=name, revoked_at=now) for name in dict.fromkeys(chosen)),
            *(
                Revocation(kind="group", name=name, label=name, tenant=tenant, revoked_at=now)
                for tenant, name in groups
            ),
        )
    )


def hunt_in(kind: Kind, num_checks: int, seed: int) -> dict[str, Any]:  # Any: a JSON record
    """All checks of one backend, in a folder of its own: what came out, and the leaks in words."""
    started, counts, leaks = time.perf_counter(), Counter[str](), []
    with tempfile.TemporaryDirectory() as folder:
        for leak, looked_at in hunt(
            build_world(Path(folder), kind, seed), num_checks, np.random.default_rng([seed, 1])
        ):
            counts.update(looked_at)
            if leak is not None:
                leaks.append(str(leak))
    seconds = round(time.perf_counter() - started)
    return {
        "backend": kind,
        "checks": num_checks,
        "leaks": len(leaks),
        "first": leaks[:5],
        "seconds": seconds,
        **counts,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.leaks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--checks", type=float, default=1e6, help="over all backends together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2, help="backends that are tried side by side")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON record")
    args = parser.parse_args()
    run = Run("leaks")
    kinds: tuple[Kind, ...] = get_args(Kind)
    each = int(args.checks) // len(kinds)
    if not each:
        stop(f"--checks {args.checks:g}: at least {len(kinds)}, one a backend")
    with ProcessPoolExecutor(args.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        rows = list(pool.map(hunt_in, kinds, repeat(each), repeat(args.seed)))
    columns = ("backend", "checks", "leaks", "ids by dense", "ids by bm25", "ids by scores", "ids by fetch", "seconds")
    print_table("what came out", columns, [[row.get(name, 0) for name in columns] for row in rows])
    leaks = sum(row["leaks"] for row in rows)
    holds = verdict(leaks == 0, f"{each * len(kinds)} checks, {leaks} leaks")
    for row in rows:
        out.print(*row["first"], sep="\n", markup=False)
    run.write({"checks": each * len(kinds), "leaks": leaks, "backends": rows}, None, args.results)
    raise SystemExit(0 if holds else 1)


if __name__ == "__main__":
    main()
