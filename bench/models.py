"""How much faster are the encoder and the cross-encoder here than as sentence-transformers runs them, and how near?

python -m bench.models [--corpus FOLDER] [--num-chunks N] [--repeats N] [--quality DATA]

Both sides embed the same chunks and score the same pairs in one run, taking turns; the median of their ratios counts.
`--quality` also embeds the judged sets in DATA by each engine, and compares nDCG@10 of dense search.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

import numpy as np
import torch
from sentence_transformers import CrossEncoder, SentenceTransformer

from bench.report import PROJECT, RESULTS, Run, need, out, print_table, verdict
from bench.sample.build import build_sample
from rag.config import EmbedConfig, RagConfig, RerankConfig, load_config
from rag.data import Access, DocumentMetadata, RawDocument, Vectors
from rag.embed.sentence import SentenceEncoder
from rag.evaluate.beir import Collection, read_collection
from rag.evaluate.metrics import mean, ndcg_at_k
from rag.models import resolve
from rag.parts import build_chunker, build_parser
from rag.protocols import Embedder
from rag.rerank.cross_encoder import CrossEncoder as OwnCrossEncoder

SETS = (
    "ir-handbook-faq-18f",
    "ir-handbook-faq-sourcegraph",
    "ir-product-docs",
    "ir-cranfield",
    "ir-cisi",
    "ir-npl",
)
ENGINES = ("torch", "int8")
WANTED_SPEED = 4.0
WANTED_QUALITY = 0.003
QUESTION = "How many days of leave may an employee carry over into the next year?"
PAIR_TOKENS, NUM_PAIRS = 180, 50


def read_chunks(folder: Path, config: RagConfig, limit: int) -> list[str]:
    """The embedded texts of a seeded sample of the chunks of the Markdown files in a folder."""
    parser, chunker = build_parser(config), build_chunker(config)
    found: list[str] = []
    for path in sorted(folder.rglob("*.md")):
        metadata = DocumentMetadata(path.name, path.stem, Access("bench", ("everyone",)), media_type="text/markdown")
        document = parser.parse(RawDocument(path.read_bytes(), path.name, metadata))
        found += [chunk.embedded_text for chunk in chunker.chunk(document)]
    return random.Random(0).sample(found, min(limit, len(found)))


def compare(sides: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of every run of each side, in turns after one warm-up, so that a busy moment strikes all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for repeat in range(repeats + 1):
        for name, run in sides.items():
            started = time.perf_counter()
            run()
            if repeat:
                seconds[name].append(time.perf_counter() - started)
    return seconds


def speed(seconds: Mapping[str, Sequence[float]], reference: str, count: int) -> dict[str, dict[str, float]]:
    """Items a second at the median of each side, and the median of its ratios to the reference, turn by turn."""
    return {
        name: {
            "per_s": round(count / median(times), 1),
            "times_the_reference": round(
                median(slow / fast for slow, fast in zip(seconds[reference], times, strict=True)), 2
            ),
        }
        for name, times in seconds.items()
    }


def encoder_figures(directory: Path, config: EmbedConfig, chunks: Sequence[str], repeats: int) -> dict[str, object]:
    reference = SentenceTransformer(str(directory), device="cpu")
    ours = {engine: SentenceEncoder(directory, config.model_copy(update={"engine": engine})) for engine in ENGINES}
    vectors = {name: encoder.embed_passages(chunks) for name, encoder in ours.items()}
    cosines = np.sum(reference.encode(list(chunks), normalize_embeddings=True) * vectors["int8"], axis=1)
    sides: dict[str, Callable[[], object]] = {"sentence_transformers": lambda: reference.encode(list(chunks))}
    for name, encoder in ours.items():
        sides[name] = lambda encoder=encoder: encoder.embed_passages(chunks)  # type: ignore[misc]
    return {
        "chunks": len(chunks),
        "speed": speed(compare(sides, repeats), "sentence_transformers", len(chunks)),
        "cosine_mean": round(float(cosines.mean()), 4),
        "cosine_min": round(float(cosines.min()), 4),
    }


def cross_encoder_figures(
    directory: Path, config: RerankConfig, chunks: Sequence[str], repeats: int
) -> dict[str, object]:
    reference = CrossEncoder(str(directory), device="cpu")
    ours = {engine: OwnCrossEncoder(directory, config.model_copy(update={"engine": engine})) for engine in ENGINES}
    passages = passages_of_length(reference, chunks)
    pairs = [(QUESTION, passage) for passage in passages]
    sides: dict[str, Callable[[], object]] = {"cross_encoder_predict": lambda: reference.predict(pairs)}
    for name, encoder in ours.items():
        sides[name] = lambda encoder=encoder: encoder.score(QUESTION, passages)  # type: ignore[misc]
    seconds = compare(sides, repeats)
    logits = [encoder.score(QUESTION, passages) for encoder in ours.values()]
    return {
        "pairs": len(pairs),
        "tokens_a_pair": PAIR_TOKENS,
        "speed": speed(seconds, "cross_encoder_predict", len(pairs)),
        "ms_for_the_pairs_p50": {name: round(median(times) * 1e3, 1) for name, times in seconds.items()},
        "correlation_of_logits": round(float(np.corrcoef(logits[0], logits[1])[0, 1]), 4),
    }


def passages_of_length(model: CrossEncoder, chunks: Sequence[str]) -> list[str]:
    """NUM_PAIRS passages that make pairs of PAIR_TOKENS tokens with the question."""
    tokenizer = model.tokenizer
    room = PAIR_TOKENS - tokenizer.num_special_tokens_to_add(pair=True) - len(tokenizer.tokenize(QUESTION))
    ids = tokenizer("\n".join(chunks), add_special_tokens=False)["input_ids"]
    starts = range(0, NUM_PAIRS * room, room)
    return [tokenizer.decode(ids[start : start + room]) for start in starts]


def dense_ndcg(collection: Collection, embedder: Embedder) -> float:
    """nDCG@10 of exact dense search, title and text of a document in one vector."""
    names = [document.id for document in collection.documents]
    texts = [f"{document.title}\n{document.text}" for document in collection.documents]
    documents: Vectors = embedder.embed_passages(texts)
    queries = embedder.embed_queries([query.text for query in collection.queries])
    return mean(
        ndcg_at_k([names[place] for place in np.argsort(-(documents @ vector), kind="stable")[:10]], query.grades, 10)
        for vector, query in zip(queries, collection.queries, strict=True)
    )


def quality_figures(directory: Path, config: EmbedConfig, data: Path, sets: Sequence[str]) -> dict[str, object]:
    ours = {engine: SentenceEncoder(directory, config.model_copy(update={"engine": engine})) for engine in ENGINES}
    by_set: dict[str, dict[str, float]] = {}
    for name in sets:
        collection = read_collection(need(data / name, "the collection"))
        by_set[name] = {engine: round(dense_ndcg(collection, encoder), 4) for engine, encoder in ours.items()}
        out.print(f"[dim]{name}: {by_set[name]}[/dim]")
    means = {engine: round(mean(scores[engine] for scores in by_set.values()), 4) for engine in ENGINES}
    return {"ndcg@10": by_set, "mean": means}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.models", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", type=Path, default=PROJECT / "serve_configs" / "local" / "rag.yaml")
    parser.add_argument("--corpus", type=Path, help="folder of Markdown; left out: the sample corpus")
    parser.add_argument("--num-chunks", type=int, default=256)
    parser.add_argument("--cross-encoder", default="quire-reranker", metavar="MODEL")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quality", type=Path, metavar="DATA", help="folder of judged sets")
    parser.add_argument("--sets", nargs="+", default=list(SETS), metavar="SET")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON record")
    args = parser.parse_args()
    run = Run("models")
    config = load_config(args.config)
    embed = config.embed.model_copy(update={"device": "cpu"})
    rerank = config.rerank.model_copy(update={"device": "cpu"})
    encoder, cross_encoder = (resolve(name, config.models) for name in (embed.model, args.cross_encoder))
    with tempfile.TemporaryDirectory() as folder:
        if args.corpus is None:
            build_sample(Path(folder) / "corpus")
        chunks = read_chunks(args.corpus or Path(folder) / "corpus", config, args.num_chunks)

    figures: dict[str, object] = {"torch_threads": torch.get_num_threads()}
    checks: dict[str, bool] = {}
    for name, found in (
        ("encoder", encoder_figures(encoder, embed, chunks, args.repeats)),
        ("cross_encoder", cross_encoder_figures(cross_encoder, rerank, chunks, args.repeats)),
    ):
        figures[name] = found
        speeds: Mapping[str, Mapping[str, float]] = found["speed"]  # type: ignore[assignment]
        print_table(
            name, ("side", *next(iter(speeds.values()))), [(side, *row.values()) for side, row in speeds.items()]
        )
        times = speeds["int8"]["times_the_reference"]
        checks[name] = verdict(times >= WANTED_SPEED, f"{name}: {times:.2f} times the reference, wanted {WANTED_SPEED}")
    if args.quality is not None:
        figures["quality"] = quality = quality_figures(encoder, embed, args.quality, args.sets)
        means: Mapping[str, float] = quality["mean"]  # type: ignore[assignment]
        lost = means["torch"] - means["int8"]
        checks["quality"] = verdict(lost <= WANTED_QUALITY, f"8 bits cost {lost:.4f} of mean nDCG@10")
    figures["checks"] = checks
    run.write(figures, config, args.results)


if __name__ == "__main__":
    main()
