"""What the jobs that train an adapter of an encoder share: the pairs they read, the negatives they mine, their command
line and how far they are."""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_args

from jobs.adapters import progress_of
from jobs.printing import say
from rag.config import RagConfig
from rag.errors import InputError
from rag.parts import build_embedder
from rag.train.encoder import EncoderOptions
from rag.train.fit import FitState, Precision
from rag.train.negatives import MiningOptions, PassagePool, RankingExample
from rag.train.pairs import read_pairs, sample_pairs, split_pairs
from rag.train.reranker import RerankerOptions
from rag.train.sources import LEFT_OUT

DEFAULT_BASE = "all-MiniLM-L6-v2"

Measured = TypeVar("Measured")


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


@contextmanager
def training_progress(describe: Callable[[Measured], str]) -> Iterator[Callable[[FitState[Measured]], None]]:
    """Told after each step; what an evaluation found is a line of its own."""
    with progress_of("steps") as told:

        def tell(state: FitState[Measured]) -> None:
            told(state.step, state.total_steps)
            if state.evaluation is not None:
                found = describe(state.evaluation)
                say(f"step {state.step}, {state.seconds:.0f} s, loss {state.loss:.3f}; held out: {found}")

        yield tell


# ---------------------------------------------------------------- the command line


def add_training_arguments(
    parser: argparse.ArgumentParser, options: EncoderOptions | RerankerOptions, merged: str
) -> None:
    """The options that every trainer has, with the defaults of `options`; `merged` says what its whole model is for."""
    mining, data = MiningOptions(), DataOptions(())
    add = parser.add_argument
    add("--config", type=Path, default=Path("serve_configs/local/rag.yaml"), help="for its encoder and weights")
    add("--pairs", type=Path, nargs="+", required=True, help="JSONL files, also of jobs.synthesize, or folders of them")
    add("--leave-out", nargs="*", default=list(LEFT_OUT), help="sources not read (%(default)s)")
    add("--out", type=Path, required=True, help="folder of the adapter")
    add("--merged", type=Path, help=f"folder for the whole model, for {merged}")
    add("--force", action="store_true", help="replace folders that exist")
    add("--base", default=DEFAULT_BASE, help="encoder that is adapted (%(default)s)")
    add("--start", type=Path, help="folder of an adapter to go on from")
    add("--max-minutes", type=positive, default=options.max_minutes, help="training; mining is extra (%(default)s)")
    add("--max-questions", type=count, default=data.max_questions, help="to train on (%(default)s)")
    add("--pool-passages", type=count, default=data.pool_passages, help="that negatives come from (%(default)s)")
    add("--dev-questions", type=count, default=data.dev_questions, help="to measure with (%(default)s)")
    add("--dev-share", type=share, default=data.dev_share, help="documents held out (%(default)s)")
    add("--negatives", type=count, default=mining.num_encoder + mining.num_bm25, help="a question (%(default)s)")
    add("--max-lead", type=float, default=mining.max_lead, help="cosine over the positive's that a negative may have")
    add("--epochs", type=count, default=options.epochs)
    add("--learning-rate", type=positive, default=options.learning_rate)
    add("--max-tokens", type=count, default=options.max_tokens, help="of what is read at once (%(default)s)")
    add("--batch-tokens", type=count, default=options.batch_tokens, help="padded (%(default)s)")
    add("--batch-questions", type=count, default=options.batch_questions)
    add("--evaluate-every", type=count, default=options.evaluate_every, help="steps (%(default)s)")
    add("--patience", type=count, default=options.patience, help="evaluations without a gain (%(default)s)")
    add("--rank", type=count, default=options.rank, help="of a new adapter (%(default)s); alpha is twice that")
    add("--precision", choices=get_args(Precision), default=options.precision, help="(%(default)s)")
    add("--seed", type=int, default=options.seed)
    add("--json", action="store_true", dest="as_json", help="print the report as JSON")


def data_options(chosen: argparse.Namespace) -> DataOptions:
    """What the command line says of the pairs."""
    mining = MiningOptions(
        num_encoder=(chosen.negatives + 1) // 2,
        num_bm25=chosen.negatives // 2,
        max_lead=chosen.max_lead,
        seed=chosen.seed,
    )
    return DataOptions(
        paths=tuple(chosen.pairs),
        leave_out=tuple(chosen.leave_out),
        max_questions=chosen.max_questions,
        pool_passages=chosen.pool_passages,
        dev_questions=chosen.dev_questions,
        dev_share=chosen.dev_share,
        mining=mining,
    )


def shared_settings(chosen: argparse.Namespace) -> dict[str, Any]:  # Any: fields of several types
    """What the command line says of the fields that every trainer's options have."""
    names = (
        *("rank", "learning_rate", "epochs", "max_minutes", "max_tokens", "batch_tokens", "batch_questions"),
        *("evaluate_every", "patience", "precision", "seed"),
    )
    return {"alpha": 2 * chosen.rank, **{name: getattr(chosen, name) for name in names}}


def count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value}: expected 1 or more")
    return value


def positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{value}: expected more than 0")
    return value


def share(text: str) -> float:
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{value}: expected a share between 0 and 1")
    return value
