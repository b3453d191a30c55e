"""`python -m jobs.train_encoder`: adapt the encoder to questions and passages, and say what it is worth.

pairs, as of `jobs.synthesize` over an index -> split by document -> hard negatives of BM25 and of the encoder -> an
adapter. `--out` is the adapter in PEFT's format; `--merged` also writes the whole model: `quire reembed --encoder`
builds a version of the index with it, and `rerank.model` takes it too.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jobs.adapters import Outputs, page_of
from jobs.printing import print_failure, print_json, print_pairs, print_rows, say, told_command
from jobs.training import (
    DEFAULT_BASE,
    DataOptions,
    add_training_arguments,
    data_options,
    make_examples,
    share,
    shared_settings,
    training_progress,
)
from rag.config import RagConfig, load_config
from rag.errors import RagError
from rag.models import merge_adapter, resolve
from rag.train.encoder import EncoderEvaluation, EncoderOptions, EncoderReport, EncoderTrainer
from rag.train.encoder_card import encoder_card, quality_rows

PROGRAM = "python -m jobs.train_encoder"


def run(
    config: RagConfig,
    data: DataOptions,
    options: EncoderOptions,
    outputs: Outputs,
    *,
    base: str = DEFAULT_BASE,
    start: Path | None = None,
    command: str = PROGRAM,
    as_json: bool = False,
) -> EncoderReport:
    """Train, write the adapter and print before and after. Raises InputError and ModelError."""
    outputs.check()
    started = time.perf_counter()
    directory = resolve(base, config.models)
    trainer = EncoderTrainer(directory, options, config.embed, start)
    examples = make_examples(config, data)
    mined_s = time.perf_counter() - started
    say(f"training on {len(examples.train)} questions, measuring with {len(examples.dev)} ({trainer.precision})")
    with training_progress(_described) as told:
        report = trainer.train(examples.train, examples.dev, told)
    card = encoder_card(base, options, report, examples.questions, len(examples.dev), command, page_of(start))
    facts = {
        "command": command,
        "base": base,
        "questions": dict(examples.questions),
        "settings": {**asdict(options), "mining": asdict(data.mining)},
        **report.to_json(),
    }
    outputs.write(
        lambda folder: trainer.save(folder, base),
        lambda folder: merge_adapter(directory, outputs.adapter, folder, "encoder"),
        card,
        facts,
    )
    print_report(report, outputs, mined_s, as_json=as_json, facts=facts)
    return report


def print_report(
    report: EncoderReport,
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
    columns = ("ranking of the held-out questions by", "MRR before", "MRR after", "hit@1 before", "hit@1 after")
    print_rows("Before and after", columns, quality_rows(report))
    print_pairs(
        "Training",
        {
            "kept": f"step {report.after.step} of {report.steps}",
            "stopped by": report.stopped,
            "questions seen": report.examples,
            "seconds": f"{report.seconds:.0f}, after {mined_s:.0f} of mining",
            "adapter": outputs.adapter,
        },
    )
    if outputs.merged is not None:
        merged = outputs.merged.resolve()
        say(f"next: quire reembed --encoder {merged}, with rerank.model: {merged} in rag.yaml")


def _described(evaluation: EncoderEvaluation) -> str:
    return f"MRR vectors {evaluation.dense.mrr:.3f}, token states {evaluation.interaction.mrr:.3f}"


def build_parser() -> argparse.ArgumentParser:
    options = EncoderOptions()
    parser = argparse.ArgumentParser(prog=PROGRAM, description="Adapt the encoder to questions and passages.")
    add_training_arguments(parser, options, "quire reembed --encoder, embed.model and rerank.model")
    parser.add_argument(
        "--interaction-weight",
        type=share,
        default=options.interaction_weight,
        help="of the loss on token states, which late interaction compares (%(default)s)",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `python -m jobs.train_encoder`. Exit codes: 0, 1 when it failed, 2 for wrong arguments."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    chosen = build_parser().parse_args(given)
    options = EncoderOptions(interaction_weight=chosen.interaction_weight, **shared_settings(chosen))
    outputs = Outputs(chosen.out, chosen.merged, chosen.force)
    try:
        run(
            load_config(chosen.config),
            data_options(chosen),
            options,
            outputs,
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
