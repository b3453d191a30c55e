"""`python -m jobs.raft`: teach a language model to quote, cite and refuse, and say what it is worth.

questions with answers -> split by document -> contexts with hard distractors -> answers begun by the reranker, as
`generate.lead_quotes` says -> an adapter of the model. `--out` is the adapter in PEFT's format; `--merged` also writes
the whole model, for `generate.model` in rag.yaml. On a cluster: `ray job submit -- python -m jobs.raft ...`.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from jobs.adapters import Outputs, page_of, progress_of
from jobs.printing import LINE_EVERY_S, print_failure, print_json, print_pairs, print_rows, say, told_command
from rag.config import RagConfig, load_config
from rag.errors import InputError, RagError
from rag.models import merge_adapter, resolve
from rag.parts import build_embedder, build_reranker
from rag.train.labelled import LabelledQuestion, held_out, read_labelled
from rag.train.raft import HELD_OUT, RaftBuilder, RaftExample, RaftGroup, RaftOptions, kinds, sample_documents
from rag.train.raft_card import adapter_card, score_rows
from rag.train.raft_leads import LeadWriter
from rag.train.raft_scores import RaftScores, score
from rag.train.raft_trainer import RaftState, RaftTrainer, RaftTrainingOptions
from rag.train.sources import LEFT_OUT

PROGRAM = "python -m jobs.raft"
DEFAULT_BASE = "SmolLM2-135M-Instruct"
MAX_ANSWER_TOKENS = 96


@dataclass(frozen=True, slots=True)
class DataOptions:
    """Which questions are read, and what is made of them."""

    paths: tuple[Path, ...]
    leave_out: tuple[str, ...] = LEFT_OUT
    max_passages: int = 6_000  # that contexts are made of, in whole documents
    max_groups: int = 400  # contexts to train on
    dev_examples: int = 60
    dev_share: float = HELD_OUT  # of the documents
    encode: bool = True  # distractors by the encoder too; else by BM25 alone
    contexts: RaftOptions = field(default_factory=RaftOptions)


@dataclass(frozen=True, slots=True)
class Groups:
    """Contexts of both sides; no document is on both."""

    train: tuple[RaftGroup, ...]
    dev: tuple[RaftExample, ...]
    questions: Mapping[str, int]  # of each source, that contexts to train on could draw from


def make_groups(config: RagConfig, options: DataOptions) -> Groups:
    """Read, split and build. Raises InputError when one side has no context."""
    read = [q for q in read_labelled(options.paths) if q.source not in options.leave_out]
    sides = [[q for q in read if held_out(q.document, options.dev_share) == dev] for dev in (False, True)]
    train = sample_documents(sides[0], options.max_passages, options.contexts.seed)
    dev = sample_documents(sides[1], max(100, options.max_passages // 10), options.contexts.seed)
    built = [
        list(_build(config, options, questions, limit))
        for questions, limit in ((train, options.max_groups), (dev, options.dev_examples))
    ]
    if not all(built):
        documents = len({question.document for question in read})
        raise InputError(
            f"{len(read)} questions of {documents} documents make {len(built[0])} contexts to train on and "
            f"{len(built[1])} to measure with; expected questions with answers that stand in their passages, of more "
            f"documents, or another --dev-share than {options.dev_share:g}"
        )
    sources: dict[str, int] = {}
    for question in train:
        sources[question.source] = sources.get(question.source, 0) + 1
    begun = [_begun(config, groups) for groups in built]
    return Groups(begun[0], _one_each(begun[1], options.dev_examples), sources)


def _build(
    config: RagConfig, options: DataOptions, questions: Sequence[LabelledQuestion], limit: int
) -> Iterator[RaftGroup]:
    with progress_of("passages encoded") as told:
        embedder = build_embedder(config) if options.encode else None
        builder = RaftBuilder(questions, embedder, config.index.lexical, options.contexts, told)
    return builder.groups(limit)


def _begun(config: RagConfig, groups: Sequence[RaftGroup]) -> tuple[RaftGroup, ...]:
    """The groups with answers begun as the service would, where it does."""
    if not config.generate.lead_quotes:
        return tuple(groups)
    writer = LeadWriter(build_reranker(config), config.rerank.identifier_weight, config.generate.lead_quotes)
    with progress_of("contexts with quotes") as told:
        return tuple(writer.begin_all(groups, told))


def _one_each(groups: Sequence[RaftGroup], limit: int) -> tuple[RaftExample, ...]:
    """Examples of as many contexts as possible: the first of each, then the second."""
    longest = max(len(group.examples) for group in groups)
    turns = [group.examples[place] for place in range(longest) for group in groups if place < len(group.examples)]
    return tuple(turns[:limit])


def run(
    config: RagConfig,
    data: DataOptions,
    options: RaftTrainingOptions,
    outputs: Outputs,
    *,
    base: str = DEFAULT_BASE,
    start: Path | None = None,
    work: Path | None = None,
    command: str = PROGRAM,
    as_json: bool = False,
) -> tuple[RaftScores, RaftScores]:
    """Train, write the adapter and print before and after. Raises InputError and ModelError."""
    outputs.check()
    started = time.perf_counter()
    directory = resolve(base, config.models)
    groups = make_groups(config, data)
    trainer = RaftTrainer(directory, options, work)
    if start is not None:
        trainer.load(start)
    made = kinds(groups.train)
    say(f"{len(groups.train)} contexts, {made.total()} examples: {', '.join(f'{k} {n}' for k, n in made.items())}")
    before = _measured(trainer, groups.dev)
    with _training_progress() as told:
        state = trainer.train(groups.train, told)
    after = _measured(trainer, groups.dev)
    facts = {
        "command": command,
        "base": base,
        "examples": dict(made),
        "questions": dict(groups.questions),
        "settings": {
            **asdict(options),
            "contexts": asdict(data.contexts),
            "lead_quotes": config.generate.lead_quotes,
        },
        "run": asdict(state),
        "before": asdict(before),
        "after": asdict(after),
    }
    outputs.write(
        lambda folder: trainer.save(folder, base),
        lambda folder: merge_adapter(directory, outputs.adapter, folder, "language_model"),
        adapter_card(base, options, state, groups.questions, before, after, command, page_of(start)),
        facts,
    )
    if as_json:
        print_json({**facts, **outputs.to_json()})
        return before, after
    print_rows("Before and after", ("on held-out documents", "before", "after"), score_rows(before, after))
    print_pairs(
        "Training",
        {
            "contexts": f"{state.groups_done} of {state.num_groups}",
            "examples": state.examples_done,
            "tokens/s": f"{state.tokens_done / max(state.seconds, 1e-9):.0f}",
            "seconds": f"{state.seconds:.0f}, {time.perf_counter() - started:.0f} with data and measuring",
            "adapter": outputs.adapter,
            **({} if outputs.merged is None else {"generate.model": outputs.merged.resolve()}),
        },
    )
    return before, after


def _measured(trainer: RaftTrainer, examples: Sequence[RaftExample]) -> RaftScores:
    say(f"writing {len(examples)} answers of held-out documents")
    return score(examples, trainer.write(examples, MAX_ANSWER_TOKENS))


@contextmanager
def _training_progress() -> Iterator[Callable[[RaftState], None]]:
    with progress_of("contexts") as told:
        said = 0.0

        def tell(state: RaftState) -> None:
            nonlocal said
            told(state.groups_done, state.num_groups)
            if state.seconds - said >= 4 * LINE_EVERY_S:
                said = state.seconds
                rate = state.tokens_done / max(state.seconds, 1e-9)
                say(f"context {state.groups_done}, {state.seconds:.0f} s, {rate:.0f} tokens/s, loss {state.loss:.3f}")

        yield tell


def build_parser() -> argparse.ArgumentParser:
    data, options, contexts = DataOptions(()), RaftTrainingOptions(), RaftOptions()
    parser = argparse.ArgumentParser(prog=PROGRAM, description="Teach a generator to quote, cite and refuse.")
    add = parser.add_argument
    add("--config", type=Path, default=Path("serve_configs/local/rag.yaml"), help="for its encoder and models")
    add("--pairs", type=Path, nargs="+", required=True, help="JSONL files, also of jobs.synthesize, or folders of them")
    add("--leave-out", nargs="*", default=list(LEFT_OUT), help="sources not read (%(default)s)")
    add("--out", type=Path, required=True, help="folder of the adapter")
    add("--merged", type=Path, help="folder for the whole model, for generate.model")
    add("--work", type=Path, help="folder of checkpoints; a run that finds one goes on from it")
    add("--force", action="store_true", help="replace folders that exist")
    add("--base", default=DEFAULT_BASE, help="language model that is adapted (%(default)s)")
    add("--start", type=Path, help="folder of an adapter to go on from")
    add("--max-minutes", type=float, default=options.max_minutes, help="training alone (%(default)s)")
    add("--max-contexts", type=int, default=data.max_groups, help="to train on (%(default)s)")
    add("--max-passages", type=int, default=data.max_passages, help="that contexts are made of (%(default)s)")
    add("--dev-examples", type=int, default=data.dev_examples, help="to measure with (%(default)s)")
    add("--dev-share", type=float, default=data.dev_share, help="documents held out (%(default)s)")
    add("--bm25-only", action="store_true", help="distractors without the encoder, which spares encoding passages")
    add(
        "--absent-share", type=float, default=contexts.absent_share, help="contexts without their passage (%(default)s)"
    )
    add("--rank", type=int, default=options.rank, help="of the adapter (%(default)s); alpha is twice that")
    add("--learning-rate", type=float, default=options.learning_rate)
    add("--contexts-per-step", type=int, default=options.groups_per_step)
    add("--epochs", type=int, default=options.epochs)
    add("--max-tokens", type=int, default=options.max_tokens, help="of a context with its questions (%(default)s)")
    add("--seed", type=int, default=options.seed)
    add("--json", action="store_true", dest="as_json", help="print the report as JSON")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `python -m jobs.raft`. Exit codes: 0, 1 when it failed, 2 for wrong arguments or data."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    chosen = build_parser().parse_args(given)
    data = DataOptions(
        paths=tuple(chosen.pairs),
        leave_out=tuple(chosen.leave_out),
        max_passages=chosen.max_passages,
        max_groups=chosen.max_contexts,
        dev_examples=chosen.dev_examples,
        dev_share=chosen.dev_share,
        encode=not chosen.bm25_only,
        contexts=RaftOptions(absent_share=chosen.absent_share, seed=chosen.seed),
    )
    options = RaftTrainingOptions(
        rank=chosen.rank,
        alpha=2 * chosen.rank,
        learning_rate=chosen.learning_rate,
        groups_per_step=chosen.contexts_per_step,
        epochs=chosen.epochs,
        max_minutes=chosen.max_minutes,
        max_tokens=chosen.max_tokens,
        seed=chosen.seed,
    )
    try:
        run(
            load_config(chosen.config),
            data,
            options,
            Outputs(chosen.out, chosen.merged, chosen.force),
            base=chosen.base,
            start=chosen.start,
            work=chosen.work,
            command=told_command(PROGRAM, given),
            as_json=chosen.as_json,
        )
    except RagError as error:
        return print_failure(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
