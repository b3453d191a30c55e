"""May a version that nobody has searched yet go live? A few golden questions, asked of it alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rag.config import RagConfig, SmokeConfig
from rag.errors import ConfigError, InputError
from rag.evaluate.golden import read_golden, read_principals
from rag.evaluate.invariants import INVARIANTS
from rag.evaluate.metrics import mean
from rag.evaluate.run import EvaluationRun, evaluate
from rag.evaluate.sampling import sample
from rag.evaluate.tasks import Task, golden_tasks
from rag.ids import VersionId
from rag.index.store import open_store
from rag.local import retrieval_pipeline
from rag.parts import build_embedder
from rag.rerank.overlap import OverlapReranker


@dataclass(frozen=True, slots=True)
class SmokeResult:
    """What the test found, and why the version may not go live."""

    figures: Mapping[str, float] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()  # empty: it passed

    @property
    def passed(self) -> bool:
        return not self.reasons

    def __str__(self) -> str:
        if not self.figures.get("questions"):
            said = "no question was asked: none of the golden documents is indexed"
        else:
            said = ", ".join(
                f"{name} {value:.3g}" for name, value in self.figures.items() if value or name not in INVARIANTS
            )
        return f"passed ({said})" if self.passed else f"FAILED: {'; '.join(self.reasons)} ({said})"


def read_smoke_tasks(config: SmokeConfig) -> list[Task]:
    """The answerable questions of the golden file, none where no file is configured. Raises ConfigError for a file that
    is missing or wrong: before an ingest begins, not after it."""
    if config.golden_file is None:
        return []
    principals = config.principals_file or config.golden_file.with_name("principals.yaml")
    try:
        tasks = golden_tasks(read_golden(config.golden_file), read_principals(principals))
    except InputError as error:
        raise ConfigError(f"smoke: {error}") from error
    return [task for task in tasks if task.answerable]


async def smoke_test(config: RagConfig, version: VersionId, tasks: Sequence[Task]) -> SmokeResult:
    """The result of asking the committed version a sample of the tasks, up to the fused candidates.

    Only tasks whose documents the version holds are asked; without any of them no model is loaded.
    """
    rules = config.smoke
    held = {record.uri for record in open_store(config).registry(version) if record.chunk_ids}
    indexed = [task for task in tasks if held.issuperset(task.gold.documents)]
    share = len(indexed) / len(tasks) if tasks else 0.0
    reasons = []
    if share < rules.min_indexed_share:
        reasons.append(
            f"the version holds the documents of {len(indexed)} of {len(tasks)} questions, "
            f"a share below smoke.min_indexed_share {rules.min_indexed_share:g}"
        )
    asked = sample(indexed, rules.max_questions)
    if not asked:
        return SmokeResult({"questions": 0, "indexed_share": share}, tuple(reasons))
    # The fused ranking is what is judged; the reranker behind it only has to be there.
    narrow = config.model_copy(update={"rerank": config.rerank.model_copy(update={"k_rerank": rules.k})})
    pipeline = retrieval_pipeline(narrow, build_embedder(config), OverlapReranker(), version)
    run = await evaluate(pipeline, asked, narrow, "smoke", version=version, with_prompt=False)
    figures = _figures(run, rules.k) | {"indexed_share": share}
    return SmokeResult(figures, (*reasons, *_reasons(run, figures, rules)))


def _figures(run: EvaluationRun, k: int) -> dict[str, float]:
    if "fused" not in run.scores:  # every question failed
        return {"questions": len(run.ids), f"recall@{k}": 0.0, "zero_result_share": 1.0}
    return {
        "questions": len(run.ids),
        f"recall@{k}": mean(run.values("fused", "recall")),
        "zero_result_share": mean(float(count == 0) for count in run.values("fused", "candidates")),
    }


def _reasons(run: EvaluationRun, figures: Mapping[str, float], rules: SmokeConfig) -> list[str]:
    recall, zero = figures[f"recall@{rules.k}"], figures["zero_result_share"]
    reasons = []
    if recall < rules.min_recall:
        reasons.append(f"recall@{rules.k} is {recall:.3f}, below smoke.min_recall {rules.min_recall:g}")
    if zero > rules.max_zero_result_share:
        reasons.append(f"{zero:.1%} of the questions find nothing, more than smoke.max_zero_result_share allows")
    reasons += [f"{INVARIANTS[name]}: {count}" for name, count in run.broken().items() if count]
    return reasons
