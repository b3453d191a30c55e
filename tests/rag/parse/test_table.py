from hypothesis import given
from hypothesis import strategies as st

from rag.parse.table import (
    Table,
    TableCell,
    append_rows,
    compact,
    labelled_rows,
    read_table,
    render,
    render_html,
    render_markdown,
    table_of_flow,
    table_of_rows,
)


def cell(text: str, rows: int = 1, columns: int = 1, header: bool = False) -> TableCell:
    return TableCell(0, 0, text, rows, columns, header)


FEES = table_of_rows([["Zone", "Parking fee per day"], ["A", "18 CHF"], ["B", "12 CHF"], ["C", ""]])
YEARS = table_of_flow(
    [
        [cell("Region", rows=2, header=True), cell("Sales", columns=2, header=True)],
        [cell("2021", header=True), cell("2022", header=True)],
        [cell("North", rows=2), cell("1"), cell("2")],
        [cell("3"), cell("4")],
    ]
)
words = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=6)
texts = st.lists(words, max_size=3).map(" ".join)
flows = st.lists(
    st.lists(
        st.builds(
            cell,
            st.one_of(texts, st.lists(words, min_size=2, max_size=2).map("\n".join)),
            st.integers(1, 3),
            st.integers(1, 3),
            st.booleans(),
        ),
        min_size=1,
        max_size=4,
    ),
    min_size=1,
    max_size=5,
)


def test_a_table_without_spans_is_a_pipe_table() -> None:
    assert render(FEES) == "| Zone | Parking fee per day |\n| --- | --- |\n| A | 18 CHF |\n| B | 12 CHF |\n| C |  |"


def test_a_table_with_spans_is_html_with_a_row_a_line() -> None:
    assert render(YEARS).split("\n") == [
        "<table>",
        '<tr><th rowspan="2">Region</th><th colspan="2">Sales</th></tr>',
        "<tr><th>2021</th><th>2022</th></tr>",
        '<tr><td rowspan="2">North</td><td>1</td><td>2</td></tr>',
        "<tr><td>3</td><td>4</td></tr>",
        "</table>",
    ]


def test_rows_are_labelled_by_their_headers() -> None:
    assert labelled_rows(FEES) == [
        "Zone: A; Parking fee per day: 18 CHF",
        "Zone: B; Parking fee per day: 12 CHF",
        "Zone: C",
    ]
    assert labelled_rows(YEARS) == [
        "Region: North; Sales 2021: 1; Sales 2022: 2",
        "Region: North; Sales 2021: 3; Sales 2022: 4",
    ]


def test_a_form_puts_each_value_behind_its_name() -> None:
    form = table_of_rows([["Location:", "Bern", "Date:", "May 4"], ["Kind:", "", "State:", "open"]], 0)
    assert labelled_rows(form) == ["Location: Bern; Date: May 4", "Kind:; State: open"]


def test_a_text_over_several_columns_is_said_once_in_its_row() -> None:
    table = table_of_flow([[cell("a", header=True), cell("b", header=True)], [cell("both", columns=2)]])
    assert labelled_rows(table) == ["a: both"]


def test_a_continued_table_loses_the_header_that_it_repeats() -> None:
    more = table_of_rows([["ZONE", "Parking fee  per day"], ["D", "9 CHF"]])
    assert append_rows(FEES, more).grid()[3:] == [["C", ""], ["D", "9 CHF"]]
    assert append_rows(FEES, table_of_rows([["D", "9 CHF"]])).grid()[-1] == ["D", "9 CHF"]
    assert append_rows(FEES, table_of_rows([["D", "9 CHF"]])).num_header_rows == 1


def test_rows_and_columns_without_text_are_left_out() -> None:
    table = Table(3, 4, (TableCell(0, 0, "a", 1, 2), TableCell(0, 3, "b"), TableCell(1, 2, ""), TableCell(2, 3, "c")))
    assert compact(table) == Table(2, 2, (TableCell(0, 0, "a"), TableCell(0, 1, "b"), TableCell(1, 1, "c")))


def test_spans_of_a_flow_end_with_the_table() -> None:
    table = table_of_flow([[cell("a", rows=9, columns=10**9), cell("b")]])
    assert table.num_rows == 1
    assert table.num_columns < 1_000


def test_texts_that_are_no_table_are_not_read() -> None:
    assert read_table("") is None
    assert read_table("a | b\nc | d") is None
    assert read_table("| a |\n| --- |\nprose") is None


@given(rows=st.lists(st.lists(texts, min_size=1, max_size=4), min_size=1, max_size=5))
def test_a_pipe_table_is_read_back_with_the_place_of_each_row(rows: list[list[str]]) -> None:
    table = table_of_rows(rows)
    written = render_markdown(table)
    found = read_table(written)
    assert found is not None
    assert found.table == table
    assert not found.is_html
    lines = [written[start:end] for start, end in found.row_spans]
    assert lines == [line for number, line in enumerate(written.split("\n")) if number != 1]


@given(flow=flows)
def test_html_is_read_back_with_the_place_of_each_row(flow: list[list[TableCell]]) -> None:
    table = table_of_flow(flow)
    written = render_html(table)
    found = read_table(written)
    assert found is not None
    assert found.is_html
    assert found.table.grid() == table.grid()
    assert [c for c in found.table.cells if c.text] == [c for c in table.cells if c.text]
    assert all(written[start:end].startswith("<tr>") for start, end in found.row_spans)
    assert len(found.row_spans) == table.num_rows
