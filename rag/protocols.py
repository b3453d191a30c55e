"""The seams: what a part must do to stand in for another one. Implementations are listed in `rag/parts.py`."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from rag.data import (
    Chunk,
    Document,
    EncodedQuery,
    Prompt,
    Query,
    Question,
    RawDocument,
    Reading,
    ReadSpan,
    ShardCandidates,
    Vectors,
)
from rag.ids import ChunkId


class Parser(Protocol):
    def parse(self, raw: RawDocument) -> Document:
        """The document's blocks in reading order. Raises ParseError with a reason for its owner."""
        ...


class Chunker(Protocol):
    def chunk(self, document: Document) -> list[Chunk]:
        """The document's chunks in order; each within the token budget, none empty."""
        ...


class TokenCounter(Protocol):
    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text as the encoder will see it, special tokens included."""
        ...


class Embedder(Protocol):
    @property
    def dim(self) -> int: ...

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors (n, dim), row i for texts[i]."""
        ...

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors (n, dim) in the same space; an encoder with prefixes uses its query prefix here."""
        ...


class Shard(Protocol):
    def search(self, query: EncodedQuery, k_dense: int, k_bm25: int, k_read: int = 0) -> ShardCandidates:
        """The best candidates that the query's principal may read, each leg best first, ties by chunk id; with the
        chunks of the `k_read` that this shard would put first."""
        ...

    def fetch(self, query: EncodedQuery, chunk_ids: Sequence[ChunkId], neighbours: int = 0) -> list[Chunk]:
        """The chunks of this shard among `chunk_ids` that the principal may read, and up to `neighbours` chunks on
        either side in the same section of the same document; ordered by document and ordinal, each once."""
        ...


class Rewriter(Protocol):
    async def rewrite(self, question: Question) -> Query:
        """A stand-alone query; the question's own words where nothing applies."""
        ...

    def rewrite_without_model(self, question: Question) -> Query:
        """The same by rules alone, at once: for when a model is late."""
        ...


class Reranker(Protocol):
    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """One relevance logit a passage, in order; higher is better. Empty in, empty out."""
        ...

    def score_many(self, queries: Sequence[tuple[str, Sequence[str]]]) -> list[list[float]]:
        """The same for several queries at once, sharing the work; the same numbers as one by one."""
        ...


class Reader(Protocol):
    def read(self, question: str, passages: Sequence[Reading]) -> list[list[ReadSpan]]:
        """For each passage the best span of each of its stretches, in order; the same whatever else is read."""
        ...


class Generator(Protocol):
    def generate(self, prompt: Prompt) -> AsyncIterator[str]:
        """The answer in pieces of text. Closing the iterator frees the model's slot."""
        ...


class EntailmentScorer(Protocol):
    def entail(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The probability, in [0, 1], that each premise entails its hypothesis, in order. Empty in, empty out."""
        ...
