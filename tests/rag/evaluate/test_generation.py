"""Metrics of answers, each against an example that can be worked out by hand."""

from collections.abc import Mapping, Sequence

import pytest

from rag.embed.hashing import HashingEmbedder
from rag.evaluate.generation import (
    Claim,
    GenerationScores,
    answer_relevance,
    check_claims,
    citation_precision,
    citation_recall,
    claims_of,
    exact_match,
    faithfulness,
    mean_scores,
    normal_answer,
    score_answer,
    token_f1,
)
from rag.generate.prompt import REFUSAL

PASSAGES = {1: "Cats are blue", 2: "Dogs are red", 3: "Fish are green"}


class Holding:
    """Entails a claim that asks for facts (its words before "!") which the premise holds all of."""

    def __init__(self) -> None:
        self.num_calls = 0

    def entail(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        self.num_calls += 1
        return [float(all(fact.strip(".") in premise for fact in claim.split(" and "))) for premise, claim in pairs]


def checked(answer: str, passages: Mapping[int, str] = PASSAGES) -> tuple[float | None, float | None, float | None]:
    claims = check_claims(answer, passages, Holding())
    return faithfulness(claims), citation_recall(claims), citation_precision(claims)


# ---------------------------------------------------------------- correctness


def test_normal_answers_have_no_case_articles_or_punctuation() -> None:
    assert normal_answer("The  12 CHF, a day.") == "12 chf day"
    assert normal_answer("An apple!") == "apple"
    assert normal_answer("the") == ""


def test_exact_match_takes_any_reference() -> None:
    assert exact_match("the 31 March.", ["April", "31 march"]) == 1.0
    assert exact_match("31 March 2024", ["31 march"]) == 0.0
    assert exact_match("anything", []) == 0.0


def test_token_f1_by_hand() -> None:
    # Shared "cat", "sat": precision 2/3, recall 2/4.
    assert token_f1("the cat sat down", ["a cat sat on mat"]) == pytest.approx(2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4))
    assert token_f1("dog", ["cat", "dog"]) == 1.0
    assert token_f1("dog", ["cat"]) == 0.0
    assert token_f1("dog dog", ["dog"]) == pytest.approx(2 / 3)


@pytest.mark.parametrize(("answer", "references", "score"), [("the", ["a"], 1.0), ("", ["cat"], 0.0), ("cat", [], 0.0)])
def test_token_f1_of_nothing(answer: str, references: list[str], score: float) -> None:
    assert token_f1(answer, references) == score


# ---------------------------------------------------------------- claims


def test_a_claim_is_a_sentence_with_what_it_cites() -> None:
    assert claims_of("Cats are blue [1]. Dogs are red [2, 3].") == [
        Claim("Cats are blue.", (1,)),
        Claim("Dogs are red.", (2, 3)),
    ]


def test_a_citation_behind_the_full_stop_belongs_to_the_sentence_before() -> None:
    assert claims_of("Cats are blue. [1] Dogs are red.[2][3]") == claims_of("Cats are blue [1]. Dogs are red [2][3].")
    assert claims_of("See the list. [optional] It is long.")[0].citations == ()


def test_a_refusal_and_mere_marks_claim_nothing() -> None:
    assert claims_of(REFUSAL) == []
    assert claims_of("...") == []
    assert claims_of("") == []


# ---------------------------------------------------------------- faithfulness and citations


def test_every_claim_supported_and_rightly_cited() -> None:
    assert checked("Cats are blue [1]. Dogs are red [2].") == (1.0, 1.0, 1.0)


def test_a_claim_that_cites_the_wrong_passage_is_not_faithful_to_it() -> None:
    assert checked("Cats are blue [1]. Dogs are red [3].") == (0.5, 0.5, 0.5)


def test_a_claim_without_a_citation_is_checked_against_all_passages_and_is_not_recalled() -> None:
    assert checked("Cats are blue.") == (1.0, 0.0, None)
    assert checked("Cats are green.") == (0.0, 0.0, None)


def test_a_citation_that_adds_nothing_is_irrelevant() -> None:
    """[3] does not support the sentence alone, and [1] supports it without [3]."""
    assert checked("Cats are blue [1][3].") == (1.0, 1.0, 0.5)


def test_citations_that_are_needed_together_are_all_right() -> None:
    assert checked("Cats are blue and Dogs are red [1][2].") == (1.0, 1.0, 1.0)


def test_citations_that_each_support_alone_are_all_right() -> None:
    passages = {1: "Cats are blue", 2: "Cats are blue too"}
    assert checked("Cats are blue [1][2].", passages) == (1.0, 1.0, 1.0)


def test_citations_of_an_unsupported_sentence_are_all_wrong() -> None:
    assert checked("Cats are blue and Birds are pink [1][2].") == (0.0, 0.0, 0.0)


def test_a_number_without_a_passage_supports_nothing() -> None:
    assert checked("Cats are blue [9].") == (0.0, 0.0, 0.0)
    assert checked("Cats are blue [1][9].") == (1.0, 1.0, 0.5)


def test_an_answer_without_claims_has_no_scores() -> None:
    assert checked(REFUSAL) == (None, None, None)


def test_all_claims_are_scored_in_one_call() -> None:
    scorer = Holding()
    check_claims("Cats are blue [1][2]. Dogs are red. Fish are green [3].", PASSAGES, scorer)
    assert scorer.num_calls == 1


def test_the_threshold_decides_what_is_supported() -> None:
    class Half:
        def entail(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
            return [0.5] * len(pairs)

    assert faithfulness(check_claims("Cats are blue [1].", PASSAGES, Half(), threshold=0.5)) == 1.0
    assert faithfulness(check_claims("Cats are blue [1].", PASSAGES, Half(), threshold=0.51)) == 0.0


# ---------------------------------------------------------------- relevance and all together


def test_an_answer_in_the_words_of_the_question_is_more_relevant() -> None:
    embedder = HashingEmbedder()
    near = answer_relevance("What does parking cost?", "Parking costs 12 CHF [1].", embedder)
    far = answer_relevance("What does parking cost?", "Lunch is at noon [2].", embedder)
    assert near is not None
    assert far is not None
    assert near > far
    assert answer_relevance("What does parking cost?", REFUSAL, embedder) is None


def test_citations_do_not_change_correctness_or_relevance() -> None:
    cited = score_answer(
        "What are cats?", "Cats are blue [1].", ["Cats are blue"], PASSAGES, Holding(), HashingEmbedder()
    )
    plain = score_answer("What are cats?", "Cats are blue.", ["Cats are blue"], PASSAGES, Holding(), HashingEmbedder())
    assert (cited.exact_match, cited.token_f1, cited.relevance) == (1.0, 1.0, plain.relevance)
    assert (cited.citation_recall, plain.citation_recall) == (1.0, 0.0)


def test_means_leave_out_what_is_not_defined() -> None:
    good = GenerationScores(1.0, 1.0, 1.0, 0.5, 1.0, None)
    refused = GenerationScores(None, 0.0, None, None, None, None)
    assert mean_scores([good, refused]) == GenerationScores(1.0, 0.5, 1.0, 0.5, 1.0, None)
    assert mean_scores([]) == GenerationScores(None, None, None, None, None, None)
