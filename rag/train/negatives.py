"""Hard negatives: passages that look right to BM25 or to the encoder, and are not what answers the question."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
import numpy.typing as npt

from rag.config import LexicalIndexConfig
from rag.data import FirstStageScores
from rag.index.analysis import Analyzer
from rag.index.lexical import build_bm25
from rag.index.selection import best_rows
from rag.protocols import Embedder
from rag.train.encode import encode_passages
from rag.train.pairs import TrainingPair

_QUESTIONS_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class MiningOptions:
    """How many negatives a question gets, and which candidates are too good to be wrong."""

    num_encoder: int = 2  # of the encoder's best
    num_bm25: int = 2  # of BM25's best
    depth: int = 30  # candidates of each kind that negatives are drawn from
    max_lead: float = 0.05  # cosine above the positive's from which a candidate is taken for another right passage
    max_similarity: float = 0.95  # cosine to the positive from which a candidate is taken for a copy of it
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ScoredPassage:
    """A passage with what the first stage gives it for the question."""

    text: str
    first: FirstStageScores
    chunk: str = ""  # that it is a text of, with its heading or without


@dataclass(frozen=True, slots=True)
class RankingExample:
    """A question, the passage that answers it, and passages that do not."""

    question: str
    positive: ScoredPassage
    negatives: tuple[ScoredPassage, ...]

    @property
    def passages(self) -> tuple[ScoredPassage, ...]:
        """The positive, then the negatives."""
        return (self.positive, *self.negatives)


class PassagePool:
    """Passages that negatives come from, with their vectors and term counts."""

    def __init__(
        self,
        pairs: Sequence[TrainingPair],
        embedder: Embedder,
        lexical: LexicalIndexConfig,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        self.row_of = {text: row for row, text in enumerate(dict.fromkeys(pair.passage for pair in pairs))}
        self.texts = list(self.row_of)
        self.chunks = [""] * len(self.texts)
        right: defaultdict[str, set[str]] = defaultdict(set)
        for pair in pairs:
            self.chunks[self.row_of[pair.passage]] = pair.chunk
            right[pair.asked].add(pair.chunk)
        self._right = {asked: frozenset(chunks) for asked, chunks in right.items()}
        self._embedder = embedder
        self.vectors = encode_passages(self.texts, embedder, progress)
        self._analyzer = Analyzer(lexical)
        self._bm25 = build_bm25(map(self._analyzer.terms, self.texts), lexical)

    def rows(self, pairs: Sequence[TrainingPair]) -> npt.NDArray[np.bool_]:
        """Which passages of the pool are those of the pairs."""
        flags = np.zeros(len(self.texts), np.bool_)
        flags[[self.row_of[pair.passage] for pair in pairs]] = True
        return flags

    def draw(
        self, pairs: Sequence[TrainingPair], allowed: npt.NDArray[np.bool_], options: MiningOptions
    ) -> list[RankingExample]:
        """An example to learn from for each pair that has any negative, drawn by the seed from the best `depth`.

        Where one kind has too few the other gives more.
        """
        examples = []
        for pair, scores, dense, lexical in self._ranked(pairs, allowed, options):
            drawn = random.Random(f"{options.seed} {pair.question} {pair.chunk}")
            drawn.shuffle(dense)
            drawn.shuffle(lexical)
            examples.append(self._example(pair, scores, dense, lexical, options))
        return [example for example in examples if example.negatives]

    def best(
        self, pairs: Sequence[TrainingPair], allowed: npt.NDArray[np.bool_], options: MiningOptions
    ) -> list[RankingExample]:
        """An example to measure with for each pair that has any negative: the best of each kind, none drawn.

        However far a candidate leads it stays in: a first stage that is wrong should count as wrong.
        """
        wanted = replace(options, max_lead=inf)
        examples = (self._example(*ranked, wanted) for ranked in self._ranked(pairs, allowed, wanted))
        return [example for example in examples if example.negatives]

    def _ranked(
        self, pairs: Sequence[TrainingPair], allowed: npt.NDArray[np.bool_], options: MiningOptions
    ) -> Iterator[tuple[TrainingPair, "_Scores", list[int], list[int]]]:
        """Each pair with its scores and the usable rows of the encoder's and of BM25's best, best first."""
        all_rows = np.flatnonzero(allowed)
        for start in range(0, len(pairs), _QUESTIONS_AT_ONCE):
            block = pairs[start : start + _QUESTIONS_AT_ONCE]
            cosines = self._embedder.embed_queries([pair.question for pair in block]) @ self.vectors.T
            for pair, row in zip(block, cosines, strict=True):
                scores = _Scores(row, self._bm25.scores(self._analyzer.terms(pair.question)))
                matching = all_rows[scores.bm25[all_rows] > 0.0]
                dense, _ = best_rows(all_rows, scores.cosines[all_rows], options.depth)
                lexical, _ = best_rows(matching, scores.bm25[matching], options.depth)
                usable = [self._usable(pair, scores, rows.tolist(), options) for rows in (dense, lexical)]
                yield pair, scores, usable[0], usable[1]

    def _usable(self, pair: TrainingPair, scores: "_Scores", rows: list[int], options: MiningOptions) -> list[int]:
        positive = self.row_of[pair.passage]
        right = self._right[pair.asked]
        likeness = self.vectors[rows] @ self.vectors[positive]
        return [
            row
            for row, alike in zip(rows, likeness.tolist(), strict=True)
            if self.chunks[row] not in right
            and alike < options.max_similarity
            and scores.cosines[row] <= scores.cosines[positive] + options.max_lead
        ]

    def _example(
        self, pair: TrainingPair, scores: "_Scores", dense: list[int], lexical: list[int], options: MiningOptions
    ) -> RankingExample:
        chosen: list[int] = []
        self._take(chosen, dense, options.num_encoder)
        self._take(chosen, lexical, options.num_encoder + options.num_bm25)
        self._take(chosen, dense, options.num_encoder + options.num_bm25)
        passages = [
            ScoredPassage(
                self.texts[row], FirstStageScores(float(scores.cosines[row]), float(scores.bm25[row])), self.chunks[row]
            )
            for row in (self.row_of[pair.passage], *chosen)
        ]
        return RankingExample(pair.question, passages[0], tuple(passages[1:]))

    def _take(self, chosen: list[int], rows: Sequence[int], wanted: int) -> None:
        """Append to `chosen` from the rows until there are `wanted`, one text a chunk."""
        taken = {self.chunks[row] for row in chosen}
        for row in rows:
            if len(chosen) >= wanted:
                return
            if self.chunks[row] not in taken:
                taken.add(self.chunks[row])
                chosen.append(row)


@dataclass(frozen=True, slots=True)
class _Scores:
    """What both legs give every row of the pool for one question."""

    cosines: npt.NDArray[np.float32]
    bm25: npt.NDArray[np.float32]
