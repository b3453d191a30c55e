"""Another encoder over the stored chunks: what is embedded, what is kept, and when the new version goes live."""

import pickle
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from jobs import ingest_engine
from jobs.ingest import Cut, ingest
from jobs.reembed import EmbedJob, EmbedWorker, LocalEngine, ReembedReport, build_segment, reembed, target_embed
from rag.config import EmbedConfig, RagConfig
from rag.data import Chunk, EncodedQuery, Principal
from rag.errors import IndexMismatch, ModelError, NotFound
from rag.ids import ChunkId
from rag.index.contents import read_chunks, vectors_by_chunk_id
from rag.index.manifest import Manifest, with_encoder_of
from rag.index.reembed import Embedded, EmbedTask, Reembedding, StagedVectors
from rag.index.store import IndexStore, open_store
from rag.local import open_shards
from rag.parts import build_embedder
from tests.jobs.test_ingest import Progress, write_page
from tests.tiny_models import tiny_encoder

STAFF = Principal("ann", "default", frozenset({"staff"}))
BATCH = 5


class Killed(Exception):
    """Stands for the end of the process."""


class Interrupted(LocalEngine):
    """Ends after so many batches, or lets something happen in between."""

    def __init__(self, kill_after: int | None = None) -> None:
        self.kill_after, self.tasks, self.chunks = kill_after, 0, 0

    def embed(self, tasks: Iterable[EmbedTask], job: EmbedJob) -> Iterator[Embedded]:
        for done in super().embed(tasks, job):
            self.tasks, self.chunks = self.tasks + 1, self.chunks + done.chunks
            yield done
            self.happen()
            if self.tasks == self.kill_after:
                raise Killed

    def happen(self) -> None:
        """Between two batches."""


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    root = tmp_path / "corpus"
    for number in range(6):
        write_page(root / f"page-{number}.md", number)
    return root


@pytest.fixture
def config(tmp_path: Path, corpus: Path) -> RagConfig:
    config = RagConfig.model_validate(
        {
            "store": tmp_path / "store",
            "var": tmp_path / "var",
            "models": tmp_path / "models",
            "sources": {"default_groups": ["staff"]},
            "chunk": {"max_tokens": 40, "min_tokens": 0},
            "embed": {"embedder": "hashing"},
        }
    )
    update(config, corpus)
    return config


def update(config: RagConfig, corpus: Path) -> None:
    ingest(config, [corpus], progress=Progress(), engine=ingest_engine.LocalEngine(), cut=Cut(segment_chunks=8))


def run(config: RagConfig, encoder: Path, engine: LocalEngine | None = None) -> ReembedReport:
    embed = target_embed(config.embed, str(encoder))
    return reembed(config, embed, progress=Progress(), engine=engine or LocalEngine(), batch_chunks=BATCH)


def live(config: RagConfig) -> tuple[IndexStore, Manifest]:
    store = open_store(config)
    return store, store.manifest(store.current())


def chunks_by_id(config: RagConfig) -> dict[ChunkId, Chunk]:
    store, manifest = live(config)
    return {chunk.id: chunk for chunk in read_chunks(store, manifest.version)}


def check_vectors(config: RagConfig) -> None:
    """Every live chunk has the vector that the live version's encoder makes of it."""
    store, manifest = live(config)
    embedder = build_embedder(with_encoder_of(config, manifest))
    chunks = chunks_by_id(config)
    found = {
        name: vector
        for shard in range(manifest.num_shards)
        for name, vector in vectors_by_chunk_id(store, manifest.version, shard, list(chunks)).items()
    }
    assert found.keys() == chunks.keys()
    wanted = embedder.embed_passages([chunk.embedded_text for chunk in chunks.values()])
    assert np.allclose(np.stack([found[name] for name in chunks]), wanted, atol=1e-5)


def test_the_live_version_is_made_anew_by_the_other_encoder(config: RagConfig, encoder: Path) -> None:
    before, chunks = live(config)[1], chunks_by_id(config)
    report = run(config, encoder)
    after = live(config)[1]
    assert (report.published, report.version, report.before) == (True, after.version, before.version)
    assert (after.parent, after.made_by, after.encoder.dim) == (before.version, "reembed", 32)
    assert chunks_by_id(config) == chunks
    assert (report.embedded, report.batches) == (len(chunks), report.batches)
    check_vectors(config)
    assert report.recall_before is report.recall_after is None  # flat is exact
    assert 0.0 <= (report.overlap or 0.0) <= 1.0
    assert not (live(config)[0].root / "reembed").exists() or not any((live(config)[0].root / "reembed").iterdir())


def test_its_shards_answer_with_its_encoder_and_a_rollback_with_the_old_one(config: RagConfig, encoder: Path) -> None:
    store, before = live(config)
    run(config, encoder)
    for manifest in (live(config)[1], before):
        own = with_encoder_of(config, manifest)
        vector = build_embedder(own).embed_queries(["rule 12"])[0]
        query = EncodedQuery("rule 12", vector, STAFF, manifest.version)
        assert all(shard.search(query, 3, 3).dense for shard in open_shards(own, manifest.version))
    assert store.rollback() == before.version
    check_vectors(config)


def test_the_next_ingest_wants_the_encoder_in_the_configuration(config: RagConfig, encoder: Path, corpus: Path) -> None:
    run(config, encoder)
    with pytest.raises(IndexMismatch, match=r"the embedder 'sentence'|the encoder"):
        update(config, corpus)
    edited = config.model_copy(update={"embed": target_embed(config.embed, str(encoder))})
    write_page(corpus / "page-9.md", 9)
    update(edited, corpus)
    assert live(config)[1].encoder.dim == 32
    check_vectors(edited)


def test_a_killed_run_repeats_no_finished_batch(config: RagConfig, encoder: Path) -> None:
    before, num_chunks = live(config)[1], len(chunks_by_id(config))
    killed = [Interrupted(kill_after=2), Interrupted(kill_after=1)]
    for engine in killed:
        with pytest.raises(Killed):
            run(config, encoder, engine)
        assert live(config)[1].version == before.version
    report = run(config, encoder)
    assert report.embedded + sum(engine.chunks for engine in killed) == num_chunks
    check_vectors(config)


def test_what_changes_meanwhile_is_in_the_new_version(config: RagConfig, encoder: Path, corpus: Path) -> None:
    closed = config.model_copy(
        update={
            "sources": config.sources.model_validate(
                {
                    **config.sources.model_dump(),
                    "rules": [{"pattern": "page-1.md", "groups": ["board"]}],
                }
            )
        }
    )

    class Changing(Interrupted):
        def happen(self) -> None:
            if self.tasks == 1:
                (corpus / "page-0.md").unlink()
                write_page(corpus / "page-2.md", 2, extra="A line that came late.")
                update(closed, corpus)

    num_chunks = len(chunks_by_id(config))
    report = run(config, encoder, Changing())
    found = chunks_by_id(config)
    assert report.published
    assert {chunk.metadata.uri for chunk in found.values()} == {f"page-{number}.md" for number in range(1, 6)}
    assert {c.metadata.access.groups for c in found.values() if c.metadata.uri == "page-1.md"} == {("board",)}
    assert any("came late" in chunk.text for chunk in found.values())
    assert report.embedded <= num_chunks + 2  # the readers' change alone embeds nothing
    check_vectors(config)


def test_the_same_encoder_again_is_nothing_to_do(config: RagConfig, encoder: Path) -> None:
    first = run(config, encoder)
    again = run(config, encoder)
    assert (again.version, again.published, again.embedded) == (first.version, False, 0)


def test_a_workers_rows_are_what_became_of_its_tasks(config: RagConfig, encoder: Path, tmp_path: Path) -> None:
    """What Ray Data moves between processes: pickled jobs and tasks in, one small row a task out."""
    store, manifest = live(config)
    target = config.model_copy(update={"embed": target_embed(config.embed, str(encoder))})
    job: EmbedJob = pickle.loads(pickle.dumps(EmbedJob(target, tmp_path / "vectors")))
    work = Reembedding(store, StagedVectors(job.staging), target)
    tasks = list(work.tasks(manifest, BATCH))
    rows = EmbedWorker(job)(pa.table({"task": [pickle.dumps(task) for task in tasks]}))
    done = [Embedded(**row) for row in rows.to_pylist()]
    assert [one.chunks for one in done] == [len(task.rows) for task in tasks]
    assert sum(one.chunks for one in done) == len(chunks_by_id(config))
    assert list(work.tasks(manifest, BATCH)) == []
    entry = pickle.loads(pickle.dumps(manifest)).shards[0].segments[0]
    assert build_segment(manifest, entry, job).dim == 32


def test_an_encoder_that_is_not_there_is_said_before_anything_starts(config: RagConfig, tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        run(config, tmp_path / "no-model")
    shutil.rmtree(config.index_root)
    with pytest.raises(NotFound):
        reembed(config, config.embed, progress=Progress(), engine=LocalEngine())


def test_prefixes_belong_to_their_encoder() -> None:
    old = EmbedConfig(model="e5", query_prefix="query: ", passage_prefix="passage: ")
    assert target_embed(old, None) == target_embed(old, "e5") == old
    assert target_embed(old, "bge").query_prefix == ""
    assert target_embed(old, "hashing").embedder == "hashing"
    assert target_embed(old, "bge", "q: ", max_tokens=512).model_dump(include={"query_prefix", "max_tokens"}) == {
        "query_prefix": "q: ",
        "max_tokens": 512,
    }
