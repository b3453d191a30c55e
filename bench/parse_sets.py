"""The documents on which parsers are measured, each with the ground truth that is known of it."""

import csv
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

import pymupdf

from bench.parse_awkward import EXPECTED, Expected
from bench.report import PROJECT
from rag.evaluate.parsing.facts import Fact, read_facts
from rag.evaluate.parsing.headings import mhs
from rag.evaluate.parsing.normal_form import with_html_tables
from rag.evaluate.parsing.reading_order import nid
from rag.evaluate.parsing.tables import teds

Scores = dict[str, float]  # measure -> figure

_LOGO_SHARE = 0.02  # of a page
_TEXT_PAGES = PROJECT / "var" / "bench" / "text-pages"  # folder


@dataclass(frozen=True, slots=True)
class ParseCase:
    """One file with what is true of it."""

    set_name: str
    path: Path
    truth: str = ""  # Markdown, HTML or plain text; "" where none is known
    measures: tuple[str, ...] = ()  # of `MEASURES`, against the truth
    facts: tuple[Fact, ...] = ()
    expected: Expected | None = None  # of a file that breaks parsers
    password: str = ""
    is_plain: bool = False  # the truth: then no table of what was parsed becomes HTML, which would only add tags
    num_pages: int = 0  # 0 where they can't be counted
    size_bytes: int = 0

    @property
    def name(self) -> str:
        return self.path.stem

    def score(self, markdown: str, error: str = "") -> Scores:
        """The measures that have something to compare; under `facts` how many of them hold, under `right` 1 for what
        is right for a file that breaks parsers."""
        form = str if self.is_plain else with_html_tables
        truth, predicted = form(self.truth), form(markdown)
        scores = {name: MEASURES[name](truth, predicted) for name in self.measures}
        found = {name: score for name, score in scores.items() if score is not None}
        if self.facts:
            found["facts"] = float(sum(fact.holds(markdown) for fact in self.facts))
        if self.expected is not None:
            found["right"] = float(self.expected.met_by(markdown, error))
        return found


MEASURES: Mapping[str, Callable[[str, str], float | None]] = {
    "nid": nid,
    "teds": teds,
    "teds_s": lambda truth, predicted: teds(truth, predicted, read_texts=False),
    "mhs": mhs,
    "mhs_s": lambda truth, predicted: mhs(truth, predicted, read_texts=False),
}


def read_set(data: Path, name: str) -> list[ParseCase]:
    """The cases of a set, in the order of their names. Raises FileNotFoundError where the set is not there."""
    cases = sorted(_READERS[name](data), key=lambda case: case.name)
    return [
        replace(case, num_pages=_num_pages(case.path, case.password), size_bytes=case.path.stat().st_size)
        for case in cases
    ]


def _num_pages(path: Path, password: str) -> int:
    try:
        with pymupdf.open(path) as pdf:
            if password:
                pdf.authenticate(password)
            return len(pdf)
    except (RuntimeError, ValueError):
        return 0


def _md_source(data: Path) -> list[ParseCase]:
    """Long documents beside the Markdown that they were made from."""
    folder = data / "parse-md-source"
    measures = ("nid", "teds", "teds_s", "mhs", "mhs_s")
    return [
        ParseCase("md-source", path, path.with_suffix(".md").read_text(encoding="utf-8"), measures)
        for path in folder.glob("*.pdf")
    ]


def _tables_icdar2013(data: Path) -> list[ParseCase]:
    """Documents of which all tables are known, and nothing else: all tables of the output are compared with them."""
    folder = data / "parse-tables-icdar2013"
    cases = []
    for line in (folder / "tables.jsonl").read_text(encoding="utf-8").splitlines():
        document = json.loads(line)
        truth = "\n\n".join(table["html"] for table in document["tables"])
        cases.append(ParseCase("tables-icdar2013", folder / document["pdf"], truth, ("teds", "teds_s")))
    return cases


def _text_arxiv(data: Path) -> list[ParseCase]:
    """Papers beside their text as people cleaned it."""
    folder = data / "parse-text-arxiv"
    return [
        ParseCase("text-arxiv", path, path.with_suffix(".txt").read_text(encoding="utf-8"), ("nid",), is_plain=True)
        for path in folder.glob("*.pdf")
    ]


def _text_pages(data: Path) -> list[ParseCase]:
    """The pages of the long documents and papers that hold text, and no image but a logo, as files of their own."""
    _TEXT_PAGES.mkdir(parents=True, exist_ok=True)
    cases = []
    for case in (*_md_source(data), *_text_arxiv(data)):
        with pymupdf.open(case.path) as pdf:
            pages = [number for number, page in enumerate(pdf) if page.get_text().strip() and not _has_picture(page)]
            if pages:
                pdf.select(pages)
                pdf.save(_TEXT_PAGES / case.path.name, garbage=3, deflate=True)
                cases.append(ParseCase("text-pages", _TEXT_PAGES / case.path.name))
    return cases


def _has_picture(page: pymupdf.Page) -> bool:
    boxes = [pymupdf.Rect(image["bbox"]) for image in page.get_image_info()]
    return any(box.get_area() > _LOGO_SHARE * page.rect.get_area() for box in boxes)


def _unit_tests(data: Path) -> list[ParseCase]:
    """Hard single pages with facts about each."""
    folder = data / "parse-unit-tests"
    facts = read_facts(folder / "tests.jsonl")
    return [ParseCase("unit-tests", folder / "pdfs" / name, facts=tuple(of_file)) for name, of_file in facts.items()]


def _awkward(data: Path) -> list[ParseCase]:
    """Files that break parsers; of some of them the text or the table is known."""
    folder = data / "pdf-awkward"
    cases = []
    with (folder / "index.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            truth = row["ground_truth"]
            measures: tuple[str, ...] = ()
            text = ""
            if truth.endswith(".csv"):
                text, measures = _csv_table(folder / truth), ("teds", "teds_s")
            elif truth:
                text, measures = (folder / truth).read_text(encoding="utf-8"), ("nid",)
            cases.append(
                ParseCase(
                    "awkward",
                    folder / "pdfs" / row["file"],
                    text,
                    measures,
                    expected=EXPECTED[Path(row["file"]).stem],
                    password=row["password"],
                )
            )
    return cases


def _csv_table(path: Path) -> str:

    with path.open(encoding="utf-8", newline="") as file:
        rows = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in csv.reader(file)]
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


_READERS: Mapping[str, Callable[[Path], list[ParseCase]]] = {
    "md-source": _md_source,
    "tables-icdar2013": _tables_icdar2013,
    "text-arxiv": _text_arxiv,
    "text-pages": _text_pages,
    "unit-tests": _unit_tests,
    "awkward": _awkward,
}
SETS = tuple(_READERS)

pymupdf.TOOLS.mupdf_display_errors(False)  # pages are only counted here
