from rag.evaluate.parsing.normal_form import with_html_tables


def test_a_pipe_table_becomes_one_line_of_html() -> None:
    text = "Before\n| a | b & c |\n|:--|--:|\n| 1 |  |\nAfter"
    assert with_html_tables(text) == (
        "Before\n<table><tr><th>a</th><th>b &amp; c</th></tr><tr><td>1</td><td></td></tr></table>\nAfter"
    )


def test_rows_are_filled_up_and_cut_to_the_width_of_the_header() -> None:
    text = "a | b | c | d\n---|---|---|---\n1 | 2\n1 | 2 | 3 | 4 | 5"
    rows = with_html_tables(text).split("<tr>")[2:]
    assert [row.count("<td>") for row in rows] == [4, 4]
    assert "5" not in rows[1]


def test_three_cells_in_a_wider_table_repeat_the_one_in_the_middle() -> None:
    text = "| a | b | c | d |\n|---|---|---|---|\n| 1 | 2 | 3 |"
    assert "<td>1</td><td>2</td><td>2</td><td>3</td>" in with_html_tables(text)


def test_an_empty_header_gives_way_to_the_first_row() -> None:
    assert with_html_tables("| | |\n|--|--|\n| a | b |\n| 1 | 2 |") == (
        "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>"
    )


def test_html_tables_and_other_lines_stay_as_they_are() -> None:
    text = "<table><tr><td>1</td></tr></table>\n\na | b\n\nc"
    assert with_html_tables(text) == text
