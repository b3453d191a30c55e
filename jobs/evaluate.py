"""How good is retrieval, stage by stage, and has it fallen? `python -m jobs.evaluate [DATASET] --config FILE`.

The same as `quire eval`, and with `--baseline` as `quire gate`. It needs no Ray, and runs as a Ray job all the same.
"""

import argparse
import asyncio
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.progress import Progress

from jobs.evaluate_service import evaluate_service
from jobs.printing import err, print_failure, say
from jobs.quality_commands import report_gate, report_run
from rag.config import RagConfig, load_config
from rag.errors import InputError, RagError
from rag.evaluate.beir import read_collection
from rag.evaluate.collection_index import collection_config, index_collection
from rag.evaluate.golden import read_golden, read_principals
from rag.evaluate.run import EvaluationRun, evaluate, read_run
from rag.evaluate.sampling import sample
from rag.evaluate.tasks import Task, collection_tasks, golden_tasks
from rag.index.store import open_store
from rag.local import config_of_version, retrieval_pipeline
from rag.parts import build_embedder, build_reranker

SAMPLE_GOLDEN = Path("bench/sample/golden.jsonl")


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What is to be measured, and where."""

    config_file: Path
    dataset: Path = SAMPLE_GOLDEN  # a golden.jsonl, or the folder of a test collection in BEIR's layout
    principals: Path | None = None  # None: principals.yaml beside the golden set
    url: str = ""  # a running service; empty: the index of the configuration, in this process
    max_questions: int | None = None
    cache: Path | None = None  # keeps the index of a test collection between runs


def run_evaluation(request: EvaluationRequest) -> EvaluationRun:
    """Everything measured. Raises InputError for a dataset that is neither of the two, or that a service can't answer,
    and what opening the index raises: NotFound, IndexMismatch, IndexDamaged, ModelError."""
    config = load_config(request.config_file)
    if request.dataset.is_dir():
        if request.url:
            raise InputError(f"{request.dataset} is a test collection, which a service does not hold: leave out --url")
        return _evaluate_collection(config, request)
    principals = read_principals(request.principals or request.dataset.with_name("principals.yaml"))
    questions = sample(read_golden(request.dataset), request.max_questions)
    tasks, name = golden_tasks(questions, principals), _name(request.dataset)
    if request.url:
        with _progress(f"searching {request.url}", tasks) as advance:
            return evaluate_service(config, request.url, tasks, name, advance=advance)
    return _evaluate_live(config, tasks, name)


def run_eval(request: EvaluationRequest, *, out: Path | None, html: Path | None, as_json: bool) -> int:
    """Measure, print and write; the exit code: 1 when something happened that must never happen."""
    return report_run(run_evaluation(request), out=out, html=html, as_json=as_json)


def run_gate(
    request: EvaluationRequest,
    baseline: Path,
    *,
    run_file: Path | None = None,
    out: Path | None,
    html: Path | None,
    as_json: bool,
) -> int:
    """Measure, or read a stored run, and hold it against the baseline; the exit code: 1 when anything fell."""
    before = read_run(baseline)  # before the work, not after it
    after = run_evaluation(request) if run_file is None else read_run(run_file)
    return report_gate(before, after, out=out, html=html, as_json=as_json)


def request_arguments(
    request: EvaluationRequest, *, out: Path | None, html: Path | None, as_json: bool, baseline: Path | None = None
) -> list[str]:
    """The arguments of `python -m jobs.evaluate` that ask for the same from another folder."""
    places = {
        "--config": request.config_file,
        "--principals": request.principals,
        "--cache": request.cache,
        "--baseline": baseline,
        "--out": out,
        "--html": html,
    }
    arguments = [str(request.dataset.resolve())]
    for option, path in places.items():
        arguments += [option, str(path.resolve())] if path is not None else []
    arguments += ["--url", request.url] if request.url else []
    arguments += ["--max-questions", str(request.max_questions)] if request.max_questions is not None else []
    return arguments + ["--json"] * as_json


def _evaluate_live(config: RagConfig, tasks: Sequence[Task], name: str) -> EvaluationRun:
    version = open_store(config).current()
    config = config_of_version(config, version)
    pipeline = retrieval_pipeline(config, build_embedder(config), build_reranker(config), version)
    with _progress("searching", tasks) as advance:
        return asyncio.run(evaluate(pipeline, tasks, config, name, advance=advance))


def _evaluate_collection(config: RagConfig, request: EvaluationRequest) -> EvaluationRun:
    """The collection's own index: kept in the cache folder, else thrown away."""
    collection = read_collection(request.dataset)
    with tempfile.TemporaryDirectory() as scratch:
        config = collection_config(config, collection, request.cache or Path(scratch))
        embedder = build_embedder(config)
        say(f"indexing {len(collection.documents)} documents of {collection.name}")
        version = index_collection(config, collection, embedder)
        pipeline = retrieval_pipeline(config, embedder, build_reranker(config), version)
        tasks = sample(collection_tasks(collection), request.max_questions)
        with _progress("searching", tasks) as advance:
            return asyncio.run(evaluate(pipeline, tasks, config, collection.name, advance=advance))


def _name(path: Path) -> str:
    """The golden set's name, with that of its folder: many are called golden.jsonl."""
    return f"{path.resolve().parent.name}/{path.name}"


@contextmanager
def _progress(what: str, tasks: Sequence[Task]) -> Iterator[Callable[[], None]]:
    say(f"{what}: {len(tasks)} questions")
    with Progress(console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task(what, total=len(tasks))
        yield lambda: progress.advance(task)


def main() -> None:
    """Run `python -m jobs.evaluate`. Exit codes: 0; 1 when anything fell or broke; 2 for wrong arguments."""
    parser = argparse.ArgumentParser(prog="python -m jobs.evaluate", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dataset", type=Path, nargs="?", default=SAMPLE_GOLDEN, help="golden.jsonl, or a BEIR folder")
    parser.add_argument("--config", type=Path, required=True, help="rag.yaml")
    parser.add_argument("--principals", type=Path, help="who asks; principals.yaml beside the golden set by default")
    parser.add_argument("--url", default="", help="a running service; left out: in this process")
    parser.add_argument("--max-questions", type=int, help="a seeded sample of so many")
    parser.add_argument("--cache", type=Path, help="folder that keeps the index of a test collection")
    parser.add_argument("--baseline", type=Path, help="an earlier run: say what fell since then")
    parser.add_argument("--out", type=Path, help="write the run here, to be a baseline later")
    parser.add_argument("--html", type=Path, help="write a page with plots here")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON instead of tables")
    args = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    request = EvaluationRequest(args.config, args.dataset, args.principals, args.url, args.max_questions, args.cache)
    outputs = {"out": args.out, "html": args.html, "as_json": args.as_json}
    try:
        code = run_gate(request, args.baseline, **outputs) if args.baseline else run_eval(request, **outputs)
    except RagError as error:
        code = print_failure(error)
    sys.exit(code)


if __name__ == "__main__":
    main()
