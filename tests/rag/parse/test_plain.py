from tests.rag.parse.parsing import parse, shown


def test_paragraphs_headings_and_lists_are_told_apart() -> None:
    text = "Guide\n=====\n\nFirst line\nsecond line\n \nPart\n----\n* one\n* two\n\f12) last\n"
    assert shown(parse(text, "a.txt")) == [
        ("heading1", "Guide"),
        ("paragraph", "First line\nsecond line"),
        ("heading2", "Part"),
        ("list", "* one\n* two"),
        ("list", "12) last"),
    ]


def test_control_characters_become_spaces() -> None:
    assert parse("a\x1b[31mb\n", "a.txt").text == "a [31mb"
