"""A run measures every stage of the real pipeline against what the index holds, and survives its own JSON."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rag.data import Chunk, EncodedQuery, Principal, Prompt, Question, Turn
from rag.errors import InputError, NotFound
from rag.evaluate.golden import GoldenSpan
from rag.evaluate.observe import STAGES
from rag.evaluate.run import EvaluationRun, evaluate, read_run, without_machine
from rag.evaluate.summary import by_slice, by_stage, by_step
from rag.evaluate.tasks import SpanGold, Task
from rag.ids import ChunkId
from rag.local import InProcessShard, LocalStages
from rag.parts import build_embedder, build_reranker
from rag.pipeline import Pipeline, Timed
from tests.rag.evaluate.libraries import Library, cheap_config
from tests.rag.index.factories import EVERYONE, TENANT, make_chunk

PEOPLE = Principal("pat", TENANT, frozenset({"staff", "people"}))
OUTSIDER = Principal("out", TENANT, frozenset())
OLD, NEW = datetime(2022, 1, 1, tzinfo=UTC), datetime(2025, 6, 1, tzinfo=UTC)
CHUNKS = [
    make_chunk("Every employee has 25 days of paid leave a year.", "leave.md", updated_at=NEW),
    replace(
        make_chunk("Unused days of leave move into March of the next year.", "leave.md", ordinal=1, updated_at=NEW),
        start=50,
        end=104,
    ),
    make_chunk("Parking in zone B costs 12 CHF a day.", "parking.md", updated_at=OLD),
    make_chunk("Visitors collect a badge at the front desk.", "visitors.md"),
    make_chunk("The salary band of grade 7 ends at 140,000 CHF.", "bands.md", groups=["people"], updated_at=NEW),
]


def make_task(
    name: str, text: str, *spans: tuple[str, str], principal: Principal = EVERYONE, kind: str = "lookup"
) -> Task:
    gold = SpanGold(tuple(GoldenSpan(document, words) for document, words in spans))
    return Task(name, kind, principal.subject, Question(text, principal), gold, f"digest of {name}")


TASKS = [
    make_task("leave", "How many days of paid leave has an employee?", ("leave.md", "25 days")),
    make_task("both", "When do unused days of paid leave move?", ("leave.md", "25 days"), ("leave.md", "March")),
    make_task("parking", "What does parking in zone B cost?", ("parking.md", "12 CHF"), kind="table"),
    make_task("band", "Where does the salary band of grade 7 end?", ("bands.md", "140,000"), principal=PEOPLE),
    make_task("cut", "How is leave?", ("leave.md", "a year.\n\nUnused")),  # in no single chunk
    make_task("nothing", "Who owns the moon?", kind="unanswerable"),
    make_task("outside", "How many days of paid leave?", principal=OUTSIDER, kind="unanswerable"),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(cheap_config(tmp_path_factory.mktemp("library")), CHUNKS)


@pytest.fixture(scope="module")
def run(library: Library) -> EvaluationRun:
    return measured(library)


def measured(library: Library, pipeline: Pipeline | None = None, tasks: Sequence[Task] = TASKS) -> EvaluationRun:
    return asyncio.run(evaluate(pipeline or library.pipeline(), tasks, library.config, "tiny"))


def value(run: EvaluationRun, stage: str, metric: str, name: str) -> float | None:
    return run.scores[stage][metric][run.ids.index(name)]  # type: ignore[index]


def test_every_stage_is_measured_for_every_question(run: EvaluationRun) -> None:
    assert tuple(run.scores) == STAGES
    assert run.ids == tuple(task.id for task in TASKS)
    assert all(len(column) == len(TASKS) for columns in run.scores.values() for column in columns.values())
    for stage in STAGES:
        assert value(run, stage, "recall", "leave") == 1.0
        assert value(run, stage, "recall", "nothing") is None
    assert value(run, "dense", "hit@1", "leave") == 1.0
    assert value(run, "prompt", "recall", "both") == 1.0
    assert run.num_answerable == 5


def test_counts_are_there_for_the_unanswerable_too(run: EvaluationRun) -> None:
    assert value(run, "dense", "candidates", "nothing") == 4.0  # what everyone may read
    assert value(run, "prompt", "passages", "outside") == value(run, "fused", "candidates", "outside") == 0.0


def test_what_chunking_cut_is_a_miss_of_every_search_and_named(run: EvaluationRun) -> None:
    assert [value(run, stage, "recall", "cut") for stage in STAGES if stage != "prompt"] == [0.0] * 5
    assert run.uncovered == {"cut": ("leave.md: a year.\n\nUnused",)}
    assert value(run, "prompt", "recall", "cut") == 1.0  # stitching has put the words together again


def test_nothing_that_must_never_happen_has_happened(run: EvaluationRun) -> None:
    assert set(run.broken().values()) == {0}
    assert set(run.broken()) == {"forbidden", "unresolved", "wrong_version", "lost_passages", "partial", "failed"}


def test_slices_tell_who_asked_what_of_which_documents(run: EvaluationRun) -> None:
    slices = {name: dict(zip(run.ids, column, strict=True)) for name, column in run.slices.items()}
    assert slices["kind"]["parking"] == "table"
    assert slices["freshness"] == {
        "leave": "within a year",
        "both": "within a year",
        "parking": "older",
        "band": "within a year",
        "cut": "within a year",
        "nothing": "none",
        "outside": "none",
    }
    assert slices["asker"]["band"] == "pat"
    assert set(slices["tenant"].values()) == {TENANT}
    rows = {(row.name, row.value): row for row in by_slice(run)}
    assert rows["kind", "table"].num == 1
    assert ("kind", "unanswerable") not in rows


def test_every_step_is_timed(run: EvaluationRun) -> None:
    steps = [row.step for row in by_step(run)]
    assert steps == ["guard", "rewrite", "embed", "search", "fetch", "rerank", "assemble", "prompt"]
    assert all(row.wall_p50 <= row.wall_p95 for row in by_step(run))


def test_means_are_over_the_questions_for_which_a_metric_is_defined(run: EvaluationRun) -> None:
    estimate = by_stage(run)["dense"]["recall"]
    assert estimate.num == 5
    assert estimate.mean == pytest.approx(4 / 5)
    assert estimate.low <= estimate.mean <= estimate.high


def test_the_versions_and_settings_are_recorded(run: EvaluationRun, library: Library) -> None:
    assert run.versions["live"] == run.versions["index"] == library.version
    assert run.versions["fingerprint"] == library.config.index_fingerprint()
    assert run.settings["rerank.k_passages"] == "6"


def test_the_same_twice_is_the_same_to_the_bit(run: EvaluationRun, library: Library) -> None:
    again = measured(library)
    assert again.results == run.results
    assert replace(again, created_at=run.created_at, latency=run.latency) == run


def test_the_order_of_the_questions_decides_nothing(run: EvaluationRun, library: Library) -> None:
    turned = measured(library, tasks=TASKS[::-1])
    assert dict(zip(turned.ids, turned.results, strict=True)) == dict(zip(run.ids, run.results, strict=True))


def test_a_run_survives_its_json(run: EvaluationRun, tmp_path: Path) -> None:
    assert EvaluationRun.from_json(run.to_json()) == run
    small = without_machine(run)
    assert EvaluationRun.from_json(small.to_json()) == small
    assert (small.latency, small.results, small.runtime) == ({}, (), {})
    assert "index" not in small.versions
    assert json.loads(small.to_json())["scores"]["dense"]["recall"][:2] == [1, 1]
    (tmp_path / "run.json").write_text(run.to_json(), encoding="utf-8")
    assert read_run(tmp_path / "run.json") == run


@pytest.mark.parametrize("text", ["{}", "no json", "[]"])
def test_another_file_is_refused_by_name(text: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"run\.json: not an evaluation run"):
        read_run(tmp_path / "run.json")
    with pytest.raises(InputError, match=r"gone\.json: no such file"):
        read_run(tmp_path / "gone.json")


# ---------------------------------------------------------------- what must never happen


class Open(InProcessShard):
    """A shard that searches and reads as if everyone were in every group."""

    async def search(self, query: EncodedQuery, k_dense: int, k_bm25: int, k_read: int):  # type: ignore[no-untyped-def]
        return await super().search(replace(query, principal=PEOPLE), k_dense, k_bm25, k_read)

    async def fetch(self, query: EncodedQuery, chunk_ids: Sequence[ChunkId], neighbours: int = 0) -> Timed[list[Chunk]]:
        return await super().fetch(replace(query, principal=PEOPLE), chunk_ids, neighbours)


def stages(library: Library) -> LocalStages:
    config = library.config
    return LocalStages(config, library.version, library.shards(), build_embedder(config), build_reranker(config))


def test_a_filter_that_is_off_is_seen_in_the_candidates_of_every_stage(library: Library) -> None:
    leaky = stages(library)
    leaky.shards = [Open(shard._shard) for shard in leaky.shards]
    run = measured(library, Pipeline(library.config, leaky))
    counted = dict(zip(run.ids, run.invariants["forbidden"], strict=True))
    assert counted["leave"] == 1  # the salary bands
    assert counted["outside"] == len(CHUNKS)
    assert counted["band"] == 0


def test_an_access_that_is_wrong_in_the_index_is_seen_by_another_list_of_readers(library: Library) -> None:
    run = asyncio.run(
        evaluate(
            library.pipeline(),
            TASKS,
            library.config,
            "tiny",
            readable=lambda _, chunk: chunk.metadata.uri != "leave.md",
        )
    )
    assert dict(zip(run.ids, run.invariants["forbidden"], strict=True))["leave"] == 2


def test_a_version_that_is_not_the_live_one_is_seen_with_what_it_should_no_longer_hold(tmp_path: Path) -> None:
    library = Library(cheap_config(tmp_path), CHUNKS)
    old = library.pipeline()
    Library(library.config, CHUNKS[1:])  # publishes a version without the first chunk
    run = measured(library, old)
    assert run.invariants["wrong_version"] == (1,) * len(TASKS)
    assert dict(zip(run.ids, run.invariants["unresolved"], strict=True))["leave"] == 1
    assert value(run, "chunks", "recall", "leave") == 0.0


def test_a_prompt_that_shows_less_than_was_assembled_is_seen(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    from rag.generate.prompt import build_prompt

    def shortened(query, question, passages, dropped: int = 0) -> Prompt:  # type: ignore[no-untyped-def]
        return replace(build_prompt(query, question, passages[:1], dropped), passages=tuple(passages))

    monkeypatch.setattr("rag.pipeline.build_prompt", shortened)
    run = measured(library)
    assert dict(zip(run.ids, run.invariants["lost_passages"], strict=True))["parking"] == 2
    assert value(run, "prompt", "passages", "parking") == 1.0


def test_a_question_that_fails_scores_nothing_and_is_named(library: Library) -> None:
    long = make_task("long", "x" * 9_999, ("leave.md", "25 days"))
    run = measured(library, tasks=[*TASKS, long])
    assert run.invariants["failed"][-1] == 1
    assert "9999 characters" in run.failures["long"]
    assert value(run, "chunks", "recall", "long") == 1.0
    assert value(run, "dense", "recall", "long") == value(run, "prompt", "ndcg@10", "long") == 0.0


def test_a_missing_shard_makes_a_question_partial(library: Library) -> None:
    class Deaf(InProcessShard):
        async def search(self, query: EncodedQuery, k_dense: int, k_bm25: int, k_read: int):  # type: ignore[no-untyped-def]
            from rag.errors import ShardUnavailable

            raise ShardUnavailable(1, 1.0)

    half = stages(library)
    half.shards = [half.shards[0], Deaf(half.shards[1]._shard)]
    assert measured(library, Pipeline(library.config, half)).broken()["partial"] == len(TASKS)


def test_history_is_part_of_the_question(library: Library) -> None:
    follow_up = make_task("follow", "And in zone B?", ("parking.md", "12 CHF"))
    follow_up = replace(follow_up, question=replace(follow_up.question, history=(Turn("user", "What costs parking?"),)))
    assert value(measured(library, tasks=[follow_up]), "prompt", "recall", "follow") == 1.0


def test_without_an_index_there_is_nothing_to_compare_with(library: Library, tmp_path: Path) -> None:
    empty = library.config.model_copy(update={"store": tmp_path})
    with pytest.raises(NotFound):
        asyncio.run(evaluate(library.pipeline(), TASKS[:1], empty, "tiny"))
