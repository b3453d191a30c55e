"""How good are BM25, dense search, their fusion and reranking on judged questions, and which weights suit them?

python -m bench.quality --data ../shared/data [--sets ir-cisi ...] [--max-queries N] [--weights]

Each document of a collection becomes one chunk (title and text) and goes through the real code: `write_segment` into
two shards, `LocalShard.search`, `combine`, the reranker over the fused top, `combined_scores`. The legs are judged
100 deep; what is fused of them is what the configuration's `search` says.
"""

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.report import PROJECT, RESULTS, Run, need, out, percentile, print_table, verdict
from rag.config import LexicalIndexConfig, RagConfig, RerankConfig, load_config
from rag.data import Candidate, Chunk, FirstStageScores, SearchResult, Vectors
from rag.evaluate.beir import Collection, JudgedQuery, read_collection
from rag.evaluate.collection_index import build_shards, chunk_of, query_for
from rag.evaluate.metrics import mean, mrr_at_k, ndcg_at_k, recall_at_k
from rag.evaluate.sampling import sample
from rag.ids import ChunkId
from rag.parts import build_embedder, build_reranker
from rag.protocols import Embedder, Reranker
from rag.rerank.combine import combined_scores, rank_candidates
from rag.search.merge import combine, merge_top_k

SETS = (
    "ir-handbook-faq-sourcegraph",
    "ir-handbook-faq-18f",
    "ir-product-docs",
    "ir-cranfield",
    "ir-cisi",
    "ir-npl",
)
STAGES = ("bm25", "dense", "rrf", "reranked")
METRICS: Mapping[str, Callable[[Sequence[str], Mapping[str, int]], float]] = {
    "ndcg@10": lambda ranking, grades: ndcg_at_k(ranking, grades, 10),
    "recall@100": lambda ranking, grades: recall_at_k(ranking, grades, 100),
    "mrr@10": lambda ranking, grades: mrr_at_k(ranking, grades, 10),
}
# nDCG@10 of an independent implementation on the same data: title + text, English stemmer and stop words.
REFERENCE: Mapping[str, Mapping[str, float]] = {
    "bm25": dict(zip(SETS, (0.497, 0.411, float("nan"), 0.382, 0.396), strict=False)),
    "dense": dict(zip(SETS, (0.512, 0.560, 0.682, 0.395, 0.421), strict=False)),
    "rrf": dict(zip(SETS, (0.536, 0.557, 0.785, 0.426, 0.446), strict=False)),
}
DEPTH = 100  # recall@100 needs as many from each leg
QUERIES_AT_ONCE = 8  # read the passages that they share once

WEIGHTS = {
    "bm25_weight": (0.0, 0.5, 0.8, 1.2),
    "model_weight": (0.0, 0.2, 0.5, 1.0, 1.2, 1.5),
}
K1, B = (0.9, 1.2, 1.5, 2.0), (0.4, 0.6, 0.75, 0.9)

Scores = dict[str, float]  # metric -> mean over queries
Logits = dict[str, list[float]]  # query -> the reranker's scores of its fused head, best fused first


@dataclass(frozen=True, slots=True)
class Searched:
    """One query after the first stage; ids are those of the collection."""

    query: JudgedQuery
    dense: Sequence[Candidate]  # DEPTH deep
    bm25: Sequence[Candidate]
    result: SearchResult  # as deep as the configuration says
    names: Mapping[ChunkId, str]

    def named(self, candidates: Sequence[Candidate]) -> list[str]:
        return [self.names[candidate.chunk_id] for candidate in candidates]


@dataclass(frozen=True, slots=True)
class Encoded:
    """A collection with its vectors: what every variant of the index is built from."""

    collection: Collection
    chunks: tuple[Chunk, ...]
    vectors: Vectors
    query_vectors: Vectors


def encode(collection: Collection, embedder: Embedder) -> tuple[Encoded, float]:
    """The collection with its vectors, and the seconds that those of its documents took."""
    chunks = tuple(chunk_of(document) for document in collection.documents)
    started = time.perf_counter()
    vectors = embedder.embed_passages([chunk.embedded_text for chunk in chunks])
    seconds = time.perf_counter() - started
    query_vectors = embedder.embed_queries([query.text for query in collection.queries])
    return Encoded(collection, chunks, vectors, query_vectors), seconds


def search_all(encoded: Encoded, config: RagConfig) -> tuple[list[Searched], list[float]]:
    """Every query through both legs of every shard and the fusion, and the milliseconds that each took."""
    names = {chunk.id: chunk.metadata.uri for chunk in encoded.chunks}
    searched: list[Searched] = []
    times_ms: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        shards = build_shards(Path(folder), config, encoded.chunks, encoded.vectors)
        version = shards[0].manifest.version
        for query, vector in zip(encoded.collection.queries, encoded.query_vectors, strict=True):
            started = time.perf_counter()
            wanted = query_for(version, query.text, vector)
            parts = [shard.search(wanted, DEPTH, DEPTH) for shard in shards]
            result = combine(parts, (), config.search, limit=DEPTH)
            times_ms.append((time.perf_counter() - started) * 1e3)
            dense = merge_top_k([part.dense for part in parts], DEPTH)
            bm25 = merge_top_k([part.bm25 for part in parts], DEPTH)
            searched.append(Searched(query, dense, bm25, result, names))
    return searched, times_ms


def score_all(
    searched: Sequence[Searched], chunks: Sequence[Chunk], reranker: Reranker, k_rerank: int
) -> tuple[Logits, float]:
    """The reranker's scores of the fused head of every query, and the seconds that they took."""
    texts = {chunk.metadata.uri: chunk.embedded_text for chunk in chunks}
    logits: Logits = {}
    started = time.perf_counter()
    for start in range(0, len(searched), QUERIES_AT_ONCE):
        group = searched[start : start + QUERIES_AT_ONCE]
        heads = [(one.query.text, [texts[name] for name in one.named(one.result.fused[:k_rerank])]) for one in group]
        logits |= zip([one.query.id for one in group], reranker.score_many(heads), strict=True)
    return logits, time.perf_counter() - started


def rerank(one: Searched, logits: Logits, config: RerankConfig) -> list[str]:
    """The fused ranking with its head, as far as it was scored, in the order of the combined scores."""
    scored = logits[one.query.id]
    head, tail = one.result.fused[: len(scored)], one.result.fused[len(scored) :]
    first: list[FirstStageScores] = [one.result.scores[candidate.chunk_id] for candidate in head]
    ranked = rank_candidates([c.chunk_id for c in head], combined_scores(first, scored, config))
    return one.named([*ranked, *tail])


def evaluate(rankings: Sequence[Sequence[str]], queries: Sequence[JudgedQuery]) -> Scores:
    """Every metric, averaged over the queries."""
    return {
        name: mean(metric(ranking, query.grades) for ranking, query in zip(rankings, queries, strict=True))
        for name, metric in METRICS.items()
    }


def first_stages(searched: Sequence[Searched]) -> dict[str, Scores]:
    """The scores of each leg and of their fusion."""
    queries = [one.query for one in searched]
    return {
        "bm25": evaluate([one.named(one.bm25) for one in searched], queries),
        "dense": evaluate([one.named(one.dense) for one in searched], queries),
        "rrf": evaluate([one.named(one.result.fused) for one in searched], queries),
    }


def over_sets(by_set: Mapping[str, Scores]) -> Scores:
    """The mean over collections, each counting once."""
    return {metric: mean(scores[metric] for scores in by_set.values()) for metric in METRICS}


# ---------------------------------------------------------------- grids


def weight_grid(
    by_set: Mapping[str, tuple[Sequence[Searched], Logits]], config: RerankConfig
) -> list[dict[str, float]]:
    """nDCG@10 of every combination of weights on every set and on the mean, best mean first."""
    rows = []
    for bm25_weight, model_weight in itertools.product(WEIGHTS["bm25_weight"], WEIGHTS["model_weight"]):
        weights = {"dense_weight": 1.0, "bm25_weight": bm25_weight, "model_weight": model_weight}
        tried = config.model_copy(update=weights)
        scores = {
            name: mean(ndcg_at_k(rerank(one, logits, tried), one.query.grades, 10) for one in searched)
            for name, (searched, logits) in by_set.items()
        }
        rows.append({**weights, **scores, "mean": mean(scores.values())})
    return sorted(rows, key=lambda row: -row["mean"])


def bm25_grid(by_set: Mapping[str, Encoded], config: RagConfig) -> list[dict[str, float]]:
    """nDCG@10 of BM25 and of the fusion for every (k1, b), on the mean over sets, best fusion first."""
    rows = []
    for k1, b in itertools.product(K1, B):
        tried = with_lexical(config, config.index.lexical.model_copy(update={"k1": k1, "b": b}))
        stages = [first_stages(search_all(encoded, tried)[0]) for encoded in by_set.values()]
        bm25, rrf = (mean(scores[stage]["ndcg@10"] for scores in stages) for stage in ("bm25", "rrf"))
        rows.append({"k1": k1, "b": b, "bm25": bm25, "rrf": rrf})
        out.print(f"[dim]k1 {k1} b {b}: BM25 {bm25:.4f}, RRF {rrf:.4f}[/dim]")
    return sorted(rows, key=lambda row: -row["rrf"])


def with_lexical(config: RagConfig, lexical: LexicalIndexConfig) -> RagConfig:
    return config.model_copy(update={"index": config.index.model_copy(update={"lexical": lexical})})


# ---------------------------------------------------------------- the command


def benchmark_config(path: Path, k1: float | None = None, b: float | None = None) -> RagConfig:
    """The configuration of the file with two shards and the BM25 settings asked for."""
    config = load_config(path)
    lexical = config.index.lexical.model_copy(
        update={name: value for name, value in (("k1", k1), ("b", b)) if value is not None}
    )
    index = config.index.model_copy(update={"num_shards": 2, "lexical": lexical})
    return config.model_copy(update={"index": index})


def read_sets(data: Path, names: Sequence[str], max_queries: int | None) -> Iterator[Collection]:
    for name in names:
        collection = read_collection(need(data / name, "the collection"))
        queries = tuple(sample(collection.queries, max_queries))
        yield Collection(name, collection.documents, queries)


def show(name: str, stages: Mapping[str, Scores]) -> None:
    reference = {stage: values[name] for stage, values in REFERENCE.items() if name in values}
    rows = [
        (stage, *scores.values(), reference.get(stage) if reference.get(stage, 0) > 0 else None)
        for stage, scores in stages.items()
    ]
    print_table(name, ("stage", *METRICS, "reference ndcg@10"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.quality", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=PROJECT.parent / "shared" / "data", help="folder of the sets")
    parser.add_argument("--sets", nargs="+", default=list(SETS), metavar="SET")
    parser.add_argument("--config", type=Path, default=PROJECT / "serve_configs" / "local" / "rag.yaml")
    parser.add_argument("--max-queries", type=int, help="a seeded sample of each set, for a quick look")
    parser.add_argument("--k-rerank", type=int, default=50, help="fused candidates that are reranked")
    parser.add_argument("--weights", action="store_true", help="also try weights and BM25 settings; recommends")
    parser.add_argument("--k1", type=float, help="instead of the configuration's")
    parser.add_argument("--b", type=float, help="instead of the configuration's")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON record")
    args = parser.parse_args()
    run = Run("quality")
    config = benchmark_config(args.config, args.k1, args.b)

    embedder, reranker = build_embedder(config), build_reranker(config)
    encoded_sets: dict[str, Encoded] = {}
    searched_sets: dict[str, tuple[Sequence[Searched], Logits]] = {}
    stages_of: dict[str, dict[str, Scores]] = {}
    speed: dict[str, dict[str, float]] = {}
    for collection in read_sets(args.data, args.sets, args.max_queries):
        name = collection.name
        encoded, encode_s = encode(collection, embedder)
        encoded_sets[name] = encoded

        searched, times_ms = search_all(encoded, config)
        logits, pairs_s = score_all(searched, encoded.chunks, reranker, args.k_rerank)
        num_pairs = sum(map(len, logits.values()))
        searched_sets[name] = searched, logits
        reranked = [rerank(one, logits, config.rerank) for one in searched]
        stages_of[name] = first_stages(searched) | {"reranked": evaluate(reranked, collection.queries)}
        speed[name] = {
            "documents": len(encoded.chunks),
            "queries": len(searched),
            "encoded_per_s": round(len(encoded.chunks) / encode_s, 1),
            "search_ms_p50": round(percentile(times_ms, 0.5), 2),
            "pairs_scored": num_pairs,
            "pairs_per_s": round(num_pairs / pairs_s, 1) if num_pairs else 0.0,
        }
        show(name, stages_of[name])

    means = {stage: over_sets({name: scores[stage] for name, scores in stages_of.items()}) for stage in STAGES}
    print_table(
        f"mean over {len(stages_of)} sets", ("stage", *METRICS), [(stage, *means[stage].values()) for stage in STAGES]
    )
    print_table(
        "speed", ("set", *next(iter(speed.values()))), [(name, *values.values()) for name, values in speed.items()]
    )
    ndcg = {stage: scores["ndcg@10"] for stage, scores in means.items()}
    verdicts = {
        "rrf_above_both_legs": verdict(
            ndcg["rrf"] > max(ndcg["bm25"], ndcg["dense"]), "RRF above either leg on the mean nDCG@10"
        ),
        "reranked_above_rrf": verdict(ndcg["reranked"] > ndcg["rrf"], "reranked above RRF on the mean nDCG@10"),
        "reranked_10_percent_above_rrf": verdict(
            ndcg["reranked"] >= 1.1 * ndcg["rrf"],
            f"reranked 10% above RRF on the mean nDCG@10: {ndcg['reranked'] / ndcg['rrf'] - 1:+.1%}",
        ),
        "no_set_falls": verdict(
            all(scores["reranked"]["ndcg@10"] >= 0.99 * scores["rrf"]["ndcg@10"] for scores in stages_of.values()),
            "reranking costs no set more than 1%",
        ),
    }
    figures: dict[str, object] = {
        "sets": stages_of,
        "mean": means,
        "verdicts": verdicts,
        "speed": speed,
        "k_rerank": args.k_rerank,
        "max_queries": args.max_queries,  # of each set; null: all
    }
    if args.weights:
        figures["weights"] = weights = weight_grid(searched_sets, config.rerank)
        print_table("weights, nDCG@10", tuple(weights[0]), [tuple(row.values()) for row in weights])
        figures["bm25"] = lexical = bm25_grid(encoded_sets, config)
        print_table("BM25 settings, mean nDCG@10", tuple(lexical[0]), [tuple(row.values()) for row in lexical])
    run.write(figures, config, args.results)


if __name__ == "__main__":
    main()
