"""A test collection goes through the real index, is built once, and is measured as the metrics say."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from rag.data import Vectors
from rag.embed.hashing import HashingEmbedder
from rag.evaluate.beir import Collection, CorpusDocument, JudgedQuery
from rag.evaluate.collection_index import collection_config, index_collection
from rag.evaluate.metrics import ndcg_at_k, recall_at_k
from rag.evaluate.observe import observe
from rag.evaluate.run import evaluate
from rag.evaluate.tasks import collection_tasks
from rag.index.contents import read_chunks
from rag.index.store import IndexStore
from rag.local import retrieval_pipeline
from rag.rerank.overlap import OverlapReranker
from tests.rag.evaluate.libraries import cheap_config, with_settings

WORDS = ["leave", "travel", "robot", "lidar", "invoice", "battery", "dock", "gripper", "audit", "payroll"]


@pytest.fixture(scope="module")
def collection() -> Collection:
    random = np.random.default_rng(0)
    documents = tuple(
        CorpusDocument(f"d{place}", f"page {place}", " ".join(random.choice(WORDS, 6).tolist())) for place in range(60)
    )
    queries = tuple(
        JudgedQuery(
            f"q{place}",
            " ".join(documents[place].text.split()[:3]),
            {f"d{place}": 2, f"d{place + 20}": 1, f"d{place + 1}": 0},
        )
        for place in range(8)
    )
    return Collection("tiny", documents, queries)


class Counting(HashingEmbedder):
    """Counts the passages that it was given."""

    num_passages = 0

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        self.num_passages += len(texts)
        return super().embed_passages(texts)


def test_it_is_indexed_once_under_the_same_settings(collection: Collection, tmp_path: Path) -> None:
    embedder = Counting()
    config = collection_config(cheap_config(tmp_path), collection, tmp_path)
    version = index_collection(config, collection, embedder)
    assert IndexStore(config.index_root).current() == version
    assert index_collection(config, collection, embedder) == version
    assert embedder.num_passages == len(collection.documents)


def test_other_settings_and_other_documents_have_another_place(collection: Collection, tmp_path: Path) -> None:
    base = cheap_config(tmp_path)
    more = Collection("tiny", (*collection.documents, CorpusDocument("new", "", "x")), collection.queries)
    places = {
        collection_config(base, collection, tmp_path).index_root,
        collection_config(base, more, tmp_path).index_root,
        collection_config(with_settings(base, index={"num_shards": 3}), collection, tmp_path).index_root,
    }
    assert len(places) == 3
    unshaping = with_settings(base, search={"k_dense": 7})
    assert collection_config(unshaping, collection, tmp_path).index_root in places


def test_a_run_over_it_gives_the_standard_metrics(collection: Collection, tmp_path: Path) -> None:
    config = collection_config(cheap_config(tmp_path), collection, tmp_path)
    version = index_collection(config, collection, HashingEmbedder())
    pipeline = retrieval_pipeline(config, HashingEmbedder(), OverlapReranker(), version)
    tasks = collection_tasks(collection)
    run = asyncio.run(evaluate(pipeline, tasks, config, collection.name))
    assert set(run.broken().values()) == {0}
    assert run.uncovered == {}
    uris = {chunk.id: chunk.metadata.uri for chunk in read_chunks(IndexStore(config.index_root), version)}
    for place, (task, query) in enumerate(zip(tasks, collection.queries, strict=True)):
        observation, _ = asyncio.run(observe(pipeline, task.question))
        for stage in ("dense", "bm25", "fused", "reranked"):
            ranking = [uris[name] for name, _ in observation.rankings[stage]]
            scores = run.scores[stage]
            assert scores["ndcg@10"][place] == pytest.approx(ndcg_at_k(ranking, query.grades, 10), abs=1e-4)
            assert scores["recall@50"][place] == pytest.approx(recall_at_k(ranking, query.grades, 50), abs=1e-4)
