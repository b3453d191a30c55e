"""Late interaction: each token of the question looks for its nearest among the tokens of the passage.

Passages are read without the question, by the encoder that made their vectors, so the words of both meet in the space
that the encoder knows. Nothing is trained, so nothing is forgotten: where a cross-encoder that saw little data is lost
on other documents, this takes what it needs to know of a corpus from the candidates themselves.

Source: Khattab and Zaharia, SIGIR 2020 (the sum of maximal similarities). Different here: what all candidates have in
common is taken out of the states, tokens that few candidates hold weigh more, and a candidate shares in the score of
those it resembles (the cluster hypothesis: van Rijsbergen, 1979). Cosines are squared, so that a token which is met
half counts a quarter: each has some nearest token in any passage. Beside that count tokens that stand together as in
the question (Metzler and Croft, SIGIR 2005), and those at the passage's beginning, where titles and headings are.
"""

import math
import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rag.config import RerankConfig
from rag.embed.bert_int8 import Floats
from rag.embed.forward import open_encoder
from rag.embed.tokenizer import WindowTokenizer
from rag.rerank.combine import DECIMALS, standard_scores, unit

NUM_NEIGHBOURS = 5
_LEAST_LIKENESS = 1e-3  # of a neighbour: their weights never add up to nothing
# What is added to the score, in its standard deviations for one of their own.
_TOGETHER_WEIGHT, _BEGINNING_WEIGHT = 0.25, 0.2
_WINDOW = 8  # tokens within which two of the question's are together
_BEGINNING = 16  # tokens


@dataclass(frozen=True, slots=True)
class TokenStates:
    """A text as the encoder sees it, without the special tokens at both ends."""

    ids: tuple[int, ...]
    states: Floats  # (tokens, dim)


class LateInteractionReranker:
    """Scores the candidates of a question by its tokens, with the encoder in a directory.

    Scores compare within the candidates of one question, and depend on which these are. Passages are read without the
    question, so those that were read lately are not read again. Texts are cut at the window; passages that are count in
    `num_truncated` when they are read.
    """

    def __init__(self, model_directory: Path, config: RerankConfig) -> None:
        self._model, self._engine = open_encoder(model_directory, "states", config)
        self._tokenizer = WindowTokenizer(model_directory, config.max_tokens, self._model.max_positions)
        self._passages = PassageCache(config.cache_mb * 1_000_000)

    def __repr__(self) -> str:
        return f"LateInteractionReranker(max_tokens={self._tokenizer.max_tokens}, engine={self._engine})"

    @property
    def num_truncated(self) -> int:
        return self._tokenizer.num_truncated

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """One score a passage, in order; higher is better, at most 1. Empty in, empty out."""
        return self.score_many([(query, passages)])[0]

    def score_many(self, queries: Sequence[tuple[str, Sequence[str]]]) -> list[list[float]]:
        """The scores of several questions' passages; a text that several share is read once.

        In 8 bits each text is a pass of its own, and the scores have the same bits as alone.
        """
        asked = list(dict.fromkeys(query for query, passages in queries if passages))
        shown = dict.fromkeys(passage for _, passages in queries for passage in passages)
        texts = {passage: known for passage in shown if (known := self._passages.get(passage)) is not None}
        new = [passage for passage in shown if passage not in texts]
        read = self._read([*asked, *new], num_questions=len(asked))
        questions, found = dict(zip(asked, read, strict=False)), dict(zip(new, read[len(asked) :], strict=True))
        for passage, states in found.items():
            self._passages.put(passage, states)
        texts |= found
        return [
            late_interaction(questions[query], [texts[passage] for passage in passages]) if passages else []
            for query, passages in queries
        ]

    def _read(self, texts: list[str], num_questions: int) -> list[TokenStates]:
        """Each text as the encoder sees it; counts the passages, which follow the questions, that were cut."""
        if not texts:
            return []
        rows = self._tokenizer.rows(texts, num_uncounted=num_questions)
        return [
            TokenStates(tuple(row[1:-1]), states[1:-1]) for row, states in zip(rows, self._model.run(rows), strict=True)
        ]


class PassageCache:
    """Passages that were read lately, the oldest forgotten first. Safe to use from several threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._num_bytes = max_bytes, 0
        self._known: OrderedDict[str, TokenStates] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, passage: str) -> TokenStates | None:
        """The passage's tokens, None where it has to be read."""
        with self._lock:
            if passage in self._known:
                self._known.move_to_end(passage)
            return self._known.get(passage)

    def put(self, passage: str, states: TokenStates) -> None:
        """Keeps the passage's tokens as long as there is room."""
        with self._lock:
            if passage in self._known:
                return
            self._known[passage] = states
            self._num_bytes += states.states.nbytes
            while self._num_bytes > self._max_bytes:
                self._num_bytes -= self._known.popitem(last=False)[1].states.nbytes


def late_interaction(question: TokenStates, passages: Sequence[TokenStates]) -> list[float]:
    """The scores of a question's passages, at least one: the mean of each one's own and of its neighbours', and what
    the places of the matches add to it.

    A passage's own score is the mean over the question's tokens, by their rarity among the passages, of the square of
    the largest cosine to a token of the passage, where that is positive. Zeros for a question without tokens.
    """
    if not question.ids:
        return [0.0] * len(passages)
    pooled = np.stack([_mean(passage.states) for passage in passages])
    common = pooled.mean(axis=0)
    wanted, weights = unit(question.states - common), rarities(question.ids, passages)
    met = np.asarray(
        [
            _cosines(wanted, unit(passage.states - common)).max(axis=1) if passage.ids else np.zeros(len(question.ids))
            for passage in passages
        ]
    )
    own = np.asarray([float(row @ weights) for row in np.maximum(met, 0.0) ** 2])
    if len(passages) == 1:
        return [float(own[0])]
    directions = unit(pooled - common)
    likeness = _cosines(directions, directions)
    np.fill_diagonal(likeness, -np.inf)
    nearest = np.argsort(-likeness, axis=1, kind="stable")[:, : min(NUM_NEIGHBOURS, len(passages) - 1)]
    shares = np.maximum(np.take_along_axis(likeness, nearest, axis=1), _LEAST_LIKENESS)
    of_neighbours = (own[nearest] * shares).sum(axis=1) / shares.sum(axis=1)
    scores = (own + of_neighbours) / 2
    added = (
        (_TOGETHER_WEIGHT, together(question.ids, weights, passages)),
        (_BEGINNING_WEIGHT, [_held(question.ids, weights, passage.ids[:_BEGINNING]) for passage in passages]),
    )
    deviation = float(scores.std())
    for weight, values in added:
        scores = scores + weight * deviation * np.asarray(standard_scores(values))
    return [float(score) for score in scores]


def together(ids: Sequence[int], weights: Floats, passages: Sequence[TokenStates]) -> list[float]:
    """How often neighbours in the question stand near each other in each passage, by their weights; more occurrences
    add less and less, and less in longer passages, as in BM25."""
    mean_length = math.fsum(len(passage.ids) for passage in passages) / len(passages)
    pairs = [
        (one, other, float(weights[place] + weights[place + 1]) / 2)
        for place, (one, other) in enumerate(pairwise(ids))
        if one != other
    ]
    found = []
    for passage in passages:
        row = np.asarray(passage.ids)
        places = {token: np.flatnonzero(row == token) for token in set(ids)}
        damping = 0.25 + 0.75 * len(row) / max(mean_length, 1.0)
        total = 0.0
        for one, other, weight in pairs:
            apart = np.abs(places[one][:, None] - places[other][None, :])
            count = int((apart <= _WINDOW).any(axis=1).sum()) if apart.size else 0
            total += weight * 2 * count / (count + damping)
        found.append(total)
    return found


def _held(ids: Sequence[int], weights: Floats, tokens: Sequence[int]) -> float:
    """The share of the question's weight that is among the tokens."""
    present = set(tokens)
    return math.fsum(float(weight) for token, weight in zip(ids, weights, strict=True) if token in present)


def rarities(ids: Sequence[int], passages: Sequence[TokenStates]) -> Floats:
    """How much each token of a question counts: its inverse document frequency among the passages; they add up to 1."""
    holding = Counter(token for passage in passages for token in set(passage.ids))
    total = len(passages)
    found = [math.log1p((total - holding[token] + 0.5) / (holding[token] + 0.5)) for token in ids]
    return np.asarray(found, dtype=np.float32) / np.float32(math.fsum(found))


def _mean(states: Floats) -> Floats:
    mean: Floats = states.mean(axis=0) if len(states) else np.zeros(states.shape[1], dtype=np.float32)
    return mean


def _cosines(first: Floats, second: Floats) -> npt.NDArray[np.float64]:
    """The inner products of all pairs of unit rows, the same bits whatever order and threads they are summed in.

    A matrix kernel adds up in another order on two threads than on one. In float64 that moves a sum by 1e-15, and
    rounding takes it away.
    """
    return np.round(first.astype(np.float64) @ second.T.astype(np.float64), DECIMALS)
