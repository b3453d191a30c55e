"""`python -m jobs.train_reranker`: train a reranker on questions and passages, and say what it is worth.

pairs -> split by document -> hard negatives of BM25 and of the encoder -> an adapter of the encoder. `--out` is the
adapter in PEFT's format; `--merged` also writes the whole model, for `rerank.model` in rag.yaml,
beside `rerank.reranker: cross_encoder`.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_args

from jobs.adapters import Outputs, page_of, progress_of
from jobs.printing import print_failure, print_json, print_pairs, print_rows, say, told_command
from rag.config import RagConfig, load_config
from rag.errors import InputError, RagError
from rag.models import merge_adapter, resolve
from rag.parts import build_embedder
from rag.train.fit import Precision
from rag.train.negatives import MiningOptions, PassagePool, RankingExample
from rag.train.pairs import read_pairs, sample_pairs, split_pairs
from rag.train.reranker import RerankerOptions, RerankerReport, RerankerTrainer, TrainingState
from rag.train.reranker_card import adapter_card, ranking_rows
from rag.train.sources import LEFT_OUT

PROGRAM = "python -m jobs.train_reranker"
DEFAULT_BASE = "all-MiniLM-L6-v2"


@dataclass(frozen=True, slots=True)
class DataOptions:
    """Which pairs are read, and what is made of them."""

    paths: tuple[Path, ...]
    leave_out: tuple[str, ...] = LEFT_OUT
    max_questions: int = 4_000
    pool_passages: int = 8_000  # that negatives come from, those of the questions included
    dev_questions: int = 200
    dev_share: float = 0.1  # of the documents
    dev_candidates: int = 8  # of each kind half
    mining: MiningOptions = field(default_factory=MiningOptions)


@dataclass(frozen=True, slots=True)
class Examples:
    """The examples of both sides, and the questions to train on by source."""

    train: list[RankingExample]
    dev: list[RankingExample]
    questions: Counter[str]


def make_examples(config: RagConfig, options: DataOptions) -> Examples:
    """Read, sample, split and mine. Raises InputError when one side has no questions."""
    seed = options.mining.seed
    pairs = read_pairs(options.paths, options.leave_out)
    train_side, dev_side = split_pairs(pairs, options.dev_share, seed)
    if not train_side or not dev_side:
        documents = len({pair.document for pair in pairs})
        raise InputError(
            f"{len(pairs)} pairs of {documents} documents split into {len(train_side)} to train on and {len(dev_side)} "
            f"to measure with; give more documents or another --dev-share than {options.dev_share:g}"
        )
    train = sample_pairs(train_side, options.max_questions, seed)
    dev = sample_pairs(dev_side, options.dev_questions, seed)
    # Passages of other questions to train on make the negatives harder; none comes from the held-out side.
    extra = sample_pairs(train_side, options.pool_passages, seed)
    pool_size = max(options.pool_passages, len(train) + len(dev))
    pool_pairs = list(dict.fromkeys([*dev, *train, *extra]))[:pool_size]
    with progress_of("passages encoded") as told:
        pool = PassagePool(pool_pairs, build_embedder(config), config.index.lexical, told)
    say(f"mining negatives for {len(train)} and {len(dev)} questions among {len(pool.texts)} passages")
    allowed = pool.rows(pool_pairs[len(dev) :])
    half = options.dev_candidates // 2
    measured = MiningOptions(half, options.dev_candidates - half, 2 * options.dev_candidates, seed=seed)
    return Examples(
        train=pool.draw(train, allowed, options.mining),
        dev=pool.best(dev, pool.rows(pool_pairs), measured),
        questions=Counter(pair.source for pair in train),
    )


def run(
    config: RagConfig,
    data: DataOptions,
    options: RerankerOptions,
    outputs: Outputs,
    *,
    base: str = DEFAULT_BASE,
    start: Path | None = None,
    teacher: str | None = None,
    command: str = PROGRAM,
    as_json: bool = False,
) -> RerankerReport:
    """Train, write the adapter and print before and after. Raises InputError and ModelError."""
    outputs.check()
    started = time.perf_counter()
    directory = resolve(base, config.models)
    trainer = RerankerTrainer(directory, options, config.rerank, start)
    examples = make_examples(config, data)
    mined_s = time.perf_counter() - started
    taught = None if teacher is None else teacher_scores(config, teacher, examples.train)
    say(f"training on {len(examples.train)} questions, measuring with {len(examples.dev)} ({trainer.precision})")
    with training_progress() as told:
        report = trainer.train(examples.train, examples.dev, taught, told)
    card = adapter_card(base, options, report, examples.questions, len(examples.dev), command, page_of(start))
    facts = {
        "command": command,
        "base": base,
        "questions": dict(examples.questions),
        "settings": {**asdict(options), "mining": asdict(data.mining)},
        **report.to_json(),
    }
    outputs.write(
        lambda folder: trainer.save(folder, base),
        lambda folder: merge_adapter(directory, outputs.adapter, folder),
        card,
        facts,
    )
    print_report(report, outputs, mined_s, as_json=as_json, facts=facts)
    return report


def teacher_scores(config: RagConfig, name: str, examples: Sequence[RankingExample]) -> list[list[float]]:
    """The logits of the cross-encoder of that name for each passage of each example."""
    from rag.rerank.cross_encoder import CrossEncoder

    model = CrossEncoder(resolve(name, config.models), config.rerank)
    say(f"scoring {sum(len(example.passages) for example in examples)} pairs with {name}")
    return model.score_many([(each.question, [passage.text for passage in each.passages]) for each in examples])


def print_report(
    report: RerankerReport,
    outputs: Outputs,
    mined_s: float,
    *,
    as_json: bool,
    facts: dict[str, Any],  # Any: JSON
) -> None:
    """What a run did, as tables or as JSON."""
    if as_json:
        print_json({**facts, **outputs.to_json()})
        return
    columns = ("ranking of the held-out questions", "MRR before", "MRR after", "hit@1 before", "hit@1 after")
    print_rows("Before and after", columns, ranking_rows(report.before, report.after))
    print_rows(
        "MRR as served, by rerank.model_weight",
        [f"{weight:g}" for weight in report.model_weights],
        [[f"{mrr:.3f}" for mrr in report.model_weights.values()]],
    )
    print_pairs(
        "Training",
        {
            "kept": f"step {report.after.step} of {report.steps}",
            "stopped by": report.stopped,
            "questions seen": report.examples,
            "questions/s": f"{report.examples_per_s:.1f}",
            "seconds": f"{report.seconds:.0f}, after {mined_s:.0f} of mining",
            "adapter": outputs.adapter,
            **(
                {}
                if outputs.merged is None
                else {"rerank.model (with rerank.reranker: cross_encoder)": outputs.merged.resolve()}
            ),
        },
    )


@contextmanager
def training_progress() -> Iterator[Callable[[TrainingState], None]]:
    """Told after each step; what an evaluation found is a line of its own."""
    with progress_of("steps") as told:

        def tell(state: TrainingState) -> None:
            told(state.step, state.total_steps)
            if state.evaluation is not None:
                found = ", ".join(f"{name} {quality.mrr:.3f}" for name, quality in state.evaluation.rankings.items())
                say(f"step {state.step}, {state.seconds:.0f} s, loss {state.loss:.3f}; dev MRR: {found}")

        yield tell


def build_parser() -> argparse.ArgumentParser:
    mining, options, data = MiningOptions(), RerankerOptions(), DataOptions(())
    parser = argparse.ArgumentParser(prog=PROGRAM, description="Train a reranker on questions and passages.")
    add = parser.add_argument
    add("--config", type=Path, default=Path("serve_configs/local/rag.yaml"), help="for its encoder and weights")
    add("--pairs", type=Path, nargs="+", required=True, help="JSONL files, also of jobs.synthesize, or folders of them")
    add("--leave-out", nargs="*", default=list(LEFT_OUT), help="sources not read (%(default)s)")
    add("--out", type=Path, required=True, help="folder of the adapter")
    add("--merged", type=Path, help="folder for the whole model, for rerank.model")
    add("--force", action="store_true", help="replace folders that exist")
    add("--base", default=DEFAULT_BASE, help="encoder that is adapted (%(default)s)")
    add("--start", type=Path, help="folder of an adapter to go on from")
    add("--teacher", help="cross-encoder whose scores are learnt from too, with --distill-weight")
    add("--distill-weight", type=_share, default=0.5, help="of the teacher's part of the loss (%(default)s)")
    add("--residual-scale", type=float, default=options.residual_scale, help="of the cosine under the logit, e.g. 20")
    add("--max-minutes", type=_positive, default=options.max_minutes, help="training; mining is extra (%(default)s)")
    add("--max-questions", type=_count, default=data.max_questions, help="to train on (%(default)s)")
    add("--pool-passages", type=_count, default=data.pool_passages, help="that negatives come from (%(default)s)")
    add("--dev-questions", type=_count, default=data.dev_questions, help="to measure with (%(default)s)")
    add("--dev-share", type=_share, default=data.dev_share, help="documents held out (%(default)s)")
    add("--negatives", type=_count, default=mining.num_encoder + mining.num_bm25, help="a question (%(default)s)")
    add("--max-lead", type=float, default=mining.max_lead, help="cosine over the positive's that a negative may have")
    add("--epochs", type=_count, default=options.epochs)
    add("--learning-rate", type=_positive, default=options.learning_rate)
    add("--max-tokens", type=_count, default=options.max_tokens, help="of a pair (%(default)s)")
    add("--batch-tokens", type=_count, default=options.batch_tokens, help="padded (%(default)s)")
    add("--batch-questions", type=_count, default=options.batch_questions)
    add("--evaluate-every", type=_count, default=options.evaluate_every, help="steps (%(default)s)")
    add("--patience", type=_count, default=options.patience, help="evaluations without a gain (%(default)s)")
    add("--rank", type=_count, default=options.rank, help="of a new adapter (%(default)s); alpha is twice that")
    add("--precision", choices=get_args(Precision), default=options.precision, help="(%(default)s)")
    add("--seed", type=int, default=options.seed)
    add("--json", action="store_true", dest="as_json", help="print the report as JSON")
    return parser


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value}: expected 1 or more")
    return value


def _positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{value}: expected more than 0")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{value}: expected a share between 0 and 1")
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `python -m jobs.train_reranker`. Exit codes: 0, 1 when it failed, 2 for wrong arguments."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    chosen = build_parser().parse_args(given)
    mining = MiningOptions(
        num_encoder=(chosen.negatives + 1) // 2,
        num_bm25=chosen.negatives // 2,
        max_lead=chosen.max_lead,
        seed=chosen.seed,
    )
    data = DataOptions(
        paths=tuple(chosen.pairs),
        leave_out=tuple(chosen.leave_out),
        max_questions=chosen.max_questions,
        pool_passages=chosen.pool_passages,
        dev_questions=chosen.dev_questions,
        dev_share=chosen.dev_share,
        mining=mining,
    )
    options = RerankerOptions(
        rank=chosen.rank,
        alpha=2 * chosen.rank,
        learning_rate=chosen.learning_rate,
        epochs=chosen.epochs,
        max_minutes=chosen.max_minutes,
        max_tokens=chosen.max_tokens,
        batch_tokens=chosen.batch_tokens,
        batch_questions=chosen.batch_questions,
        residual_scale=chosen.residual_scale,
        distill_weight=chosen.distill_weight if chosen.teacher else 0.0,
        evaluate_every=chosen.evaluate_every,
        patience=chosen.patience,
        precision=chosen.precision,
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
            teacher=chosen.teacher,
            command=told_command(PROGRAM, given),
            as_json=chosen.as_json,
        )
    except RagError as error:
        return print_failure(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
