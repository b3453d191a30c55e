"""What stands for a chunk in both indexes."""

import pytest

from rag.data import embedded_text
from rag.parse.table import TableCell, render_html, table_of_flow


@pytest.mark.parametrize(
    ("title", "headings", "context", "text", "expected"),
    [
        ("", (), "", "x", "x"),
        ("Guide", ("Guide", "Fees"), "", "x", "Guide > Fees\nx"),
        ("Guide", (), "| zone |", "| B |", "Guide\n| zone |\n| B |"),
    ],
)
def test_title_path_and_context_stand_above_the_text(
    title: str, headings: tuple[str, ...], context: str, text: str, expected: str
) -> None:
    assert embedded_text(title, headings, text, context) == expected


def test_a_table_in_html_is_its_cells_alone() -> None:
    rows = [
        [TableCell(0, 0, "Zone", is_header=True), TableCell(0, 0, "Fee", column_span=2, is_header=True)],
        [TableCell(0, 0, "B & C"), TableCell(0, 0, "a\nb"), TableCell(0, 0, "x < 5")],
    ]
    html = render_html(table_of_flow(rows))
    assert "colspan" in html
    assert embedded_text("", (), f"Above.\n\n{html}\n\nBelow.") == (
        "Above.\n\n| Zone | Fee |\n| B & C | a b | x < 5 |\n\nBelow."
    )


def test_tags_in_prose_and_code_stay() -> None:
    text = "Write <tr> for a row:\n```\n  <tr><td>x</td></tr>\n```"
    assert embedded_text("", (), text) == text
