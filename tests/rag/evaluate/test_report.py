"""The page says what the run says, needs nothing beside it, and takes no document's text for markup."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from rag.evaluate.gate import gate
from rag.evaluate.report import html_report
from tests.rag.evaluate.test_gate import BEFORE, IDS, lowered

WORSE = lowered(BEFORE, 0.3, range(12))


@pytest.fixture(scope="module")
def page() -> str:
    awkward = {IDS[0]: ("a.md: <script>alert(1)</script> & more",)}
    return html_report(replace(WORSE, uncovered=awkward, notes=("a <b>note</b>",)), gate(BEFORE, WORSE))


def test_it_loads_nothing(page: str) -> None:
    assert not re.search(r"(?:src|href)\s*=|@import|url\(|<script|<link", page)


def test_texts_of_documents_are_escaped(page: str) -> None:
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in page
    assert "a &lt;b&gt;note&lt;/b&gt;" in page


def test_every_plot_is_well_formed_and_holds_a_bar_a_stage(page: str) -> None:
    plots = re.findall(r"<svg.*?</svg>", page)
    assert plots
    for plot in plots:
        bars = ElementTree.fromstring(plot).findall("{http://www.w3.org/2000/svg}rect")
        assert len(bars) == 1  # BM25 alone was measured
        assert 0 < float(bars[0].attrib["width"]) <= 250


def test_it_says_what_fell_and_how_sure_that_is(page: str) -> None:
    assert '<span class="bad">failed</span>' in page
    row = re.search(r"<tr><td>all</td><td>bm25</td><td>ndcg@10</td>(.*?)</tr>", page)
    assert row is not None
    assert "<td>-0.0450</td>" in row[1]


def test_a_run_alone_has_no_verdict() -> None:
    assert "Gate" not in html_report(BEFORE)
