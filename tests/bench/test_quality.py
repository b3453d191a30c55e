"""The quality benchmark runs a collection through the real index, and ranks as its parts do."""

from pathlib import Path

import numpy as np
import pytest

from bench.quality import (
    DEPTH,
    Encoded,
    bm25_grid,
    first_stages,
    over_sets,
    rerank,
    score_all,
    search_all,
    weight_grid,
)
from bench.sharding import LAYOUTS, differences, rankings
from rag.config import RagConfig
from rag.embed.hashing import HashingEmbedder
from rag.evaluate.beir import Collection, CorpusDocument, JudgedQuery
from rag.evaluate.collection_index import chunk_of
from rag.evaluate.metrics import ndcg_at_k
from rag.evaluate.sampling import sample
from rag.rerank.overlap import OverlapReranker

WORDS = ["leave", "travel", "robot", "lidar", "invoice", "battery", "dock", "gripper", "audit", "payroll"]


@pytest.fixture(scope="module")
def encoded() -> Encoded:
    generator = np.random.default_rng(0)
    documents = tuple(
        CorpusDocument(f"d{number}", f"page {number}", " ".join(generator.choice(WORDS, 6).tolist()))
        for number in range(60)
    )
    queries = tuple(
        JudgedQuery(f"q{number}", " ".join(documents[number].text.split()[:3]), {f"d{number}": 1})
        for number in range(8)
    )
    chunks = tuple(chunk_of(document) for document in documents)
    embedder = HashingEmbedder()
    return Encoded(
        Collection("tiny", documents, queries),
        chunks,
        embedder.embed_passages([chunk.embedded_text for chunk in chunks]),
        embedder.embed_queries([query.text for query in queries]),
    )


@pytest.fixture
def config(tmp_path: Path) -> RagConfig:
    return RagConfig(store=tmp_path, var=tmp_path, models=tmp_path)


def test_the_dense_ranking_is_that_of_the_inner_products(encoded: Encoded, config: RagConfig) -> None:
    searched, times_ms = search_all(encoded, config)
    products = encoded.vectors @ encoded.query_vectors.T  # (documents, queries)
    for place, one in enumerate(searched):
        best = {encoded.chunks[row].metadata.uri: products[row, place] for row in range(len(encoded.chunks))}
        found = [best[name] for name in one.named(one.dense)]
        assert found == pytest.approx(sorted(best.values(), reverse=True)[: len(found)], abs=1e-5)
    assert len(times_ms) == len(searched)


def test_the_legs_are_deeper_than_what_is_fused(encoded: Encoded, config: RagConfig) -> None:
    shallow = config.model_copy(update={"search": config.search.model_copy(update={"k_dense": 5, "k_bm25": 5})})
    searched, _ = search_all(encoded, shallow)
    assert all(len(one.dense) == min(DEPTH, len(encoded.chunks)) for one in searched)
    assert all(len(one.result.fused) <= 10 for one in searched)


def test_reranking_reorders_the_head_and_keeps_the_tail(encoded: Encoded, config: RagConfig) -> None:
    searched, _ = search_all(encoded, config)
    logits, _ = score_all(searched, encoded.chunks, OverlapReranker(), k_rerank=10)
    for one in searched:
        fused, reranked = one.named(one.result.fused), rerank(one, logits, config.rerank)
        assert sorted(reranked[:10]) == sorted(fused[:10])
        assert reranked[10:] == fused[10:]


def test_the_weight_grid_holds_what_each_weighting_gives(encoded: Encoded, config: RagConfig) -> None:
    searched, _ = search_all(encoded, config)
    logits, _ = score_all(searched, encoded.chunks, OverlapReranker(), k_rerank=10)
    rows = weight_grid({"tiny": (searched, logits)}, config.rerank)
    assert [row["mean"] for row in rows] == sorted((row["mean"] for row in rows), reverse=True)
    row = next(row for row in rows if (row["bm25_weight"], row["model_weight"]) == (0.5, 0.2))
    weights = {name: row[name] for name in ("dense_weight", "bm25_weight", "model_weight")}
    tried = config.rerank.model_copy(update=weights)
    scores = [ndcg_at_k(rerank(one, logits, tried), one.query.grades, 10) for one in searched]
    assert row["tiny"] == pytest.approx(float(np.mean(scores)))


def test_the_bm25_grid_agrees_with_a_search_under_the_same_settings(
    encoded: Encoded, config: RagConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.quality.K1", (1.2,))
    monkeypatch.setattr("bench.quality.B", (0.75,))
    (row,) = bm25_grid({"tiny": encoded}, config)
    stages = first_stages(search_all(encoded, config)[0])
    assert row["bm25"] == pytest.approx(stages["bm25"]["ndcg@10"])
    assert row["rrf"] == pytest.approx(over_sets({"tiny": stages["rrf"]})["ndcg@10"])


def test_every_layout_gives_the_same_rankings_bit_for_bit(encoded: Encoded, config: RagConfig) -> None:
    queries = [(q.text, v) for q, v in zip(encoded.collection.queries, encoded.query_vectors, strict=True)]
    reference, _ = rankings(*LAYOUTS[0], encoded.chunks, encoded.vectors, queries, config)
    assert all(ranking.dense and ranking.bm25 for ranking in reference)
    for layout in LAYOUTS[1:]:
        found, _ = rankings(*layout, encoded.chunks, encoded.vectors, queries, config)
        assert not any(differences(reference, found).values()), layout


def test_a_difference_of_one_bit_is_counted(encoded: Encoded, config: RagConfig) -> None:
    queries = [(q.text, v) for q, v in zip(encoded.collection.queries, encoded.query_vectors, strict=True)]
    reference, _ = rankings(1, 1, encoded.chunks, encoded.vectors, queries, config)
    changed = encoded.vectors.copy()
    changed[:, 0] = np.nextafter(changed[:, 0], np.float32(2))
    found, _ = rankings(1, 1, encoded.chunks, changed, queries, config)
    counted = differences(reference, found)
    assert counted["bm25_ids"] == counted["bm25_scores"] == 0
    assert counted["dense_scores"] > 0


def test_a_sample_is_the_same_every_time_and_keeps_the_order() -> None:
    assert sample(range(100), 5) == sample(range(100), 5) == sorted(sample(range(100), 5))
    assert sample(range(3), None) == sample(range(3), 9) == [0, 1, 2]
