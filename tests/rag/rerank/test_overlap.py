import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.rerank.overlap import OverlapReranker

texts = st.text(alphabet="ab cd", max_size=20)


def test_a_worked_example() -> None:
    # Words of six letters and more weigh 1, a pair half; the question weighs 2 + 0.5.
    passages = ["annual holiday", "holiday annual", "annual", "nothing here", "Annual HOLIDAY and more"]
    assert OverlapReranker().score("annual holiday", passages) == pytest.approx([1.0, 0.8, 0.4, 0.0, 1.0])


def test_long_words_count_more_than_short_ones() -> None:
    with_long, with_short = OverlapReranker().score("is it reimbursed", ["reimbursed", "is it"])
    assert with_long > with_short


def test_a_question_without_words_scores_zero() -> None:
    assert OverlapReranker().score("?!", ["anything", ""]) == [0.0, 0.0]


def test_no_passages_give_no_scores() -> None:
    assert OverlapReranker().score("leave", []) == []


@given(query=texts, passages=st.lists(texts, max_size=4))
def test_scores_lie_between_zero_and_the_question_itself(query: str, passages: list[str]) -> None:
    scores = OverlapReranker().score(query, [*passages, query])
    assert all(0.0 <= score <= scores[-1] <= 1.0 for score in scores)


@given(queries=st.lists(st.tuples(texts, st.lists(texts, max_size=3)), max_size=4))
def test_many_questions_score_as_each_alone(queries: list[tuple[str, list[str]]]) -> None:
    reranker = OverlapReranker()
    assert reranker.score_many(queries) == [reranker.score(query, passages) for query, passages in queries]
