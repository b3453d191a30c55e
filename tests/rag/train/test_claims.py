"""Labelled claims are what their kind says."""

from dataclasses import replace

from rag.generate.overlap import TextFacts
from rag.train.claims import SUPPORTED, answer_sentence, make_claims
from rag.train.labelled import LabelledQuestion

LEE = LabelledQuestion(
    question="When did Robert Lee die?",
    passage="The general Robert Lee died in 1870. His house was sold to Mary Custis.",
    answer="1870",
    document="lee",
    source="test",
)
HOUSE = replace(LEE, question="Who bought the house?", answer="Mary Custis")
HORSE = replace(LEE, question="What was his horse called?", passage="The horse Traveller was grey.", answer="Traveller")


def test_the_answer_sentence_holds_the_answer() -> None:
    assert answer_sentence(LEE) == "The general Robert Lee died in 1870."
    assert answer_sentence(replace(LEE, answer="1999")) is None


def test_each_kind_of_claim_is_labelled_as_its_kind_says() -> None:
    unanswerable = replace(LEE, question="When was Robert Lee promoted?", answer="")
    claims = make_claims([LEE, HOUSE, HORSE], [unanswerable])
    assert all(claim.supported == (claim.kind in SUPPORTED) for claim in claims)
    assert {"statement", "sentence", "other_passage", "other_answer", "unanswerable"} <= {c.kind for c in claims}
    for claim in claims:
        if claim.kind == "sentence":
            assert claim.claim in " ".join(claim.premise.split())
        if claim.kind == "number":
            assert not TextFacts(claim.claim).exact <= TextFacts(claim.premise).exact
        if claim.kind == "negated":
            assert TextFacts(claim.claim).negated
        if claim.kind == "other_passage":
            assert claim.premise in (LEE.passage, HORSE.passage)


def test_a_claim_over_another_passage_is_not_about_its_own_answer() -> None:
    (other,) = [c for c in make_claims([LEE, HORSE], []) if c.kind == "other_passage" and "1870" in c.claim]
    assert other.premise == HORSE.passage


def test_the_same_seed_makes_the_same_claims() -> None:
    questions = [LEE, HOUSE, HORSE] * 3
    assert make_claims(questions, [], seed=1) == make_claims(questions, [], seed=1)
    assert make_claims(questions, [], seed=1) != make_claims(questions, [], seed=2)


def test_an_unanswerable_question_without_another_answer_makes_no_claim() -> None:
    assert make_claims([], [replace(LEE, answer="")]) == []
