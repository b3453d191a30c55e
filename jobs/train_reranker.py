"""`python -m jobs.train_reranker`: train a reranker on questions and passages, and say what it is worth.

pairs -> split by document -> hard negatives of BM25 and of the encoder -> an adapter of the encoder. `--out` is the
adapter in PEFT's format; `--merged` also writes the whole model, for `rerank.model` in rag.yaml,
beside `rerank.reranker: cross_encoder`.
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
from rag.train.negatives import RankingExample
from rag.train.reranker import Evaluation, RerankerOptions, RerankerReport, RerankerTrainer
from rag.train.reranker_card import adapter_card, ranking_rows

PROGRAM = "python -m jobs.train_reranker"


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
    with training_progress(_described) as told:
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


def _described(evaluation: Evaluation) -> str:
    found = ", ".join(f"{name} {quality.mrr:.3f}" for name, quality in evaluation.rankings.items())
    return f"MRR {found}"


def build_parser() -> argparse.ArgumentParser:
    options = RerankerOptions()
    parser = argparse.ArgumentParser(prog=PROGRAM, description="Train a reranker on questions and passages.")
    add_training_arguments(parser, options, "rerank.model beside rerank.reranker: cross_encoder")
    add = parser.add_argument
    add("--teacher", help="cross-encoder whose scores are learnt from too, with --distill-weight")
    add("--distill-weight", type=share, default=0.5, help="of the teacher's part of the loss (%(default)s)")
    add("--residual-scale", type=float, default=options.residual_scale, help="of the cosine under the logit, e.g. 20")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `python -m jobs.train_reranker`. Exit codes: 0, 1 when it failed, 2 for wrong arguments."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    chosen = build_parser().parse_args(given)
    options = RerankerOptions(
        residual_scale=chosen.residual_scale,
        distill_weight=chosen.distill_weight if chosen.teacher else 0.0,
        **shared_settings(chosen),
    )
    try:
        run(
            load_config(chosen.config),
            data_options(chosen),
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
