import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.parse.delimited import detect_delimiter, has_header, read_rows
from tests.rag.parse.parsing import parse, shown


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("name;age\nA, B;3\n", "a.csv"),
        ("name\tage\nA, B\t3\n", "a.tsv"),
        ('name,age\n"A, B",3\n', "a.csv"),
        ("sep=|\nname|age\nA, B|3\n", "a.csv"),
    ],
)
def test_the_delimiter_is_told_by_the_text(text: str, uri: str) -> None:
    assert shown(parse(text, uri)) == [("table", "| name | age |\n| --- | --- |\n| A, B | 3 |")]


def test_a_first_row_with_numbers_is_no_header() -> None:
    assert has_header([["name", "due"], ["A", "2024-01-01"]])
    assert not has_header([["A", "2024-01-01"], ["B", "2024-01-02"]])
    assert not has_header([["name", ""], ["A", "1"]])


words = st.text(st.characters(whitelist_categories=["Lu", "Ll", "Nd"]), min_size=1, max_size=8)


@given(
    st.integers(2, 5).flatmap(lambda width: st.lists(st.lists(words, min_size=width, max_size=width), min_size=2)),
    st.sampled_from(",;\t|"),
)
def test_what_a_spreadsheet_writes_comes_back(rows: list[list[str]], delimiter: str) -> None:
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter).writerows(rows)
    assert detect_delimiter(written.getvalue()) == delimiter
    assert read_rows(written.getvalue(), delimiter) == rows
