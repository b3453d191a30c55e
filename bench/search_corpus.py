"""What bench.search looks through: real chunk vectors with noise around them, real questions, masks of readers.

Every vector is a real one or real plus noise whose covariance is that of the real ones, so that topics stay where they
are and no direction is populated that no text points to. A topic is a k-means cluster of the real vectors; the noise
around a vector is of its topic.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from bench.report import need, out
from rag.config import RagConfig
from rag.data import Vectors, embedded_text
from rag.evaluate.beir import read_collection
from rag.ids import digest
from rag.index.dense.library import faiss
from rag.parts import build_embedder

COLLECTIONS = ("ir-handbook-faq-18f", "ir-product-docs")
NUM_TOPICS = 100
NOISE_COSINE = 0.85  # of a vector with the real one that it was made of, in the mean
_ROWS_AT_ONCE = 50_000
_CHARACTERS = 500  # of a passage: enough to say what it is about, and fast to embed

MaskShape = Literal["random", "topic"]


@dataclass(frozen=True, slots=True)
class SearchCorpus:
    """Unit vectors (n, dim) with the topic of each, and unit vectors of questions."""

    vectors: Vectors
    topics: npt.NDArray[np.int32]  # (n,)
    sources: npt.NDArray[np.int32]  # (n,), the real vector that each was made of
    queries: Vectors


def build_corpus(data: Path, config: RagConfig, cache: Path, num_rows: int, seed: int = 0) -> SearchCorpus:
    """The corpus of that many rows; real vectors are kept in the cache folder, under a name of their own."""
    passages, queries = _real_vectors(data, config, cache)
    rng = np.random.default_rng(seed)
    clusters = faiss.Kmeans(
        passages.shape[1],
        min(NUM_TOPICS, len(passages) // 4),
        seed=seed,
        spherical=True,
        niter=15,
        min_points_per_centroid=1,
    )
    clusters.train(passages)
    topic_of = clusters.index.search(passages, 1)[1][:, 0].astype(np.int32)
    sources = np.concatenate([np.arange(min(len(passages), num_rows)), _extra(rng, len(passages), num_rows)])
    return SearchCorpus(
        with_noise(rng, passages, sources, num_rows), topic_of[sources], sources.astype(np.int32), queries
    )


def reader_masks(
    corpus: SearchCorpus, share: float, shape: MaskShape, count: int, seed: int = 0
) -> Iterator[npt.NDArray[np.bool_]]:
    """Masks over the rows that let through about that share of them: any rows, or those of a few topics.

    Topics are taken in random order, and inside a topic the rows by the real vector that they were made of, until there
    are enough.
    """
    num_rows = len(corpus.vectors)
    num_allowed = max(1, round(share * num_rows))
    for turn in range(count):
        rng = np.random.default_rng([seed, turn])
        if shape == "random":
            chosen = rng.choice(num_rows, num_allowed, replace=False)
        else:
            place = rng.permutation(int(corpus.topics.max()) + 1)[corpus.topics]
            chosen = np.lexsort((corpus.sources, place))[:num_allowed]
        mask = np.zeros(num_rows, np.bool_)
        mask[chosen] = True
        yield mask


def _real_vectors(data: Path, config: RagConfig, cache: Path) -> tuple[Vectors, Vectors]:
    collections = [read_collection(need(data / name, "a test collection")) for name in COLLECTIONS]
    passages = [
        embedded_text(doc.title, (), doc.text)[:_CHARACTERS]
        for found in collections
        for doc in found.documents
        if doc.text
    ]
    questions = [query.text for found in collections for query in found.queries]
    name = digest(config.embed.model, *passages, *questions, size_bytes=8)
    path = cache / f"real-{name}.npz"
    if not path.is_file():
        out.print(f"embedding {len(passages)} passages and {len(questions)} questions")
        embedder = build_embedder(config)
        cache.mkdir(parents=True, exist_ok=True)
        np.savez(path, passages=embedder.embed_passages(passages), questions=embedder.embed_queries(questions))
    with np.load(path) as stored:
        return stored["passages"], stored["questions"]


def _extra(rng: np.random.Generator, num_real: int, num_rows: int) -> npt.NDArray[np.int64]:
    chosen: npt.NDArray[np.int64] = rng.integers(0, num_real, max(num_rows - num_real, 0))
    return chosen


def with_noise(
    rng: np.random.Generator, real: Vectors, sources: Sequence[int] | npt.NDArray[np.int64], num_rows: int
) -> Vectors:
    """The real vectors, then noisy ones around `sources`; unit rows."""
    dim = real.shape[1]
    covariance = np.cov(real, rowvar=False)
    spread = np.linalg.cholesky(covariance + 1e-9 * np.eye(dim)).T.astype(np.float32)
    # A unit row plus noise of norm t, nearly at a right angle to it, has the cosine 1 / sqrt(1 + t^2) with the row.
    spread *= np.sqrt((1 / NOISE_COSINE**2 - 1) / np.trace(covariance))
    vectors = np.empty((num_rows, dim), np.float32)
    num_plain = min(len(real), num_rows)
    vectors[:num_plain] = real[:num_plain]
    for start in range(num_plain, num_rows, _ROWS_AT_ONCE):
        block = sources[start : start + _ROWS_AT_ONCE]
        noisy = real[block] + rng.standard_normal((len(block), dim), dtype=np.float32) @ spread
        vectors[start : start + len(block)] = noisy / np.linalg.norm(noisy, axis=1, keepdims=True)
    return vectors
