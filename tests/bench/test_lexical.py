import numpy as np

from bench.lexical import compare_rankings, plain_ranking, same_ranking, spliced
from rag.config import LexicalIndexConfig
from rag.evaluate.beir import Collection, CorpusDocument, JudgedQuery
from rag.index.analysis import Analyzer

WORDS = ("leave", "policy", "expense", "laptop", "vpn", "badge", "travel")


def collection() -> Collection:
    rng = np.random.default_rng(0)
    documents = tuple(
        CorpusDocument(f"d{n}", "", " ".join(WORDS[place] for place in rng.integers(0, len(WORDS), 12)))
        for n in range(60)
    )
    queries = tuple(JudgedQuery(f"q{n}", f"{word} policy", {}) for n, word in enumerate(WORDS))
    return Collection("tiny", documents, queries)


def test_shards_rank_as_one_plain_index_does() -> None:
    config = LexicalIndexConfig()
    figures = compare_rankings(collection(), Analyzer(config), config)
    assert (figures["documents"], figures["questions"]) == (60, 7)
    assert {value for name, value in figures.items() if "differ" in name} == {0}


def test_a_ranking_is_compared_by_scores_and_not_by_the_order_of_ties() -> None:
    plain = [0.0, 2.0, 3.0, 2.0]
    assert plain_ranking(plain, 2) == [(2, 3.0), (1, 2.0)]
    assert same_ranking([(2, 3.0), (3, 2.000001)], plain, 2)
    assert not same_ranking([(2, 3.0)], plain, 2)
    assert not same_ranking([(2, 3.0), (0, 2.0)], plain, 2)
    assert not same_ranking([(2, 3.0), (1, 2.1)], plain, 2)


def test_spliced_chunks_are_made_of_real_ones() -> None:
    rows = [["a", "b"], ["c", "d", "e"]]
    made = spliced(rows, 50)
    assert made[:2] == rows
    assert len(made) == 50
    assert all(row and set(row) <= set("abcde") for row in made)
    assert spliced(rows, 50) == made
