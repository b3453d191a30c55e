"""All measures of one parsed document beside its ground truth."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from rag.evaluate.parsing.headings import mhs
from rag.evaluate.parsing.normal_form import with_html_tables
from rag.evaluate.parsing.reading_order import nid, without_tables
from rag.evaluate.parsing.tables import teds


@dataclass(frozen=True, slots=True)
class ParseScores:
    """The measures of one document, each in [0, 1]; None where the ground truth has nothing to compare.

    Those that end in `_s` leave out the tables (NID) or what cells and headings say (TEDS, MHS).
    """

    nid: float | None
    nid_s: float | None
    teds: float | None
    teds_s: float | None
    mhs: float | None
    mhs_s: float | None

    @property
    def overall(self) -> float | None:
        """The mean of NID, TEDS and MHS, as far as there is something to compare."""
        return _mean((self.nid, self.teds, self.mhs))


def score_markdown(truth: str, predicted: str) -> ParseScores:
    """The measures of a parser's Markdown; an empty prediction is one without text, tables and headings."""
    truth, predicted = with_html_tables(truth), with_html_tables(predicted)
    return ParseScores(
        nid=nid(truth, predicted),
        nid_s=nid(without_tables(truth), without_tables(predicted)),
        teds=teds(truth, predicted),
        teds_s=teds(truth, predicted, read_texts=False),
        mhs=mhs(truth, predicted),
        mhs_s=mhs(truth, predicted, read_texts=False),
    )


def mean_scores(scores: Sequence[ParseScores]) -> ParseScores:
    """Each measure averaged over the documents that have it."""
    return ParseScores(*(_mean(getattr(one, field.name) for one in scores) for field in fields(ParseScores)))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
