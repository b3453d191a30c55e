"""`python -m jobs.train_reader`: train the reader that finds answers in passages, and say what it is worth.

questions with passages and answers -> split by document -> passages that search finds and that lack the answer, cells
of tables -> an adapter of the encoder with a span head. `--merged` also writes the whole model, for `generate.reader`;
then `python -m bench.abstention --write FILE` makes its scores probabilities.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import get_args

from jobs.adapters import Outputs, page_of, progress_of
from jobs.printing import print_failure, print_json, print_pairs, print_rows, say, told_command
from jobs.training import DEFAULT_BASE, count, positive, training_progress
from rag.config import RagConfig, load_config
from rag.errors import InputError, RagError
from rag.models import merge_adapter, resolve
from rag.parts import build_embedder
from rag.train.fit import Precision
from rag.train.labelled import LabelledQuestion, held_out, read_labelled
from rag.train.negatives import MiningOptions, PassagePool
from rag.train.pairs import TrainingPair
from rag.train.reader import ReaderEvaluation, ReaderOptions, ReaderReport, ReaderTrainer
from rag.train.reader_card import answer_rows, reader_card
from rag.train.sources import LEFT_OUT
from rag.train.span_examples import HELD_OUT, SpanData, SpanExample, Table, dev_questions, mine, tables_of

PROGRAM = "python -m jobs.train_reader"
MINING = MiningOptions(num_encoder=3, num_bm25=3, max_lead=1.0)


def read_data(config: RagConfig, questions: Sequence[LabelledQuestion], pages: Sequence[Path]) -> SpanData:
    """The questions with mined negatives, and the tables of the Markdown files below the folders."""
    answerable = [question for question in questions if question.answerable]
    pairs = [TrainingPair(q.question, q.passage, q.source, q.document, q.passage) for q in questions]
    with progress_of("passages encoded") as told:
        pool = PassagePool(pairs, build_embedder(config), config.index.lexical, told)
    say(f"mining passages for {len(answerable)} questions among {len(pool.texts)}")
    titles = {question.passage: question.title for question in questions}
    unanswerable = [question for question in questions if not question.answerable]
    return SpanData(list(mine(answerable, pool, titles, MINING)), unanswerable, read_tables(pages))


def read_tables(folders: Sequence[Path]) -> list[Table]:
    """The tables of every Markdown file below the folders. Raises InputError for a folder that is not there."""
    if missing := [folder for folder in folders if not folder.is_dir()]:
        raise InputError(f"{missing[0]}: no such folder of Markdown pages")
    return [
        table
        for folder in folders
        for page in sorted(folder.rglob("*.md"))
        for table in tables_of(page.read_text(encoding="utf-8", errors="replace"), page.stem.replace("-", " "))
    ]


def run(
    config: RagConfig,
    paths: Sequence[Path],
    pages: Sequence[Path],
    options: ReaderOptions,
    outputs: Outputs,
    *,
    num_dev: int = 150,
    leave_out: Sequence[str] = LEFT_OUT,
    base: str = DEFAULT_BASE,
    start: Path | None = None,
    command: str = PROGRAM,
    as_json: bool = False,
) -> ReaderReport:
    """Train, write the adapter and print before and after. Raises InputError and ModelError."""
    outputs.check()
    directory = resolve(base, config.models)
    trainer = ReaderTrainer(directory, options, config.rerank, start)
    read = [question for question in read_labelled(paths) if question.source not in leave_out]
    sides = [[q for q in read if held_out(q.document, HELD_OUT) == dev] for dev in (False, True)]
    data, held = read_data(config, sides[0], pages), read_data(config, _sampled(sides[1], 20 * num_dev), ())
    train: list[SpanExample] = []
    for epoch in range(options.epochs):
        train += data.draw(options.seed + epoch)
    dev = dev_questions(held, num_dev, random.Random(options.seed))
    say(f"training on {len(train)} examples, measuring with {len(dev)} questions ({trainer.precision})")
    with training_progress(_described) as told:
        report = trainer.train(train, dev, told)
    questions = Counter(question.source for question in sides[0])
    card = reader_card(base, options, report, questions, len(dev), command, page_of(start))
    facts = {
        "command": command,
        "base": base,
        "questions": dict(questions),
        "tables": len(data.tables),
        "settings": asdict(options),
        **report.to_json(),
    }
    outputs.write(
        lambda folder: trainer.save(folder, base),
        lambda folder: merge_adapter(directory, outputs.adapter, folder, "reader"),
        card,
        facts,
    )
    if as_json:
        print_json({**facts, **outputs.to_json()})
        return report
    print_rows("Before and after", ("held-out questions", "before", "after"), answer_rows(report))
    print_pairs(
        "Training",
        {
            "kept": f"step {report.after.step} of {report.steps}",
            "stopped by": report.stopped,
            "examples seen": report.examples,
            "seconds": f"{report.seconds:.0f}",
            "adapter": outputs.adapter,
        },
    )
    return report


def _sampled(questions: Sequence[LabelledQuestion], limit: int) -> list[LabelledQuestion]:
    return random.Random(0).sample(list(questions), min(limit, len(questions)))


def _described(evaluation: ReaderEvaluation) -> str:
    return f"exact {evaluation.exact:.3f}, F1 {evaluation.f1:.3f}, AUC {evaluation.separated:.3f}"


def build_parser() -> argparse.ArgumentParser:
    options = ReaderOptions()
    parser = argparse.ArgumentParser(prog=PROGRAM, description="Train the reader that finds answers in passages.")
    add = parser.add_argument
    add("--config", type=Path, default=Path("serve_configs/local/rag.yaml"), help="for its encoder")
    add("--pairs", type=Path, nargs="+", required=True, help="JSONL files with answers, or folders of them")
    add("--pages", type=Path, nargs="*", default=[], help="folders of Markdown pages, whose tables are asked about")
    add("--leave-out", nargs="*", default=list(LEFT_OUT), help="sources not read (%(default)s)")
    add("--out", type=Path, required=True, help="folder of the adapter")
    add("--merged", type=Path, help="folder for the whole model, for generate.reader")
    add("--force", action="store_true", help="replace folders that exist")
    add("--base", default=DEFAULT_BASE, help="encoder that is adapted (%(default)s)")
    add("--start", type=Path, help="folder of an adapter to go on from")
    add("--max-minutes", type=positive, default=options.max_minutes, help="training; mining is extra (%(default)s)")
    add("--epochs", type=count, default=options.epochs, help="with negatives of their own (%(default)s)")
    add("--dev-questions", type=count, default=150, help="to measure with (%(default)s)")
    add("--learning-rate", type=positive, default=options.learning_rate)
    add("--rank", type=count, default=options.rank, help="of a new adapter (%(default)s); alpha is twice that")
    add("--max-tokens", type=count, default=options.max_tokens, help="of question and passage (%(default)s)")
    add("--batch-tokens", type=count, default=options.batch_tokens, help="padded (%(default)s)")
    add("--evaluate-every", type=count, default=options.evaluate_every, help="steps (%(default)s)")
    add("--patience", type=count, default=options.patience, help="evaluations without a gain (%(default)s)")
    add("--precision", choices=get_args(Precision), default=options.precision, help="(%(default)s)")
    add("--seed", type=int, default=options.seed)
    add("--json", action="store_true", dest="as_json", help="print the report as JSON")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `python -m jobs.train_reader`. Exit codes: 0, 1 when it failed, 2 for wrong arguments."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    chosen = build_parser().parse_args(given)
    options = ReaderOptions(
        rank=chosen.rank,
        alpha=2 * chosen.rank,
        learning_rate=chosen.learning_rate,
        epochs=chosen.epochs,
        max_minutes=chosen.max_minutes,
        max_tokens=chosen.max_tokens,
        batch_tokens=chosen.batch_tokens,
        evaluate_every=chosen.evaluate_every,
        patience=chosen.patience,
        precision=chosen.precision,
        seed=chosen.seed,
    )
    try:
        run(
            load_config(chosen.config),
            chosen.pairs,
            chosen.pages,
            options,
            Outputs(chosen.out, chosen.merged, chosen.force),
            num_dev=chosen.dev_questions,
            leave_out=chosen.leave_out,
            base=chosen.base,
            start=chosen.start,
            command=told_command(PROGRAM, given),
            as_json=chosen.as_json,
        )
    except RagError as error:
        return print_failure(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
