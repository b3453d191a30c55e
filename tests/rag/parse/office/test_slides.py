from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Pt

from rag.data import Box, Region
from tests.rag.parse.office.making import saved
from tests.rag.parse.parsing import parse, shown


def test_a_slide_is_a_page_with_its_title_as_heading() -> None:
    deck = Presentation()
    first = deck.slides.add_slide(deck.slide_layouts[0])
    first.shapes.title.text = "Kick-off"
    first.placeholders[1].text = "A subtitle"
    second = deck.slides.add_slide(deck.slide_layouts[1])
    second.shapes.title.text = "Plan"
    frame = second.placeholders[1].text_frame
    frame.text = "Build"
    for text, level in [("walls", 1), ("Move in", 0)]:
        paragraph = frame.add_paragraph()
        paragraph.text, paragraph.level = text, level
    second.notes_slide.notes_text_frame.text = "Mention the budget."
    parsed = parse(saved(deck), "a.pptx")
    assert shown(parsed) == [
        ("heading1", "Kick-off"),
        ("paragraph", "A subtitle"),
        ("heading1", "Plan"),
        ("list", "- Build\n  - walls\n- Move in"),
        ("paragraph", "Notes: Mention the budget."),
    ]
    assert (parsed.num_pages, parsed.metadata.title) == (2, "Kick-off")
    assert [block.region.page for block in parsed.blocks if block.region] == [1, 1, 2, 2, 2]


def test_tables_and_charts_are_tables_in_their_place() -> None:
    deck = Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    table = slide.shapes.add_table(2, 2, Pt(10), Pt(20), Pt(100), Pt(50)).table
    for row, texts in enumerate([["Zone", ""], ["A", "1"]]):
        for column, text in enumerate(texts):
            table.cell(row, column).text = text
    table.cell(0, 0).merge(table.cell(0, 1))
    numbers = CategoryChartData()  # type: ignore[no-untyped-call]  # python-pptx leaves its charts untyped
    numbers.categories = ["Q1", "Q2"]
    numbers.add_series("Sales", (1.5, 2))  # type: ignore[no-untyped-call]
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, Pt(0), Pt(0), Pt(9), Pt(9), numbers)
    heading, drawn, chart = parse(saved(deck), "a.pptx").blocks
    assert heading.text == "Slide 1"
    assert '<th colspan="2">Zone</th>' in drawn.text
    assert drawn.region == Region(1, Box(10, 20, 110, 70))
    assert chart.text.split("\n")[0::2] == ["|  | Sales |", "| Q1 | 1.5 |"]


def test_a_hidden_slide_is_left_out_and_flagged() -> None:
    deck = Presentation()
    for text in ("seen", "unseen"):
        deck.slides.add_slide(deck.slide_layouts[5]).shapes.title.text = text
    deck.slides[1].element.set("show", "0")
    parsed = parse(saved(deck), "a.pptx")
    assert (shown(parsed), parsed.flags, parsed.num_pages) == ([("heading1", "seen")], ("hidden_text",), 2)
