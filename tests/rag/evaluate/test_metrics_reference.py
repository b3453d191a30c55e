"""The metrics against trec_eval, the reference of the field, on every query of every test collection at hand."""

import random
from collections.abc import Mapping, Sequence

import bm25s
import pytest
import pytrec_eval

from rag.evaluate.beir import Collection, read_collection
from rag.evaluate.metrics import context_precision, hit_rate_at_k, mrr_at_k, ndcg_at_k, recall_at_k
from tests.conftest import SHARED_DATA

DEPTH = 100
DEPTHS = (5, 10, 100)
EXACT = 1e-9
SETS = sorted(folder.name for folder in SHARED_DATA.glob("ir-*"))

Rankings = Mapping[str, Sequence[str]]  # by query
Judgements = Mapping[str, Mapping[str, int]]

pytestmark = pytest.mark.shared_data


def trec_eval(rankings: Rankings, grades: Judgements, *measures: str) -> dict[str, dict[str, float]]:
    """trec_eval's figures by query. It sorts by score and breaks ties by id, so each rank gets a score of its own."""
    run = {
        query: {name: float(-rank) for rank, name in enumerate(ranking, start=1)} for query, ranking in rankings.items()
    }
    judged = {query: {name: int(grade) for name, grade in found.items()} for query, found in grades.items()}
    figures: dict[str, dict[str, float]] = pytrec_eval.RelevanceEvaluator(judged, set(measures)).evaluate(run)
    return figures


def bm25_rankings(collection: Collection) -> Rankings:
    """The first documents by BM25; where none of a query's terms occurs, that is what bm25s fills up with."""
    names = [document.id for document in collection.documents]
    index = bm25s.BM25()
    texts = [f"{document.title} {document.text}" for document in collection.documents]
    index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)
    queries = bm25s.tokenize([query.text for query in collection.queries], show_progress=False)
    rows, _ = index.retrieve(queries, k=min(DEPTH, len(names)), show_progress=False)
    return {query.id: [names[row] for row in found] for query, found in zip(collection.queries, rows, strict=True)}


def shuffled_rankings(collection: Collection, seed: int) -> Rankings:
    """For each query everything that was judged among others of the corpus, in a random order."""
    generator = random.Random(seed)
    names = [document.id for document in collection.documents]
    rankings = {}
    for query in collection.queries:
        found = list({*query.grades, *generator.sample(names, min(DEPTH, len(names)))})
        generator.shuffle(found)
        rankings[query.id] = found
    return rankings


@pytest.fixture(scope="module", params=SETS)
def collection(request: pytest.FixtureRequest) -> Collection:
    return read_collection(SHARED_DATA / request.param)


def graded(collection: Collection, seed: int) -> Judgements:
    """The judgements with grades of 1 to 3 drawn in place of the only one that these collections know."""
    generator = random.Random(seed)
    return {
        query.id: {name: generator.randint(1, 3) if grade else 0 for name, grade in sorted(query.grades.items())}
        for query in collection.queries
    }


def check_all(rankings: Rankings, grades: Judgements) -> None:
    """Every metric of every query, each against the measure of the same meaning."""
    depths = ",".join(map(str, DEPTHS))
    counted = trec_eval(rankings, grades, f"success.{depths}", f"recall.{depths}", "recip_rank")
    # trec_eval's gain is the grade itself: given 2^grade - 1 as the grade, it is that of the metric.
    gains = {query: {name: 2**grade - 1 for name, grade in found.items()} for query, found in grades.items()}
    gained = trec_eval(rankings, gains, f"ndcg_cut.{depths}")
    assert counted.keys() == grades.keys()
    for query, expected in counted.items():
        ranking, judged = rankings[query], grades[query]
        for k in DEPTHS:
            assert hit_rate_at_k(ranking, judged, k) == pytest.approx(expected[f"success_{k}"], abs=EXACT), query
            assert recall_at_k(ranking, judged, k) == pytest.approx(expected[f"recall_{k}"], abs=EXACT), query
            found = gained[query][f"ndcg_cut_{k}"]
            assert ndcg_at_k(ranking, judged, k) == pytest.approx(found, abs=EXACT), query
        assert mrr_at_k(ranking, judged, len(ranking)) == pytest.approx(expected["recip_rank"], abs=EXACT), query


def check_mrr_at(rankings: Rankings, grades: Judgements, k: int) -> None:
    """trec_eval knows no cut-off of the reciprocal rank: it gets the first k alone."""
    cut = {query: ranking[:k] for query, ranking in rankings.items()}
    for query, expected in trec_eval(cut, grades, "recip_rank").items():
        assert mrr_at_k(rankings[query], grades[query], k) == pytest.approx(expected["recip_rank"], abs=EXACT), query


def test_every_query_of_a_bm25_run_gets_the_figures_of_trec_eval(collection: Collection) -> None:
    rankings = bm25_rankings(collection)
    grades = {query.id: query.grades for query in collection.queries}
    check_all(rankings, grades)
    check_mrr_at(rankings, grades, 10)


def test_every_query_of_a_random_run_gets_them_too_with_several_grades(collection: Collection) -> None:
    rankings = shuffled_rankings(collection, seed=1)
    grades = graded(collection, seed=2)
    check_all(rankings, grades)
    check_mrr_at(rankings, grades, 10)


def test_context_precision_is_average_precision_where_everything_relevant_was_found(collection: Collection) -> None:
    rankings = shuffled_rankings(collection, seed=3)
    grades = {query.id: query.grades for query in collection.queries}
    for query, expected in trec_eval(rankings, grades, "map").items():
        assert context_precision(rankings[query], grades[query]) == pytest.approx(expected["map"], abs=EXACT), query


def test_context_precision_is_average_precision_over_the_relevant_that_were_found(collection: Collection) -> None:
    rankings = bm25_rankings(collection)
    grades = {query.id: query.grades for query in collection.queries}
    found = {
        query: {name: grade for name, grade in judged.items() if name in set(rankings[query])}
        for query, judged in grades.items()
    }
    with_hits = {query: judged for query, judged in found.items() if any(judged.values())}
    assert with_hits
    for query, expected in trec_eval(rankings, with_hits, "map").items():
        assert context_precision(rankings[query], grades[query]) == pytest.approx(expected["map"], abs=EXACT), query
