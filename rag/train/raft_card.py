"""The README.md of a trained generator adapter: what it is, what it is worth, and whom to name."""

from collections.abc import Mapping

from rag.train.raft_scores import RaftScores
from rag.train.raft_trainer import RaftState, RaftTrainingOptions
from rag.train.sources import source_table, with_earlier_page


def score_rows(before: RaftScores, after: RaftScores) -> list[tuple[str, str, str]]:
    """(figure, before, after), of the kinds of questions that there are."""
    answers = (
        (f"answered, of {after.num_answerable} answerable", before.answered, after.answered),
        ("the answer's words in the text", before.holds_gold, after.holds_gold),
        ("short answer right (token F1 of 0.5)", before.short_right, after.short_right),
        ("citations of a golden passage", before.citation_precision, after.citation_precision),
        ("golden passages cited", before.citation_recall, after.citation_recall),
    )
    refusals = ((f"refused, of {after.num_unanswerable} unanswerable", before.refused, after.refused),)
    figures = (*(answers if after.num_answerable else ()), *(refusals if after.num_unanswerable else ()))
    return [(name, f"{one:.2f}", f"{other:.2f}") for name, one, other in figures]


def adapter_card(
    base: str,
    options: RaftTrainingOptions,
    state: RaftState,
    questions: Mapping[str, int],
    before: RaftScores,
    after: RaftScores,
    command: str,
    earlier: str = "",
) -> str:
    """The page in Markdown. `questions` counts those of each source; `earlier` is the page of the adapter that
    training went on from."""
    lines = [
        f"# A generator adapter of {base}",
        "",
        f"A LoRA adapter in PEFT's format (rank {options.rank}, alpha {options.alpha}, over every linear layer of the",
        "blocks): numbered passages and a question in; copied words with their number and a short answer out, or the",
        "sentence that says that the documents do not answer.",
        "",
        "## Training",
        "",
        f"    {command}",
        "",
        f"{state.examples_done:,} examples in {state.groups_done:,} contexts, {state.tokens_done:,} tokens in "
        f"{state.seconds:,.0f} s; AdamW at",
        f"{options.learning_rate:g} with linear decay, {options.groups_per_step} contexts a step, seed {options.seed}.",
        "",
        "## What it is worth",
        "",
        "On questions of held-out documents, written greedily and checked as every served answer is.",
        "",
        "| figure | before | after |",
        "|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in score_rows(before, after)),
        "",
        "## Sources and terms",
        "",
        "It was trained on questions and passages from these collections, which ask to be named. A text that it was",
        "trained on may show in what it writes: weights made of confidential documents are as confidential as those.",
        "",
        *source_table(questions),
        "",
    ]
    return with_earlier_page("\n".join(lines), earlier)
