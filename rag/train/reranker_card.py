"""The README.md of a trained reranker adapter: what it is, what it is worth, and whom to name."""

from collections.abc import Mapping

from rag.train.reranker import Evaluation, Ranking, RerankerOptions, RerankerReport
from rag.train.sources import source_table, with_earlier_page

RANKING_NAMES: Mapping[Ranking, str] = {
    "dense": "encoder's cosine",
    "first_stage": "first stage as served",
    "model": "model alone",
    "residual": "model on top of the cosine",
    "combined": "first stage and model as served",
}


def ranking_rows(before: Evaluation, after: Evaluation) -> list[tuple[str, str, str, str, str]]:
    """(ranking, MRR before, MRR after, hit@1 before, hit@1 after), in the order of `RANKING_NAMES`."""
    return [
        (
            name,
            f"{before.rankings[ranking].mrr:.3f}",
            f"{after.rankings[ranking].mrr:.3f}",
            f"{before.rankings[ranking].hit_at_1:.3f}",
            f"{after.rankings[ranking].hit_at_1:.3f}",
        )
        for ranking, name in RANKING_NAMES.items()
        if ranking in after.rankings
    ]


def adapter_card(
    base: str,
    options: RerankerOptions,
    report: RerankerReport,
    questions: Mapping[str, int],
    num_dev: int,
    command: str,
    earlier: str = "",
) -> str:
    """The page in Markdown. `questions` counts those of each source; `earlier` is the page of the adapter that
    training went on from, whose sources stay named."""
    settings = f"rank {options.rank}, alpha {options.alpha}, " if not earlier else "continued from an earlier adapter, "
    lines = [
        f"# A reranker adapter of {base}",
        "",
        f"A LoRA adapter in PEFT's format ({settings}over the query, key, value and dense layers) with its",
        "classification head: question and passage in, one relevance logit out.",
        "",
        "## Training",
        "",
        f"    {command}",
        "",
        f"{sum(questions.values()):,} questions with mined hard negatives, {report.examples:,} seen in",
        f"{report.steps:,} steps and {report.seconds:,.0f} s ({report.device}, {report.precision});",
        f"AdamW at {options.learning_rate:g}, pairs cut at {options.max_tokens} tokens, residual scale "
        f"{options.residual_scale:g}, distillation {options.distill_weight:g}, seed {options.seed}.",
        "",
        "## What it is worth",
        "",
        f"On {num_dev:,} held-out questions, each with the best candidates of BM25 and of the encoder. The served",
        f"score has its highest MRR at `rerank.model_weight: {report.best_model_weight:g}`.",
        "",
        "| ranking | MRR before | MRR after | hit@1 before | hit@1 after |",
        "|---|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in ranking_rows(report.before, report.after)),
        "",
        "## Sources and terms",
        "",
        "It was trained on questions and passages from these collections, which ask to be named. A text that it was",
        "trained on may show in what it prefers: weights made of confidential documents are as confidential as those.",
        "",
        *source_table(questions),
        "",
    ]
    return with_earlier_page("\n".join(lines), earlier)
