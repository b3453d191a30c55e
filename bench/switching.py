"""Does a question notice that versions change under it?

python -m bench.switching --data ../shared/data/wiki-sourcegraph/pages

In one process, over the real pipeline and shards: 8 clients ask for answers without a pause. In half of the rounds
nothing changes, in the other half another version goes live every 2 s, by publish and rollback in turn. The rounds
alternate, so that whatever else the machine does meets both. Every passage says which version it was written for.
"""

import argparse
import asyncio
import json
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.report import PROJECT, Run, need, out, print_table, verdict
from rag.config import EmbedConfig, GenerateConfig, IndexConfig, RagConfig, RerankConfig, load_config
from rag.data import Access, Chunk, DocumentMetadata, Principal, Question
from rag.evaluate.collection_index import commit_chunks
from rag.ids import VersionId, chunk_id, document_id
from rag.index.store import open_store
from rag.live import LocalVersions, VersionFollower
from rag.parts import build_embedder
from rag.pipeline import DoneEvent, RetrievalEvent
from rag.trace import new_trace_id

CLIENTS, EVERY_S, POLL_S = 8, 2.0, 0.2
RATIO = 1.5
TENANT = "bench"
ASKER = Principal("bench", TENANT, frozenset({"everyone"}))

Figures = dict[str, Any]  # Any: numbers by name, as JSON


@dataclass
class Round:
    """What the clients saw while nothing changed, or while versions did."""

    switching: bool
    latencies_ms: list[float] = field(default_factory=list)
    versions: list[VersionId] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    mixed: int = 0  # answers with a passage of another version than their own
    switches: int = 0


def read_paragraphs(pages: Path, max_chunks: int) -> list[tuple[str, str]]:
    """(page, paragraph) of an even sample of the pages, in order."""
    found: list[tuple[str, str]] = []
    for page in sorted(pages.rglob("*.md")):
        text = page.read_text(encoding="utf-8", errors="replace")
        parts = [" ".join(part.split()) for part in text.split("\n\n")]
        found += [(page.relative_to(pages).as_posix(), part) for part in parts if 80 <= len(part) <= 1_200]
    return found[:: max(1, len(found) // max_chunks)][:max_chunks]


def edition_chunks(paragraphs: list[tuple[str, str]], edition: int) -> list[Chunk]:
    """The paragraphs as chunks of one edition; its number stands in every text."""
    chunks = []
    for place, (uri, text) in enumerate(paragraphs):
        document = document_id(TENANT, uri)
        said = f"{text} (edition {edition})"
        chunks.append(
            Chunk(
                id=chunk_id(document, said, place),
                document_id=document,
                ordinal=place,
                section=place,
                text=said,
                start=0,
                end=len(said),
                headings=(),
                regions=(),
                num_tokens=len(said.split()),
                metadata=DocumentMetadata(uri=uri, title=uri, access=Access(TENANT, ("everyone",))),
            )
        )
    return chunks


async def client(
    live: VersionFollower, questions: list[str], editions: dict[VersionId, int], seen: Round, ends: float
) -> None:
    """Asks one question after the other until the round ends."""
    place = 0
    while time.perf_counter() < ends:
        question = Question(questions[place % len(questions)], ASKER)
        place += 1
        started = time.perf_counter()
        try:
            serving = live.serving()
            texts: list[str] = []
            async for event in serving.pipeline.answer(question, new_trace_id()):
                if isinstance(event, RetrievalEvent):
                    texts = [passage.text for passage in event.passages]
                    pinned = event.version
                elif isinstance(event, DoneEvent):
                    if event.answer.partial:
                        seen.failed.append(f"partial: {event.answer.partial}")
                    mark = f"(edition {editions[pinned]})"
                    seen.mixed += event.answer.version != pinned or any(mark not in text for text in texts)
                    seen.versions.append(pinned)
        except Exception as error:  # whatever a client gets instead of an answer is a failure
            seen.failed.append(f"{type(error).__name__}: {error}")
        seen.latencies_ms.append((time.perf_counter() - started) * 1e3)


async def one_round(
    config: RagConfig,
    live: VersionFollower,
    questions: list[str],
    editions: dict[VersionId, int],
    seconds: float,
    switching: bool,
) -> Round:
    """The clients for so long, with or without versions changing."""
    seen = Round(switching)
    store, newest = open_store(config), list(editions)[-1]

    async def switch() -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            if store.current() == newest:
                await asyncio.to_thread(store.rollback)
            else:
                await asyncio.to_thread(store.publish, newest)
            seen.switches += 1

    switcher = asyncio.create_task(switch()) if switching else None
    ends = time.perf_counter() + seconds
    shares = [questions[place::CLIENTS] for place in range(CLIENTS)]
    await asyncio.gather(*(client(live, share, editions, seen, ends) for share in shares))
    if switcher is not None:
        switcher.cancel()
    return seen


async def bench(config: RagConfig, pages: Path, max_chunks: int, seconds: float, rounds: int) -> Figures:
    """Both versions, and the rounds over them."""
    paragraphs = read_paragraphs(pages, max_chunks)
    embedder = build_embedder(config)
    editions: dict[VersionId, int] = {}
    for edition in (1, 2):
        chunks = edition_chunks(paragraphs, edition)
        vectors = embedder.embed_passages([chunk.embedded_text for chunk in chunks])
        parent = next(iter(editions), None)
        editions[commit_chunks(config, chunks, vectors, parent=parent)] = edition
    open_store(config).publish(next(iter(editions)))
    parts = LocalVersions(config)
    live = VersionFollower(config, parts.prepare, parts.pipeline_of)
    following = asyncio.create_task(live.follow(POLL_S))
    questions = [text.split(".")[0][:120] for _, text in paragraphs[:: max(1, len(paragraphs) // 200)]]
    await one_round(config, live, questions, editions, min(5.0, seconds), True)  # warms both versions
    seen = [
        await one_round(config, live, questions, editions, seconds / rounds, switching)
        for _ in range(rounds)
        for switching in (False, True)
    ]
    following.cancel()
    return {"chunks": len(paragraphs), "clients": CLIENTS, **_summary(seen)}


def _summary(rounds: list[Round]) -> Figures:
    sides: Figures = {}
    for name, switching in (("steady", False), ("switching", True)):
        mine = [one for one in rounds if one.switching == switching]
        latencies = np.array([value for one in mine for value in one.latencies_ms])
        sides[name] = {
            "answers": len(latencies),
            "failed": sum(len(one.failed) for one in mine),
            "failures": sorted({words for one in mine for words in one.failed})[:5],
            "mixed": sum(one.mixed for one in mine),
            "switches": sum(one.switches for one in mine),
            "versions_seen": len({version for one in mine for version in one.versions}),
            **{f"p{q}_ms": round(float(np.percentile(latencies, q)), 2) for q in (50, 95, 99)},
            "p99_ms_of_rounds": [round(float(np.percentile(one.latencies_ms, 99)), 2) for one in mine],
        }
    sides["p99_ratio"] = sides["switching"]["p99_ms"] / sides["steady"]["p99_ms"]
    return sides


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.switching", description=__doc__)
    parser.add_argument("--config", type=Path, default=PROJECT / "serve_configs" / "local" / "rag.yaml")
    parser.add_argument("--data", type=Path, required=True, help="folder of Markdown pages")
    parser.add_argument("--chunks", type=int, default=4_000)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each side, over all its rounds")
    parser.add_argument("--rounds", type=int, default=4)
    given = parser.parse_args()
    started = Run("switching")
    with tempfile.TemporaryDirectory() as scratch:
        config = load_config(given.config).model_copy(
            update={
                "store": Path(scratch),
                "embed": EmbedConfig(embedder="hashing"),
                "rerank": RerankConfig(reranker="overlap", k_rerank=30, k_passages=4),
                "generate": GenerateConfig(generator="extractive", min_evidence=-1.0),
                "index": IndexConfig(num_shards=2),
            }
        )
        pages = need(given.data, "a folder of Markdown pages")
        figures = asyncio.run(bench(config, pages, given.chunks, given.seconds, given.rounds))
    steady, switching = figures["steady"], figures["switching"]
    columns = ("answers", "failed", "mixed", "switches", "p50_ms", "p95_ms", "p99_ms")
    rows = [(name, *(figures[name][column] for column in columns)) for name in ("steady", "switching")]
    print_table("Answers of 8 clients", ("side", *columns), rows)
    claims = {
        "no request fails": not steady["failed"] and not switching["failed"],
        "no answer is from two versions": not steady["mixed"] and not switching["mixed"],
        "both versions answered": switching["versions_seen"] == 2 and switching["switches"] > 0,
        f"p99 stays within {RATIO} x": figures["p99_ratio"] <= RATIO,
    }
    figures["claims"] = claims
    out.print(json.dumps({"p99_ratio": round(figures["p99_ratio"], 3)}))
    out.print(f"written to {started.write(figures, config).name}")
    held = [verdict(holds, claim) for claim, holds in claims.items()]
    raise SystemExit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
