"""The README.md of a trained reranker adapter: what it is, what it is worth, and whom to name."""

from collections.abc import Mapping
from typing import NamedTuple

from rag.train.pairs import SYNTHETIC
from rag.train.reranker import Evaluation, Ranking, RerankerOptions, RerankerReport


class SourceTerms(NamedTuple):
    """A collection of pairs as its authors ask to see it named."""

    collection: str
    origin: str
    terms: str


SOURCES: Mapping[str, SourceTerms] = {
    "squad-v1.1-dev": SourceTerms(
        "SQuAD 1.1, development set", "Rajpurkar et al., 2016; `rajpurkar/SQuAD-explorer`", "CC BY-SA 4.0"
    ),
    "squad-sentences": SourceTerms("SQuAD sentences", "Du et al., 2017, after SQuAD; `xinyadu/nqg`", "CC BY-SA 4.0"),
    "medquad": SourceTerms("MedQuAD", "Ben Abacha and Demner-Fushman, 2019; `abachaa/MedQuAD`", "CC BY 4.0"),
    "fairytaleqa": SourceTerms("FairytaleQA", "Xu et al., 2022; `uci-soe/FairytaleQAData`", "Apache-2.0"),
    "nq-open-gold": SourceTerms(
        "Natural Questions with gold passages",
        "`nelson-liu/lost-in-the-middle`, after Kwiatkowski et al., 2019",
        "MIT; Wikipedia text CC BY-SA 3.0",
    ),
    "qed-dev": SourceTerms("QED, development set", "Lamm et al., 2021; `google-research-datasets/QED`", "CC BY-SA 3.0"),
    "covid-qa": SourceTerms("COVID-QA", "Möller et al., 2020; `deepset-ai/COVID-QA`", "Apache-2.0"),
    "pubmedqa": SourceTerms("PubMedQA", "Jin et al., 2019; `pubmedqa/pubmedqa`", "MIT"),
    "policyqa": SourceTerms(
        "PolicyQA", "Ahmad et al., 2020; `wasiahmad/PolicyQA`", "MIT; OPP-115 asks for research use"
    ),
    "conditionalqa": SourceTerms(
        "ConditionalQA", "Sun et al., 2022; `haitian-sun/ConditionalQA`", "BSD-2; asks for research use"
    ),
}
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
        "| collection | questions | from | terms |",
        "|---|---|---|---|",
        *(_source_row(source, count) for source, count in sorted(questions.items())),
        "",
    ]
    page = "\n".join(lines)
    return f"{page}\n---\n\nThe adapter that training went on from:\n\n{_one_deeper(earlier)}" if earlier else page


def _source_row(source: str, count: int) -> str:
    if source.startswith(SYNTHETIC):
        named = SourceTerms("questions made of documents", f"`jobs.synthesize` ({source})", "those of the documents")
    else:
        named = SOURCES.get(source, SourceTerms(source, "given by path", "not known"))
    return f"| {named.collection} | {count:,} | {named.origin} | {named.terms} |"


def _one_deeper(page: str) -> str:
    return "\n".join(f"#{line}" if line.startswith("#") else line for line in page.splitlines()) + "\n"
