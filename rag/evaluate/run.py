"""An evaluation run: everything measured of a set of questions, kept so that a later run can be paired with it."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter, ValidationError

from rag.config import RagConfig
from rag.errors import InputError
from rag.evaluate.holdings import Holdings, read_holdings
from rag.evaluate.invariants import Readable, broken_invariants, readable_by_metadata, seen_chunks
from rag.evaluate.observe import STAGES, Circumstances, Observation, Stage, observe
from rag.evaluate.slices import slices_of
from rag.evaluate.stages import Needs, metric_names, need_recall, outscored, ranking_scores, separation, stage_depths
from rag.evaluate.tasks import Task
from rag.ids import ChunkId, VersionId
from rag.index.store import open_store
from rag.pipeline import Pipeline

DECIMALS = 4  # of what is kept, so that a run that was written and read again equals itself

Column = tuple[float | None, ...]  # one value a question, in the order of `ids`; None: not defined for it
Advance = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Latency:
    """How long one step took for each question; None where it did not come to it."""

    wall_ms: Column
    compute_ms: Column


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """A table: a row is a question, in the order of `ids`, and a column is something measured of all of them."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    dataset: str
    created_at: datetime
    versions: Mapping[str, str]  # `live` should answer, `index` did; models, prompt, fingerprint
    settings: Mapping[str, str]  # rag.provenance.shaping_settings
    runtime: Mapping[str, str]
    ids: tuple[str, ...]
    digests: tuple[str, ...]  # of each question and what it is judged by
    slices: Mapping[str, tuple[str, ...]]
    scores: Mapping[Stage, Mapping[str, Column]]
    invariants: Mapping[str, tuple[int, ...]]
    results: tuple[str, ...] = ()  # of each question's candidates, scores and prompt: equal ones are equal to the bit
    latency: Mapping[str, Latency] = field(default_factory=dict)
    uncovered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # question -> needs that no chunk meets
    failures: Mapping[str, str] = field(default_factory=dict)  # question -> the error in which it ended
    notes: tuple[str, ...] = ()  # what could not be measured, and why

    @property
    def num_answerable(self) -> int:
        """Questions that something in the documents should answer."""
        first: Column = next((columns["recall"] for columns in self.scores.values()), ())
        return sum(value is not None for value in first)

    def values(self, stage: Stage, metric: str) -> list[float]:
        """The defined values of one column."""
        return [value for value in self.scores[stage][metric] if value is not None]

    def broken(self) -> dict[str, int]:
        """How often each invariant was broken in all."""
        return {name: sum(column) for name, column in self.invariants.items()}

    def to_json(self) -> str:
        """The run as JSON, a column a line; `from_json` gives an equal one back."""
        text = json.dumps(_RUN.dump_python(self, mode="json"), indent=1, ensure_ascii=False)
        text = re.sub(r"\[\n[^\[\]{}]*\]", lambda found: re.sub(r"\s*\n\s*", "", found[0]).replace(",", ", "), text)
        return re.sub(r"(\d)\.0(?=[,\]])", r"\1", text) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "EvaluationRun":
        """The run in a text of `to_json`. Raises InputError for any other text."""
        try:
            return _RUN.validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise InputError(
                f"not an evaluation run: {error.error_count()} problems, first {place}: {first['msg']}"
            ) from error


_RUN = TypeAdapter(EvaluationRun)


def without_machine(run: EvaluationRun) -> EvaluationRun:
    """The run without what differs from machine to machine though nothing has changed: times, and whatever the last
    bits of a vector shape. What is left is a baseline that can be kept with the code."""
    versions = {name: value for name, value in run.versions.items() if name not in ("live", "index")}
    return replace(run, versions=versions, runtime={}, results=(), latency={})


def read_run(path: Path) -> EvaluationRun:
    """The run in the file. Raises InputError."""
    try:
        return EvaluationRun.from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; `quire eval --out {path}` writes one") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


async def evaluate(
    pipeline: Pipeline,
    tasks: Sequence[Task],
    config: RagConfig,
    dataset: str,
    *,
    version: VersionId | None = None,
    with_prompt: bool = True,
    readable: Readable = readable_by_metadata,
    advance: Advance = lambda: None,
) -> EvaluationRun:
    """The tasks put to the pipeline one after the other, and measured.

    `version` is the one that should answer: the live one of the store of the configuration, where none is given.
    """
    store = open_store(config)
    observations: list[Observation] = []
    circumstances: Circumstances | None = None
    for task in tasks:
        observation, seen = await observe(pipeline, task.question, with_prompt=with_prompt)
        observations.append(observation)
        circumstances = circumstances or seen
        advance()
    candidates = set[ChunkId]().union(*map(seen_chunks, observations))
    holdings = read_holdings(store, version or store.current(), tasks, candidates)
    return measure(tasks, observations, holdings, circumstances, stage_depths(config), dataset, readable=readable)


def measure(
    tasks: Sequence[Task],
    observations: Sequence[Observation],
    holdings: Holdings,
    circumstances: Circumstances | None,
    depths: Mapping[Stage, int],
    dataset: str,
    *,
    notes: Sequence[str] = (),
    readable: Readable = readable_by_metadata,
) -> EvaluationRun:
    """What the observations are worth, task by task. A question that failed scores 0 at every stage."""
    seen = [observation.stages for observation in observations if not observation.failure]
    stages = [stage for stage in STAGES if stage != "chunks" and seen and all(stage in found for found in seen)]
    names: dict[Stage, tuple[str, ...]] = {stage: metric_names(stage, depths[stage]) for stage in stages}
    if holdings.from_index:
        names = {"chunks": metric_names("chunks", depths["chunks"]), **names}
    rows = [
        {stage: _scores(task, observation, holdings, stage, names[stage]) for stage in names}
        for task, observation in zip(tasks, observations, strict=True)
    ]
    broken = [broken_invariants(*pair, holdings, readable) for pair in zip(tasks, observations, strict=True)]
    slices = [slices_of(task, holdings) for task in tasks]
    return EvaluationRun(
        dataset=dataset,
        created_at=datetime.now(UTC),
        versions={"live": holdings.version, **(circumstances.versions if circumstances else {})},
        settings=circumstances.settings if circumstances else {},
        runtime=circumstances.runtime if circumstances else {},
        ids=tuple(task.id for task in tasks),
        digests=tuple(task.digest for task in tasks),
        slices={name: tuple(row[name] for row in slices) for name in (slices[0] if slices else ())},
        scores={stage: {name: tuple(row[stage].get(name) for row in rows) for name in names[stage]} for stage in names},
        invariants={name: tuple(row[name] for row in broken) for name in (broken[0] if broken else ())},
        results=tuple(observation.digest for observation in observations),
        latency=_latency(observations),
        uncovered=_uncovered(tasks, holdings),
        failures={t.id: o.failure for t, o in zip(tasks, observations, strict=True) if o.failure},
        notes=tuple(notes),
    )


def _scores(
    task: Task, observation: Observation, holdings: Holdings, stage: Stage, names: Sequence[str]
) -> dict[str, float]:
    """Every metric of the stage; the counts alone where nothing answers the question."""
    grades = task.gold.grades
    if stage == "chunks":
        return {"recall": round(need_recall([holdings.met_by_chunks(task)], grades), DECIMALS)} if grades else {}
    found = _found(task, observation, holdings, stage)
    scores = {"passages" if stage == "prompt" else "candidates": float(len(found))}
    if grades:
        scores |= ranking_scores(found, grades, names)
        if stage != "prompt":
            given = [score for _, score in observation.rankings.get(stage, ())]
            scores |= {
                "outscored": outscored(found, given, len(grades)),
                "separation": separation(found, given, len(grades)),
            }
    return {name: round(value, DECIMALS) for name, value in scores.items()}


def _found(task: Task, observation: Observation, holdings: Holdings, stage: Stage) -> list[Needs]:
    """What each candidate meets; for the prompt, what the text meets that its messages show."""
    chunks = holdings.chunks
    if stage == "prompt":
        texts = [(chunks.get(passage.chunk_id), passage.text) for passage in observation.shown or ()]
    else:
        ranked = [chunks.get(name) for name, _ in observation.rankings.get(stage, ())]
        texts = [(chunk, chunk.text if chunk else "") for chunk in ranked]
    return [task.gold.met_by(chunk.metadata.uri, text) if chunk else Needs() for chunk, text in texts]


def _latency(observations: Sequence[Observation]) -> dict[str, Latency]:
    """Every step by the name of its span, in the order of the first question that came to it."""
    names = list(dict.fromkeys(span.name for observation in observations for span in observation.spans))
    spans = [{span.name: span for span in observation.spans} for observation in observations]
    return {
        name: Latency(
            tuple(round(row[name].wall_ms, 2) if name in row else None for row in spans),
            tuple(round(row[name].compute_ms, 2) if name in row else None for row in spans),
        )
        for name in names
    }


def _uncovered(tasks: Sequence[Task], holdings: Holdings) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for task in tasks if holdings.from_index else ():
        if missing := sorted(set(range(len(task.gold.grades))) - holdings.met_by_chunks(task)):
            found[task.id] = tuple(task.gold.name(need) for need in missing)
    return found
