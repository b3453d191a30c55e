"""How good an answer is: right, faithful to its passages, relevant to its question, rightly cited.

All are pure functions over an `EntailmentScorer`. A score that is not defined (of an answer without a claim, or without
a citation) is None and is left out of means, never counted as 0 or 1.
"""

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from rag.evaluate.metrics import mean
from rag.generate.citations import cited_numbers, keep_citations
from rag.generate.prompt import is_refusal
from rag.generate.sentences import sentences
from rag.protocols import Embedder, EntailmentScorer

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CITED_BEHIND = re.compile(r"([.!?…]+)((?:\s*[\[【][^\]】\n]{0,20}\d[^\]】\n]{0,20}[\]】])+)")
_WORD = re.compile(r"\w")


# ---------------------------------------------------------------- correctness


def normal_answer(text: str) -> str:
    """Lower case, without punctuation, articles and extra spaces.

    Source: Rajpurkar et al., SQuAD, EMNLP 2016 (the evaluation script).
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, references: Sequence[str]) -> float:
    """1.0 when the normal answer equals that of any reference, else 0.0."""
    return float(any(normal_answer(answer) == normal_answer(reference) for reference in references))


def token_f1(answer: str, references: Sequence[str]) -> float:
    """The best F1 of the words shared with a reference, after normalisation; 0.0 without references.

    Where either has no word left, 1.0 if both have none, else 0.0.
    """
    return max((_f1(normal_answer(answer).split(), normal_answer(r).split()) for r in references), default=0.0)


def _f1(said: Sequence[str], wanted: Sequence[str]) -> float:
    if not said or not wanted:
        return float(said == wanted)
    shared = sum((Counter(said) & Counter(wanted)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(said), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)


# ---------------------------------------------------------------- claims and their citations


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence of an answer without its citations, and the numbers of the passages that it cites."""

    text: str
    citations: tuple[int, ...]


def claims_of(answer: str) -> list[Claim]:
    """The sentences of an answer that claim something, with what they cite; a refusal claims nothing.

    A citation belongs to its sentence, whether it stands before the full stop or behind it.
    """
    moved = _CITED_BEHIND.sub(lambda found: f" {found[2].strip()}{found[1]}", answer)
    said = [(keep_citations(sentence, ())[0].strip(), cited_numbers(sentence)) for sentence in sentences(moved)]
    return [
        Claim(" ".join(text.split()), tuple(numbers))
        for text, numbers in said
        if _WORD.search(text) and not is_refusal(text)
    ]


@dataclass(frozen=True, slots=True)
class CheckedClaim:
    """A claim with what entails it. Numbers that no passage has count as citations that support nothing."""

    claim: Claim
    supported: bool  # by what it cites, together; by all passages, where it cites nothing
    cited_well: tuple[int, ...]  # the citations that are needed or support it alone


def check_claims(
    answer: str, passages: Mapping[int, str], scorer: EntailmentScorer, threshold: float = 0.5
) -> list[CheckedClaim]:
    """Every claim of the answer checked against the passages, by number, in one call of the scorer.

    A passage, or several joined, supports a claim whose entailment is at least `threshold`.
    """
    claims = claims_of(answer)
    premises = [_premises(claim, passages) for claim in claims]
    pairs = [
        (premise, claim.text)
        for claim, made in zip(claims, premises, strict=True)
        for premise in made
        if premise.strip()
    ]
    scores = dict(zip(pairs, scorer.entail(pairs), strict=True))

    def entailed(premise: str, claim: Claim) -> bool:
        return scores.get((premise, claim.text), 0.0) >= threshold and bool(premise.strip())

    checked = []
    for claim, (together, *rest) in zip(claims, premises, strict=True):
        supported = entailed(together, claim)
        alone, without = rest[: len(claim.citations)], rest[len(claim.citations) :]
        needed = [
            number
            for number, own, others in zip(claim.citations, alone, without, strict=True)
            if number in passages and (entailed(own, claim) or not entailed(others, claim))
        ]
        checked.append(CheckedClaim(claim, supported, tuple(needed) if supported else ()))
    return checked


def _premises(claim: Claim, passages: Mapping[int, str]) -> list[str]:
    """What the claim cites together; then each citation alone; then, for each, what is left without it."""
    numbers = claim.citations
    if not numbers:
        return ["\n".join(passages[number] for number in sorted(passages))]
    texts = [passages.get(number, "") for number in numbers]
    without = ["\n".join(text for other, text in enumerate(texts) if other != place) for place in range(len(texts))]
    return ["\n".join(texts), *texts, *without]


# ---------------------------------------------------------------- the scores


def faithfulness(checked: Sequence[CheckedClaim]) -> float | None:
    """Supported claims / claims; None for an answer without claims.

    A claim is checked against what it cites, and one that cites nothing against all passages of the prompt.

    Source: Es et al., RAGAS, EACL 2024; here a claim is a sentence.
    """
    return mean(claim.supported for claim in checked) if checked else None


def citation_recall(checked: Sequence[CheckedClaim]) -> float | None:
    """The share of sentences that what they cite entails; one that cites nothing is not. None without sentences.

    Source: Gao et al., ALCE, EMNLP 2023, section 3.
    """
    return mean(bool(one.claim.citations) and one.supported for one in checked) if checked else None


def citation_precision(checked: Sequence[CheckedClaim]) -> float | None:
    """The share of citations that are right; None for an answer without any.

    A citation is right when its sentence is entailed by all that it cites, and it is not irrelevant: it supports the
    sentence alone, or the others do not without it.

    Source: Gao et al., ALCE, EMNLP 2023, section 3.
    """
    flags = [number in one.cited_well for one in checked for number in one.claim.citations]
    return mean(flags) if flags else None


def answer_relevance(question: str, answer: str, embedder: Embedder) -> float | None:
    """The cosine of question and answer, citations left out; None for a refusal or an answer without words.

    RAGAS takes the cosine of the question with questions that a model makes of the answer; without a model that makes
    good ones, the answer stands for them. Compare it between systems, not with published figures.

    Source: Es et al., RAGAS, EACL 2024.
    """
    claims = claims_of(answer)
    if not claims:
        return None
    (asked,) = embedder.embed_queries([question])
    (said,) = embedder.embed_passages([" ".join(claim.text for claim in claims)])
    return float(asked @ said)


@dataclass(frozen=True, slots=True)
class GenerationScores:
    """The scores of one answer, or their means over several; None where one is not defined for any."""

    exact_match: float | None
    token_f1: float | None
    faithfulness: float | None
    relevance: float | None
    citation_recall: float | None
    citation_precision: float | None


def score_answer(
    question: str,
    answer: str,
    references: Sequence[str],
    passages: Mapping[int, str],
    scorer: EntailmentScorer,
    embedder: Embedder,
    threshold: float = 0.5,
) -> GenerationScores:
    """Every score of one answer; no correctness without a reference. The references are short facts."""
    checked = check_claims(answer, passages, scorer, threshold)
    said = " ".join(claim.text for claim in claims_of(answer))
    return GenerationScores(
        exact_match=exact_match(said, references) if references else None,
        token_f1=token_f1(said, references) if references else None,
        faithfulness=faithfulness(checked),
        relevance=answer_relevance(question, answer, embedder),
        citation_recall=citation_recall(checked),
        citation_precision=citation_precision(checked),
    )


def mean_scores(scores: Sequence[GenerationScores]) -> GenerationScores:
    """The mean of each score over the answers for which it is defined."""
    means: dict[str, float | None] = {}
    for field in fields(GenerationScores):
        defined = [value for one in scores if (value := getattr(one, field.name)) is not None]
        means[field.name] = mean(defined) if defined else None
    return GenerationScores(**means)
