"""The README.md of a trained reader: what it is, what it is worth, and whom to name."""

from collections.abc import Mapping

from rag.train.reader import ReaderOptions, ReaderReport
from rag.train.sources import source_table, with_earlier_page


def answer_rows(report: ReaderReport) -> list[tuple[str, str, str]]:
    """(measure, before, after)."""
    return [
        (name, f"{getattr(report.before, field):.3f}", f"{getattr(report.after, field):.3f}")
        for name, field in (
            ("answer exactly right", "exact"),
            ("F1 of its words", "f1"),
            ("AUC, answerable or not", "separated"),
        )
    ]


def reader_card(
    base: str,
    options: ReaderOptions,
    report: ReaderReport,
    questions: Mapping[str, int],
    num_dev: int,
    command: str,
    earlier: str = "",
) -> str:
    """The page in Markdown. `questions` counts those of each source; `earlier` is the page of the adapter that
    training went on from, whose sources stay named."""
    lines = [
        f"# A reader: an adapter of {base} with a span head",
        "",
        "A LoRA adapter in PEFT's format over the query, key, value and dense layers, and a linear head of two logits",
        "a token in `span_head.safetensors`: question and passage in, where the answer begins and ends out; at the",
        "first token, that there is none.",
        "",
        "## Training",
        "",
        f"    {command}",
        "",
        f"{report.examples:,} examples seen in {report.steps:,} steps and {report.seconds:,.0f} s ({report.device}, "
        f"{report.precision}); AdamW at",
        f"{options.learning_rate:g}, pairs cut at {options.max_tokens} tokens, seed {options.seed}.",
        "",
        "## What it is worth",
        "",
        f"On {num_dev:,} held-out questions, each with passages that search finds; half of them lack the answer:",
        "",
        "| measure | before | after |",
        "|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in answer_rows(report)),
        "",
        "## Sources and terms",
        "",
        "It was trained on questions and passages from these collections, which ask to be named.",
        "",
        *source_table(questions),
        "",
    ]
    return with_earlier_page("\n".join(lines), earlier)
