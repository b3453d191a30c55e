"""The job on a real, small Ray: it must do what the one-process engine does."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

import jobs.ingest_engine
from jobs import reembed as reembed_job
from jobs.ingest import Cut, ingest
from jobs.ingest_engine import LocalEngine, RayEngine
from jobs.ingest_report import IngestReport
from jobs.printing import LineProgress
from jobs.ray_session import RayFailure, cluster_shape, quiet_ray_data
from rag.config import RagConfig
from rag.errors import ModelError, RagError
from rag.index.manifest import Content
from rag.index.store import IndexStore

SMALL = Cut(block_documents=4, segment_chunks=20)


@pytest.fixture(scope="module", autouse=True)
def ray_cluster() -> Iterator[None]:
    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    quiet_ray_data()
    yield
    ray.shutdown()


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    root = tmp_path / "corpus"
    root.mkdir()
    for number in range(10):
        paragraphs = [f"Rule {part} of page {number} holds since {2000 + part}." for part in range(5)]
        (root / f"page-{number}.md").write_text(f"# Page {number}\n\n" + "\n\n".join(paragraphs))
    (root / "broken.pdf").write_bytes(b"%PDF-1.7 and nothing after it")
    (root / "empty.md").touch()
    (root / "film.mp4").write_bytes(b"\x00")
    return root


def config_in(folder: Path) -> RagConfig:
    settings = {
        "store": folder / "store",
        "var": folder,
        "models": folder,
        "sources": {"default_groups": ["staff"]},
        "chunk": {"max_tokens": 40, "min_tokens": 0},
        "embed": {"embedder": "hashing"},
    }
    return RagConfig.model_validate(settings)


def on_ray(config: RagConfig, root: Path) -> IngestReport:
    return ingest(config, [root], progress=LineProgress(), cut=SMALL)


def in_process(config: RagConfig, root: Path) -> IngestReport:
    return ingest(config, [root], progress=LineProgress(), engine=LocalEngine(), cut=SMALL)


def content(config: RagConfig) -> Content:
    store = IndexStore(config.index_root)
    return store.manifest(store.current()).content


def test_ray_and_one_process_build_the_same_index_run_after_run(tmp_path: Path, corpus: Path) -> None:
    ours, theirs = config_in(tmp_path / "ray"), config_in(tmp_path / "local")

    def both() -> IngestReport:
        report, other = on_ray(ours, corpus), in_process(theirs, corpus)
        counts = ("documents", "indexed", "unchanged", "skipped", "failed", "deleted", "chunks", "embedded", "reused")
        assert [getattr(report, name) for name in counts] == [getattr(other, name) for name in counts]
        assert sorted(report.errors, key=str) == sorted(other.errors, key=str)
        assert content(ours) == content(theirs)
        assert report.version == other.version
        return report

    first = both()
    assert (first.indexed, first.failed, first.skipped, first.published) == (10, 2, 1, True)
    second = both()
    assert (second.unchanged, second.embedded, second.published) == (10, 0, False)
    with (corpus / "page-3.md").open("a") as file:
        file.write("\n\nA new paragraph about the kitchen rota and its many exceptions over the years.")
    (corpus / "page-4.md").unlink()
    os.utime(corpus / "page-5.md", ns=(1, 1))
    third = both()
    assert (third.indexed, third.deleted, third.unchanged) == (1, 1, 8)
    assert third.embedded >= 1
    assert third.reused >= 1


def test_what_our_code_raises_on_a_worker_arrives_as_itself() -> None:
    def raise_it(error: Exception) -> None:
        raise error

    fail = ray.remote(raise_it)
    with pytest.raises(ModelError, match="the weights are damaged"), RayFailure.translated("embedding"):
        ray.get(fail.remote(ModelError("the weights are damaged")))
    with pytest.raises(RayFailure, match=r"embedding failed: .*division"), RayFailure.translated("embedding"):
        ray.get(fail.remote(ZeroDivisionError("division by zero")))


def test_a_model_that_can_not_be_loaded_ends_the_run_in_its_own_words(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs.ingest_engine, "EmbedBatches", BrokenEncoder)
    with pytest.raises(RagError, match=r"parsing and embedding failed: .*ModelError: half a checkpoint"):
        on_ray(config_in(tmp_path), corpus)
    assert IndexStore(config_in(tmp_path).index_root).current_or_none() is None


class BrokenEncoder:
    def __init__(self, *_: object) -> None:
        raise ModelError("half a checkpoint")

    def __call__(self, batch: object) -> object:
        return batch


def test_without_a_gpu_there_is_one_encoder_a_node() -> None:
    shape = cluster_shape("cpu")
    assert (shape.num_encoders, shape.gpus_per_encoder) == (1, 0.0)


def test_parsing_and_encoding_stay_two_operators() -> None:
    engine = RayEngine()
    assert engine.parse_cpus != engine.encoder_cpus
    assert engine.parse_cpus + engine.encoder_cpus + engine.stage_cpus <= 2


def test_another_encoder_on_ray_gives_the_version_of_one_process(tmp_path: Path, corpus: Path) -> None:
    versions = []
    for name, engine in (("ray", reembed_job.RayEngine()), ("local", reembed_job.LocalEngine())):
        config = config_in(tmp_path / name)
        ingest(config, [corpus], progress=LineProgress(), engine=LocalEngine(), cut=SMALL)
        embed = config.embed.model_copy(update={"query_prefix": "query: "})
        report = reembed_job.reembed(config, embed, progress=LineProgress(), engine=engine, batch_chunks=8)
        assert report.published
        versions.append((report.version, report.embedded, report.batches))
    assert versions[0] == versions[1]
