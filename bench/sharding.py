"""Do exact dense and BM25 rankings stay the same, bit for bit, however a real corpus is cut into shards and segments?

python -m bench.sharding --data ../shared/data

The handbook `wiki-sourcegraph` is read, parsed, chunked and embedded once; the questions are those that its authors
wrote. Every layout holds the same chunks and vectors; the first, one shard of one segment, is what others are held to.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.report import PROJECT, RESULTS, Run, need, out, percentile, print_table, verdict
from rag.config import RagConfig, SourcesConfig, load_config
from rag.data import Candidate, Chunk, EncodedQuery, ErrorRow, Vector, Vectors
from rag.errors import ParseError
from rag.evaluate.beir import JudgedQuery, read_collection
from rag.evaluate.collection_index import READER, READERS, TENANT, build_shards
from rag.evaluate.sampling import sample
from rag.parts import build_chunker, build_embedder, build_parser
from rag.read.objects import read_object
from rag.read.sources import list_sources
from rag.search.merge import merge_top_k

PAGES, QUESTIONS = "wiki-sourcegraph/pages", "ir-handbook-faq-sourcegraph"
LAYOUTS = ((1, 1), (2, 1), (4, 1), (7, 1), (2, 3))  # shards, segments a shard
DEPTH = 100


@dataclass(frozen=True, slots=True)
class Ranking:
    """Both legs of one query over all shards."""

    dense: tuple[Candidate, ...]
    bm25: tuple[Candidate, ...]


def read_chunks(pages: Path, config: RagConfig, max_documents: int | None) -> list[Chunk]:
    """The chunks of every page, through the real reading, parsing and chunking; a page that fails is left out."""
    parser, chunker = build_parser(config), build_chunker(config)
    sources = [found for found in list_sources(pages, config.sources) if not isinstance(found, ErrorRow)]
    chunks: list[Chunk] = []
    for source in sample(sources, max_documents):
        try:
            chunks += chunker.chunk(parser.parse(read_object(source, config.sources)))
        except ParseError as error:
            out.print(f"left out: {error}", markup=False)
    return chunks


def rankings(
    num_shards: int,
    num_segments: int,
    chunks: Sequence[Chunk],
    vectors: Vectors,
    queries: Sequence[tuple[str, Vector]],
    config: RagConfig,
) -> tuple[list[Ranking], list[float]]:
    """Both legs of every query under one layout, and the milliseconds of each search."""
    config = config.model_copy(update={"index": config.index.model_copy(update={"num_shards": num_shards})})
    found: list[Ranking] = []
    times_ms: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        shards = build_shards(Path(folder), config, chunks, vectors, num_segments)
        for text, vector in queries:
            query = EncodedQuery(text, vector, READER, shards[0].manifest.version)
            started = time.perf_counter()
            parts = [shard.search(query, DEPTH, DEPTH) for shard in shards]
            dense = merge_top_k([part.dense for part in parts], DEPTH)
            bm25 = merge_top_k([part.bm25 for part in parts], DEPTH)
            times_ms.append((time.perf_counter() - started) * 1e3)
            found.append(Ranking(dense, bm25))
    return found, times_ms


def differences(reference: Sequence[Ranking], other: Sequence[Ranking]) -> dict[str, int]:
    """In how many queries each leg differs: in the order of ids, or in any bit of a score."""
    return {
        f"{leg}_{what}": sum(
            [pick(candidate) for candidate in getattr(a, leg)] != [pick(candidate) for candidate in getattr(b, leg)]
            for a, b in zip(reference, other, strict=True)
        )
        for leg in ("dense", "bm25")
        for what, pick in (("ids", _id), ("scores", _bits))
    }


def _id(candidate: Candidate) -> str:
    return candidate.chunk_id


def _bits(candidate: Candidate) -> str:
    return candidate.score.hex()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.sharding", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=PROJECT.parent / "shared" / "data", help="folder of the sets")
    parser.add_argument("--config", type=Path, default=PROJECT / "serve_configs" / "local" / "rag.yaml")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--max-documents", type=int, help="a seeded sample of the pages, for a quick look")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON record")
    args = parser.parse_args()
    run = Run("sharding")
    pages = need(args.data / PAGES, "the handbook")
    questions: list[JudgedQuery] = sample(
        read_collection(need(args.data / QUESTIONS, "the questions")).queries, args.queries
    )
    sources = SourcesConfig(default_tenant=TENANT, default_groups=READERS)
    config = load_config(args.config).model_copy(update={"sources": sources})

    chunks = read_chunks(pages, config, args.max_documents)
    embedder = build_embedder(config)
    started = time.perf_counter()
    vectors = embedder.embed_passages([chunk.embedded_text for chunk in chunks])
    out.print(f"{len(chunks)} chunks, embedded in {time.perf_counter() - started:.0f} s")
    query_vectors = embedder.embed_queries([question.text for question in questions])
    queries = [(question.text, vector) for question, vector in zip(questions, query_vectors, strict=True)]

    reference, times_ms = rankings(*LAYOUTS[0], chunks, vectors, queries, config)
    rows = [{"shards": 1, "segments": 1, "search_ms_p50": round(percentile(times_ms, 0.5), 2)}]
    same = True
    for num_shards, num_segments in LAYOUTS[1:]:
        found, times_ms = rankings(num_shards, num_segments, chunks, vectors, queries, config)
        counted = differences(reference, found)
        same = same and not any(counted.values())
        layout = {"shards": num_shards, "segments": num_segments}
        rows.append({**layout, "search_ms_p50": round(percentile(times_ms, 0.5), 2), **counted})
    columns = tuple(rows[1])
    print_table(
        f"queries of {len(queries)} that differ from one shard, top {DEPTH}",
        columns,
        [tuple(row.get(name) for name in columns) for row in rows],
    )
    verdict(same, "ids and scores are equal under every layout")
    figures = {
        "chunks": len(chunks),
        "queries": len(queries),
        "depth": DEPTH,
        "candidates": {leg: sum(len(getattr(r, leg)) for r in reference) for leg in ("dense", "bm25")},
        "layouts": rows,
        "identical": same,
    }
    if args.max_documents is None:
        run.write(figures, config, args.results)
    raise SystemExit(0 if same else 1)


if __name__ == "__main__":
    main()
