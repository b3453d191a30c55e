"""The README.md of a trained encoder adapter: what it is, what it is worth, and whom to name."""

from collections.abc import Mapping

from rag.train.encoder import EncoderOptions, EncoderReport
from rag.train.sources import source_table, with_earlier_page


def quality_rows(report: EncoderReport) -> list[tuple[str, str, str, str, str]]:
    """(ranking, MRR before, MRR after, hit@1 before, hit@1 after): by vectors, and by token states alone."""
    return [
        (name, f"{before.mrr:.3f}", f"{after.mrr:.3f}", f"{before.hit_at_1:.3f}", f"{after.hit_at_1:.3f}")
        for name, before, after in (
            ("vectors", report.before.dense, report.after.dense),
            ("token states", report.before.interaction, report.after.interaction),
        )
    ]


def encoder_card(
    base: str,
    options: EncoderOptions,
    report: EncoderReport,
    questions: Mapping[str, int],
    num_dev: int,
    command: str,
    earlier: str = "",
) -> str:
    """The page in Markdown. `questions` counts those of each source; `earlier` is the page of the adapter that
    training went on from, whose sources stay named."""
    lines = [
        f"# An adapter of the encoder {base}",
        "",
        f"A LoRA adapter in PEFT's format (rank {options.rank}, alpha {options.alpha}, over the query, key, value and",
        "dense layers). The merged model embeds questions and passages, and its token states rerank them.",
        "",
        "## Training",
        "",
        f"    {command}",
        "",
        f"{sum(questions.values()):,} questions, {report.examples:,} seen in {report.steps:,} steps and "
        f"{report.seconds:,.0f} s ({report.device}, {report.precision}), each",
        "against the passages of the others of its batch and a mined negative of each; AdamW at "
        f"{options.learning_rate:g},",
        f"passages cut at {options.max_tokens} tokens, token states {options.interaction_weight:g} of the loss, seed "
        f"{options.seed}.",
        "",
        "## What it is worth",
        "",
        f"On {num_dev:,} held-out questions, each with the best candidates of BM25 and of the encoder before:",
        "",
        "| ranking by | MRR before | MRR after | hit@1 before | hit@1 after |",
        "|---|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in quality_rows(report)),
        "",
        "## Sources and terms",
        "",
        "It was trained on questions and passages from these collections, which ask to be named. A text that it was",
        "trained on may show in what it finds: weights made of confidential documents are as confidential as those.",
        "",
        *source_table(questions),
        "",
    ]
    return with_earlier_page("\n".join(lines), earlier)
