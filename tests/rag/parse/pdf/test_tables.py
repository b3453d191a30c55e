import json
from pathlib import Path

import pymupdf
import pytest

from rag.parse.pdf.continued import join_continued
from rag.parse.pdf.rulings import Rule, Rulings, grid_table
from rag.parse.pdf.tables import FoundTable, find_tables
from rag.parse.pdf.text_layer import read_page
from rag.parse.pdf.word_lines import Word
from rag.parse.table import read_table
from tests.rag.parse.pdf.drawing import Draw, pdf_bytes, write, write_lines

SHARED = Path(__file__).parents[5] / "shared" / "data"
SECTIONS = [("Wages", "1,200", "1,150"), ("Travel", "310", "295"), ("Rent", "48", "51"), ("Total", "1,558", "1,496")]


def tables_of(*pages: Draw) -> list[list[FoundTable]]:
    with pymupdf.open(stream=pdf_bytes(*pages), filetype="pdf") as pdf:
        return [find_tables(page, read_page(page, number)) for number, page in enumerate(pdf, 1)]


def only_table(draw: Draw) -> FoundTable:
    ((found,),) = tables_of(draw)
    return found


def write_row(page: pymupdf.Page, y: float, cells: tuple[str, ...], xs: tuple[float, ...] = (76, 240, 340)) -> None:
    for x, text in zip(xs, cells, strict=True):
        write(page, x, y, text)


def rule(page: pymupdf.Page, y: float, x0: float = 72, x1: float = 400) -> None:
    page.draw_line((x0, y), (x1, y))


def prose(page: pymupdf.Page) -> None:
    write_lines(
        page, 72, 60, [f"Running text of the page that stands above every table, line {at}." for at in range(4)]
    )


def test_numbers_in_cells_of_one_shade_are_cells_of_their_own() -> None:
    # Three rows of 20 and four columns of 60. The third column's cells have no edge between them, nor has the first one
    # to its left; the first column's have none either, beside two columns that have all.
    xs, ys = (0, 60, 120, 180, 240), (0, 20, 40, 60)
    across = [Rule(y, 60, 120) for y in ys] + [Rule(y, 180, 240) for y in ys] + [Rule(0, 0, 240), Rule(60, 0, 240)]
    down = [Rule(x, 20 if x == 120 else 0, 60) for x in xs]
    rows = [("small", "0.20", "0.00", "0.90"), ("large", "0.40", "0.00", "0.93"), ("both", "0.41", "0.00", "0.94")]
    words = [
        Word(xs[column] + 10, ys[row] + 5, xs[column] + 40, ys[row] + 15, text)
        for row, texts in enumerate(rows)
        for column, text in enumerate(texts)
    ]
    table = grid_table(Rulings(tuple(across), tuple(down)), words)
    assert table is not None
    assert [tuple(cell.text for cell in table.cells if cell.row == row) for row in range(3)] == rows


def test_a_grid_keeps_cells_that_span_and_joins_lines_inside_a_cell() -> None:
    def draw(page: pymupdf.Page) -> None:
        prose(page)
        for y in (120, 140, 160, 200, 220):
            rule(page, y, 180 if y == 200 else 72, 420)
        for x in (72, 180, 420):
            page.draw_line((x, 120), (x, 220))
        page.draw_line((300, 140), (300, 220))
        write(page, 76, 134, "Region")
        write(page, 184, 134, "Sales of both years")
        write_row(page, 154, ("all", "2021", "2022"), (76, 184, 304))
        write_row(page, 174, ("North and", "a text that", "2"), (76, 184, 304))
        write(page, 184, 186, "takes two lines")
        write_row(page, 214, ("the rest", "3", "4"), (76, 184, 304))

    found = only_table(draw)
    cells = {cell.text: cell for cell in found.table.cells}
    assert cells["Sales of both years"].column_span == 2
    assert cells["North and the rest"].row_span == 2
    assert "a text that takes two lines" in cells
    assert found.table.num_header_rows == 2
    assert found.box.x0 == pytest.approx(72, abs=2)
    assert found.box.y1 == pytest.approx(220, abs=2)


def test_rules_over_the_value_columns_of_the_header_alone_leave_no_row_without_its_name() -> None:
    def draw(page: pymupdf.Page) -> None:
        prose(page)
        for x in (236, 336):
            rule(page, 120, x, x + 90)
            rule(page, 138, x, x + 90)
        write_row(page, 133, ("", "Nine Months", "Three Months"))
        write(page, 76, 154, "Europe:")
        for at, cells in enumerate(SECTIONS):
            write_row(page, 166 + 12 * at, cells)

    grid = only_table(draw).table.grid()
    assert grid[0][1:] == ["Nine Months", "Three Months"]
    assert [row[0] for row in grid[2:]] == [cells[0] for cells in SECTIONS]


def test_the_second_line_of_a_column_s_name_stays_with_it() -> None:
    xs = (76, 166, 250, 334, 410)

    def draw(page: pymupdf.Page) -> None:
        prose(page)
        rule(page, 120, 72, 500)
        write_row(page, 132, ("Data points", "Frequency", "Magnitude", "Period", "Signal"), xs)
        write(page, 166, 143, "(Hz)")
        for at, cells in enumerate(SECTIONS):
            write_row(page, 155 + 12 * at, (*cells, "2.1", "15.6"), xs)
        rule(page, 195, 72, 500)

    names = only_table(draw).table.grid()[0]
    assert names == ["Data points", "Frequency (Hz)", "Magnitude", "Period", "Signal"]


def test_rules_across_alone_part_header_and_body() -> None:
    def draw(page: pymupdf.Page) -> None:
        prose(page)
        rule(page, 120)
        write(page, 270, 132, "Amounts in thousands")
        rule(page, 136, 236, 400)
        write_row(page, 148, ("Item", "2021", "2022"))
        rule(page, 152)
        for at, cells in enumerate(SECTIONS):
            write_row(page, 166 + 12 * at, cells)
        rule(page, 208)
        write(page, 72, 220, "Note: figures are rounded.")

    table = only_table(draw).table
    assert table.grid() == [
        ["Item", "Amounts in thousands", "Amounts in thousands"],
        ["Item", "2021", "2022"],
        *(list(cells) for cells in SECTIONS),
    ]
    assert table.num_header_rows == 2


SCORES = [("walking", "0.91", "0.40"), ("climbing", "0.55", "0.20"), ("swimming", "0.73", "0.35")]


def shade(page: pymupdf.Page, x: float, y: float, value: str) -> None:
    page.draw_rect(pymupdf.Rect(x, y - 9, x + 60, y + 3), color=None, fill=(1, 1 - float(value), 1))


def test_cells_shaded_by_their_values_are_part_of_the_table_between_the_rules() -> None:
    def draw(page: pymupdf.Page) -> None:
        prose(page)
        rule(page, 120)
        write_row(page, 132, ("Task", "Speed", "Care"), (76, 240, 300))
        rule(page, 136)
        page.draw_rect(pymupdf.Rect(72, 139, 356, 175), color=None, fill=(0.9, 0.9, 0.9))
        for at, cells in enumerate(SCORES):
            shade(page, 236, 148 + 12 * at, cells[1])
            shade(page, 296, 148 + 12 * at, cells[2])
            write_row(page, 148 + 12 * at, cells, (76, 240, 300))
        rule(page, 178)
        write_row(page, 190, ("Average", "0.73", "0.32"), (76, 240, 300))
        rule(page, 194)

    table = only_table(draw).table
    assert table.grid() == [["Task", "Speed", "Care"], *map(list, SCORES), ["Average", "0.73", "0.32"]]


def test_a_name_that_slants_stands_over_the_column_where_it_begins() -> None:
    def draw(page: pymupdf.Page) -> None:
        prose(page)
        rule(page, 120)
        write(page, 76, 176, "Task")
        for x, name in ((250, "Procedure"), (282, "Completion"), (314, "Knowledge")):
            foot = pymupdf.Point(x, 176)
            page.insert_text(foot, name, fontsize=10, morph=(foot, pymupdf.Matrix(45)))
        rule(page, 180)
        for at in range(6):
            write_row(page, 192 + 12 * at, (f"number {at}", "0.87", f"0.{at}1", "0.20"), (76, 245, 277, 309))
        rule(page, 256)

    table = only_table(draw).table
    assert table.grid()[:2] == [["Task", "Procedure", "Completion", "Knowledge"], ["number 0", "0.87", "0.01", "0.20"]]


def test_titles_of_groups_of_rows_run_over_the_columns_that_the_rows_have() -> None:
    def draw(page: pymupdf.Page) -> None:
        prose(page)
        rule(page, 120)
        write_row(page, 132, ("#", "Level", "Task", "Score"), (76, 100, 180, 330))
        rule(page, 136)
        for group, name in enumerate(("Chemistry", "Archaeology", "Translation")):
            y = 148 + 48 * group
            write_row(page, y, (name, f"Skill {group}"), (76, 180))
            for at, level in enumerate(("Easy", "Normal", "Hard")):
                cells = (str(3 * group + at), level, f"task {at}", "0.50")
                write_row(page, y + 12 * (at + 1), cells, (76, 100, 180, 330))
        rule(page, 288)

    grid = only_table(draw).table.grid()
    assert grid[:3] == [
        ["#", "Level", "Task", "Score"],
        ["Chemistry", "Chemistry", "Skill 0", ""],
        ["0", "Easy", "task 0", "0.50"],
    ]


def test_a_table_without_rules_keeps_sections_and_wrapped_names() -> None:
    def draw(page: pymupdf.Page) -> None:
        prose(page)
        write_row(page, 130, ("", "2021", "2022"))
        write(page, 76, 142, "Operating costs:")
        for at, cells in enumerate(SECTIONS[:2]):
            write_row(page, 154 + 12 * at, cells)
        write(page, 76, 178, "Depreciation of buildings and")
        write_row(page, 190, ("of machines", "12", "9"))
        write_row(page, 202, SECTIONS[2])

    assert only_table(draw).table.grid() == [
        ["", "2021", "2022"],
        ["Operating costs:", "", ""],
        *(list(cells) for cells in SECTIONS[:2]),
        ["Depreciation of buildings and of machines", "12", "9"],
        list(SECTIONS[2]),
    ]


def test_cells_of_several_lines_are_told_by_the_gaps_between_rows() -> None:
    texts = [
        "Verify that every password is stored",
        "Verify that sessions end when",
        "Verify that errors are logged and",
    ]

    def draw(page: pymupdf.Page) -> None:
        prose(page)
        write_row(page, 130, ("#", "Requirement", "L1", "CWE"), (76, 110, 340, 380))
        rule(page, 134)
        for at, text in enumerate(texts):
            y = 150 + 40 * at
            write_row(page, y, (f"1.{at}", text, "x", f"{300 + at}"), (76, 110, 340, 380))
            write(page, 110, y + 11, "in the way that the standard asks for.")

    table = only_table(draw).table
    assert table.grid()[1:] == [
        [f"1.{at}", f"{text} in the way that the standard asks for.", "x", f"{300 + at}"]
        for at, text in enumerate(texts)
    ]


def test_columns_are_told_by_rules_where_the_rows_have_none() -> None:
    def draw(page: pymupdf.Page) -> None:
        prose(page)
        for y in (120, 136, 200):
            rule(page, y)
        for x in (230, 330):
            page.draw_line((x, 120), (x, 200))
        write_row(page, 132, ("Item", "2021", "2022"))
        for at, cells in enumerate(SECTIONS):
            write_row(page, 150 + 12 * at, cells)

    assert only_table(draw).table.grid() == [["Item", "2021", "2022"], *(list(cells) for cells in SECTIONS)]


def test_coloured_grounds_part_cells_like_rules() -> None:
    def draw(page: pymupdf.Page) -> None:
        prose(page)
        for row, cells in enumerate((("Program", "Budget"), ("Maps", "0.4"), ("Data", "1.1"))):
            for column, text in enumerate(cells):
                box = pymupdf.Rect(72 + 200 * column, 120 + 22 * row, 271 + 200 * column, 141 + 22 * row)
                page.draw_rect(box, color=None, fill=(0.8, 0.85, 1.0))
                write(page, 76 + 200 * column, 135 + 22 * row, text)

    assert only_table(draw).table.grid() == [["Program", "Budget"], ["Maps", "0.4"], ["Data", "1.1"]]


def two_columns(page: pymupdf.Page) -> None:
    write_lines(page, 72, 120, [f"Left column line number {at} of the running text" for at in range(12)])
    write_lines(page, 320, 120, [f"Right column line number {at} of the running text" for at in range(12)])


def contents(page: pymupdf.Page) -> None:
    for at, name in enumerate(("Introduction", "Methods", "Results", "Discussion", "References")):
        write(page, 72, 120 + 14 * at, f"{at + 1}   {name} {'. ' * 40}")
        write(page, 420, 120 + 14 * at, str(3 + 4 * at))


def bullets(page: pymupdf.Page) -> None:
    for at in range(6):
        write(page, 72, 120 + 14 * at, "\u2022")
        write(page, 96, 120 + 14 * at, f"an item of a list that says something, number {at}")


def chart(page: pymupdf.Page) -> None:
    for at in range(6):
        write(page, 72, 120 + 20 * at, f"{600 - 100 * at}")
        write(page, 320, 120 + 20 * at, f"0.{9 - at}")
        write(page, 110 + 40 * at, 250, f"{2001 + at}")
    page.draw_bezier((100, 230), (180, 110), (220, 300), (310, 130))


def bars(page: pymupdf.Page) -> None:
    for at in range(8):
        length = 40 + (at * 37) % 200
        page.draw_rect(pymupdf.Rect(120, 120 + 16 * at, 120 + length, 130 + 16 * at), fill=(0, 0, 0.6))
        write(page, 72, 129 + 16 * at, f"Group {at}")
        write(page, 124 + length, 129 + 16 * at, f"{length / 10}")


@pytest.mark.parametrize("draw", [prose, two_columns, contents, bullets, chart, bars])
def test_what_only_looks_like_a_table_is_none(draw: Draw) -> None:
    assert tables_of(draw) == [[]]


def test_a_caption_and_notes_inside_the_frame_stay_outside_the_table() -> None:
    def draw(page: pymupdf.Page) -> None:
        for y in (100, 120, 140, 160, 180, 200):
            rule(page, y)
        for x in (72, 400):
            page.draw_line((x, 100), (x, 200))
        page.draw_line((230, 120), (230, 180))
        write(page, 76, 114, "Table 9: Kinds of assessment")
        for at, (name, text) in enumerate((("Kind", "For whom"), ("General", "all"), ("Other", "some"))):
            write(page, 76, 134 + 20 * at, name)
            write(page, 240, 134 + 20 * at, text)
        write(page, 76, 194, "Source: the ministry")

    assert only_table(draw).table.grid() == [["Kind", "For whom"], ["General", "all"], ["Other", "some"]]


def page_of_rows(start: int, header: tuple[str, ...]) -> Draw:
    def draw(page: pymupdf.Page) -> None:
        write_row(page, 100, header)
        rule(page, 104)
        for at in range(6):
            write_row(page, 118 + 12 * at, (f"Item {start + at}", f"{100 + at}", f"{200 + at}"))

    return draw


def joined(*pages: Draw) -> list[tuple[FoundTable, ...]]:
    with pymupdf.open(stream=pdf_bytes(*pages), filetype="pdf") as pdf:
        texts = [read_page(page, number) for number, page in enumerate(pdf, 1)]
        return join_continued([(text.lines, find_tables(page, text)) for page, text in zip(pdf, texts, strict=True)])


def test_a_table_that_runs_over_two_page_ends_is_one_with_one_header() -> None:
    header = ("Name", "First", "Second")
    first, second, third = joined(*(page_of_rows(start, header) for start in (0, 6, 12)))
    rows = first[0].table.grid()
    assert rows[0] == list(header)
    assert [row[0] for row in rows[1:]] == [f"Item {at}" for at in range(18)]
    assert second[0].is_continued
    assert third[0].is_continued


def test_a_table_with_other_names_for_its_columns_stands_for_itself() -> None:
    first, second = joined(page_of_rows(0, ("Name", "First", "Second")), page_of_rows(6, ("Name", "Third", "Fourth")))
    assert not second[0].is_continued
    assert first[0].table.num_rows == second[0].table.num_rows == 7


def test_text_between_two_tables_keeps_them_apart() -> None:
    def below(page: pymupdf.Page) -> None:
        page_of_rows(6, ("Name", "First", "Second"))(page)
        write(page, 72, 60, "A sentence that comes before the second table.")

    _, second = joined(page_of_rows(0, ("Name", "First", "Second")), below)
    assert not second[0].is_continued


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["eu-003", "eu-021", "eu-025", "us-005", "us-007"])
def test_tables_of_public_documents_have_the_cells_that_people_marked(name: str) -> None:
    folder = SHARED / "parse-tables-icdar2013"
    truths = {truth["id"]: truth for truth in map(json.loads, (folder / "tables.jsonl").open(encoding="utf-8"))}
    with pymupdf.open(folder / "pdfs" / f"{name}.pdf") as pdf:
        found = [table for number, page in enumerate(pdf, 1) for table in find_tables(page, read_page(page, number))]
    expected = [read_table(truth["html"].replace("<tr>", "\n<tr>")) for truth in truths[name]["tables"]]
    assert len(found) == len(expected)
    for table, truth in zip(found, expected, strict=True):
        assert truth is not None
        assert table.table.grid() == truth.table.grid()
