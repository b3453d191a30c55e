"""The last look at an answer."""

from dataclasses import replace

from rag.data import Access, Answer, AnswerSentence, Passage
from rag.generate.abstain import abstention_text
from rag.generate.citations import cite
from rag.guard.output import check_answer
from rag.ids import ChunkId, VersionId
from tests.rag.generate.make import PRINCIPAL, make_chunk, make_passage

FEE, TRIP = make_passage(1, "The fee is 12 CHF."), make_passage(2, "Trips need approval.")


def forbidden(number: int, access: Access) -> Passage:
    chunk = make_chunk("The bonus is 1 million.", f"c{number}", document=f"d{number}", access=access)
    return make_passage(number, chunk.text, chunk=chunk)


def answer(text: str, *cited: Passage, closest: tuple[Passage, ...] = ()) -> Answer:
    return Answer(
        text=text,
        citations=tuple(cite(passage) for passage in cited),
        abstained="",
        closest=tuple(cite(passage) for passage in closest),
        partial=(),
        version=VersionId("v1"),
        num_citations_removed=1,
    )


def test_an_answer_from_readable_passages_leaves_as_it_is() -> None:
    good = answer("The fee is 12 CHF [1]. Trips need approval [2].", FEE, TRIP, closest=(TRIP,))
    assert check_answer(good, [FEE, TRIP], PRINCIPAL) == good


def test_a_citation_that_is_not_in_the_prompt_goes_and_is_counted() -> None:
    checked = check_answer(answer("The fee is 12 CHF [1]. Trips [2].", FEE, TRIP), [FEE], PRINCIPAL)
    assert checked.text == "The fee is 12 CHF [1]. Trips."
    assert checked.citations == (cite(FEE),)
    assert checked.num_citations_removed == 2


def test_a_citation_under_the_number_of_another_passage_goes() -> None:
    forged = replace(cite(FEE), chunk_id=ChunkId("c9"))
    checked = check_answer(replace(answer("The fee [1]."), citations=(forged,)), [FEE], PRINCIPAL)
    assert (checked.text, checked.citations, checked.num_citations_removed) == ("The fee.", (), 2)


def test_a_number_without_any_citation_goes() -> None:
    checked = check_answer(answer("The fee [1] is low [2].", FEE), [FEE, TRIP], PRINCIPAL)
    assert checked.text == "The fee [1] is low."
    assert checked.num_citations_removed == 2


def test_closest_sources_are_checked_too() -> None:
    secret = forbidden(3, Access("acme", ("board",)))
    checked = check_answer(answer("Not found.", closest=(FEE, secret)), [FEE], PRINCIPAL)
    assert checked.closest == (cite(FEE),)
    assert checked.num_citations_removed == 2


def test_an_answer_that_may_rest_on_a_forbidden_passage_is_withheld() -> None:
    for access in (Access("acme", ("board",)), Access("other", ("staff",)), Access("acme", ())):
        secret = forbidden(2, access)
        leaky = answer("The bonus is 1 million. The fee is 12 CHF [1].", FEE, closest=(secret, FEE))
        checked = check_answer(leaky, [FEE, secret], PRINCIPAL)
        assert checked.text == abstention_text("no_passages")
        assert checked.abstained == "no_passages"
        assert checked.citations == ()
        assert checked.closest == (cite(FEE),)
        assert checked.num_citations_removed == 3


def test_a_sentence_keeps_only_the_citations_that_resolve() -> None:
    sentences = (
        AnswerSentence("The fee is 12 CHF [1][2].", (cite(FEE), cite(TRIP)), 1.0),
        AnswerSentence("Trips need approval [2].", (cite(TRIP),), 1.0),
    )
    whole = replace(answer("The fee is 12 CHF [1][2]. Trips need approval [2].", FEE, TRIP), sentences=sentences)
    assert check_answer(whole, [FEE, TRIP], PRINCIPAL).sentences == sentences
    (kept,) = check_answer(whole, [FEE], PRINCIPAL).sentences
    assert (kept.text, kept.citations) == ("The fee is 12 CHF [1].", (cite(FEE),))
    secret = forbidden(3, Access("acme", ("board",)))
    assert check_answer(whole, [FEE, TRIP, secret], PRINCIPAL).sentences == ()
