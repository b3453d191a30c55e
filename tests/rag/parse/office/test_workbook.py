from datetime import date, datetime, time, timedelta
from typing import Any

import openpyxl
import pytest

from rag.parse.office.number_format import display_value
from tests.rag.parse.office.making import saved
from tests.rag.parse.parsing import parse, shown


def test_a_sheet_is_a_heading_and_tables_with_spans_and_displayed_values() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Costs"
    rows: list[list[Any]] = [  # Any: what cells hold
        ["Costs 2024"],
        [],
        ["Team", "Spend", None, "Due"],
        [None, "Plan", "Share", None],
        ["Ops", 1234.5, 0.256, date(2024, 2, 29)],
        [],
        ["Key", "Meaning"],
        ["P", "planned"],
    ]
    for row in rows:
        sheet.append(row)
    sheet.merge_cells("B3:C3")
    sheet.merge_cells("A3:A4")
    sheet["B5"].number_format, sheet["C5"].number_format = '#,##0.00 "CHF"', "0.0%"
    sheet["D5"].number_format = "dd.mm.yyyy"
    heading, title, costs, key = parse(saved(book), "a.xlsx").blocks
    assert [(heading.kind, heading.text), (title.kind, title.text)] == [
        ("heading", "Costs"),
        ("paragraph", "Costs 2024"),
    ]
    assert costs.text.split("\n")[1:-1] == [
        '<tr><th rowspan="2">Team</th><th colspan="2">Spend</th><th>Due</th></tr>',
        "<tr><th>Plan</th><th>Share</th><th></th></tr>",
        "<tr><td>Ops</td><td>1,234.50 CHF</td><td>25.6%</td><td>29.02.2024</td></tr>",
    ]
    assert key.text.startswith("| Key | Meaning |\n| --- | --- |\n| P | planned |")


def test_hidden_rows_columns_and_sheets_are_left_out_and_flagged() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for row in (["a", "b", "c"], [1, 2, 3], [4, 5, 6]):
        sheet.append(row)
    sheet.row_dimensions[2].hidden = True
    sheet.column_dimensions["B"].hidden = True
    hidden = book.create_sheet("Secret")
    hidden["A1"], hidden.sheet_state = "x", "hidden"
    parsed = parse(saved(book), "a.xlsx")
    assert shown(parsed)[1] == ("table", "| a | c |\n| --- | --- |\n| 4 | 6 |")
    assert len(parsed.blocks) == 2
    assert parsed.flags == ("hidden_text",)


@pytest.mark.parametrize(
    ("value", "number_format", "expected"),
    [
        (3.0, "General", "3"),
        (0.1 + 0.2, "General", "0.3"),
        (1234567.5, "#,##0.00", "1,234,567.50"),
        (0.256, "0%", "26%"),
        (7, "000", "007"),
        (1.5, "0.##", "1.5"),
        (2, "0.##", "2"),
        (-5, "0;(0)", "(5)"),
        (-12.5, "#,##0.00 [$€-407]", "-12.50 €"),
        (1200, '"CHF" #,##0', "CHF 1,200"),
        (2_500_000, '0.0,,"M"', "2.5M"),
        (12345, "0.00E+00", "1.23E+04"),
        (0, '0;-0;"none"', "none"),
        (True, "General", "TRUE"),
        (datetime(2024, 2, 29, 13, 5), "m/d/yy h:mm AM/PM", "2/29/24 1:05 PM"),
        (datetime(2024, 2, 29), "d. mmmm yyyy", "29. February 2024"),
        (date(2024, 2, 29), "General", "2024-02-29"),
        (time(9, 5), "hh:mm", "09:05"),
        (timedelta(hours=30, minutes=5), "[h]:mm", "30:05:00"),
    ],
)
def test_values_are_written_as_their_cells_show_them(value: object, number_format: str, expected: str) -> None:
    assert display_value(value, number_format) == expected
