"""The collections that training questions come from, and what their authors ask for."""

from collections.abc import Mapping
from typing import NamedTuple

LEFT_OUT = ("policyqa", "conditionalqa")  # their terms ask for research use
SYNTHETIC = "synthetic"  # how the source of a row begins that `jobs.synthesize` made


class SourceTerms(NamedTuple):
    """A collection of pairs as its authors ask to see it named."""

    collection: str
    origin: str
    terms: str


_SOURCES: Mapping[str, SourceTerms] = {
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
    "squad-v2.0-dev-unanswerable": SourceTerms(
        "SQuAD 2.0, development set, questions without an answer",
        "Rajpurkar et al., 2018; `rajpurkar/SQuAD-explorer`",
        "CC BY-SA 4.0",
    ),
}


def source_table(questions: Mapping[str, int]) -> list[str]:
    """The lines of a table in Markdown that names each source, with how many questions come from it."""
    rows = [_source_row(source, count) for source, count in sorted(questions.items())]
    return ["| collection | questions | from | terms |", "|---|---|---|---|", *rows]


def _source_row(source: str, count: int) -> str:
    if source.startswith(SYNTHETIC):
        named = SourceTerms("questions made of documents", f"`jobs.synthesize` ({source})", "those of the documents")
    else:
        named = _SOURCES.get(source, SourceTerms(source, "given by path", "not known"))
    return f"| {named.collection} | {count:,} | {named.origin} | {named.terms} |"


def with_earlier_page(page: str, earlier: str) -> str:
    """An adapter's page with that of the adapter below it that training went on from, where there is one: its sources
    stay named."""
    if not earlier:
        return page
    deeper = (f"#{line}" if line.startswith("#") else line for line in earlier.splitlines())
    return "\n".join((page, "---", "", "The adapter that training went on from:", "", *deeper, ""))
