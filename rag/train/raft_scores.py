"""How good a generator's answers to RAFT examples are, after the check that every served answer passes."""

from collections.abc import Sequence
from dataclasses import dataclass

from rag.evaluate.generation import normal_answer, token_f1
from rag.evaluate.metrics import mean
from rag.generate.attribution import AnswerStream
from rag.generate.prompt import ANSWER_LABEL
from rag.train.raft import RaftExample

_MIN_ATTRIBUTION = 0.6
_MIN_F1 = 0.5  # from which a short answer counts as right


@dataclass(frozen=True, slots=True)
class ScoredAnswer:
    """One written text, as it would be served, against what was wanted."""

    text: str  # after the check
    answered: bool
    holds_gold: bool  # the answer's words are in the text, after normalisation
    short_right: bool  # what stands behind "Answer:", or the text without it, has a token F1 of at least 0.5
    cited: frozenset[int]
    looping: bool


@dataclass(frozen=True, slots=True)
class RaftScores:
    """Means over examples; of answers where the passages hold one, of refusals where they do not."""

    num_answerable: int
    num_unanswerable: int
    answered: float  # of the answerable
    holds_gold: float  # of the answerable; a refusal does not
    short_right: float
    citation_precision: float  # of the citations of answered questions, those of a golden passage
    citation_recall: float  # of the golden passages of answered questions, those that are cited
    refused: float  # of the unanswerable
    num_looping: int


def scored_answer(example: RaftExample, text: str) -> ScoredAnswer:
    """The text, checked against the passages of the example's prompt."""
    stream = AnswerStream(example.prompt.passages, _MIN_ATTRIBUTION, keep_unsupported=False)
    stream.feed(text)
    stream.close()
    said = stream.text
    answered = bool(said) and not stream.refused
    short = said.rpartition(ANSWER_LABEL)[2]
    plain = " ".join(part for part in short.split() if not part.startswith("["))
    return ScoredAnswer(
        text=said,
        answered=answered,
        holds_gold=answered and bool(example.answer) and normal_answer(example.answer) in normal_answer(said),
        short_right=answered and bool(example.answer) and token_f1(plain, [example.answer]) >= _MIN_F1,
        cited=frozenset(citation.number for citation in stream.citations),
        looping=stream.looping,
    )


def score(examples: Sequence[RaftExample], texts: Sequence[str]) -> RaftScores:
    """The scores of one text an example."""
    pairs = [(example, scored_answer(example, text)) for example, text in zip(examples, texts, strict=True)]
    answerable = [(example, scored) for example, scored in pairs if example.golden]
    answered = [(example, scored) for example, scored in answerable if scored.answered]
    return RaftScores(
        num_answerable=len(answerable),
        num_unanswerable=len(pairs) - len(answerable),
        answered=mean(scored.answered for _, scored in answerable),
        holds_gold=mean(scored.holds_gold for _, scored in answerable),
        short_right=mean(scored.short_right for _, scored in answerable),
        citation_precision=mean(number in example.golden for example, scored in answered for number in scored.cited),
        citation_recall=mean(number in scored.cited for example, scored in answered for number in example.golden),
        refused=mean(not scored.answered for example, scored in pairs if not example.golden),
        num_looping=sum(scored.looping for _, scored in pairs),
    )
