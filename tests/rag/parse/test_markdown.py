from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.errors import ParseError
from rag.parse.markdown import parse_markdown
from tests.rag.parse.parsing import TRUSTING, parse, shown

PAGE = """# Travel *policy* {#travel}

Book by **Friday**, see [the guide](https://example.org/guide "t") or <b>ask</b>
us.![A map](map.png)

> Quoted `words`

- one
- two with [link][ref]

  more of two
  1. nested
  2. again
3. third

| Level | Limit |
|---|--:|
| L1 | 10 |
| L2 \\| L3 | *20* |

```python
print("a")

x = 1
```

[ref]: https://example.org
"""


def test_every_kind_of_block_is_kept_with_readable_text() -> None:
    assert shown(parse(PAGE)) == [
        ("heading1", "Travel policy"),
        ("paragraph", "Book by Friday, see the guide or ask us.A map"),
        ("paragraph", "Quoted words"),
        ("list", "- one\n- two with link\n  more of two\n  1. nested\n  2. again"),
        ("list", "3. third"),
        ("table", "| Level | Limit |\n| --- | --- |\n| L1 | 10 |\n| L2 \\| L3 | 20 |"),
        ("code", '```python\nprint("a")\n\nx = 1\n```'),
    ]


def test_front_matter_describes_the_document() -> None:
    text = (
        "---\ntitle: Leave <em>rules</em>\nlast_updated: 2024-03-01\nowner: People\nauthority: policy\nlang: de-CH\n"
        "---\n\n# Other\n\nText.\n"
    )
    metadata = parse(text).metadata
    assert metadata.title == "Leave rules"
    assert metadata.updated_at == datetime(2024, 3, 1, tzinfo=UTC)
    assert (metadata.owner, metadata.authority, metadata.language) == ("People", "policy", "de")
    assert metadata.access.groups == ("g",)


def test_groups_in_front_matter_count_only_where_they_are_trusted() -> None:
    text = "---\ngroups: [hr, board]\ntenant: people\n---\nText.\n"
    assert parse(text).metadata.access.groups == ("g",)
    trusted = parse(text, sources=TRUSTING)
    assert trusted.metadata.access.groups == ("board", "hr")
    assert trusted.metadata.access.tenant == "people"
    assert trusted.id != parse(text).id


@pytest.mark.parametrize("matter", ["title: [broken", "- a list", "date: 2024-99-99"])
def test_malformed_front_matter_is_text(matter: str) -> None:
    assert "Body" in parse(f"---\n{matter}\n---\n\nBody\n").text


@pytest.mark.parametrize("matter", ["groups: [hr", "groups: 7", "groups: [hr, 3]"])
def test_where_groups_are_trusted_unreadable_ones_are_an_error(matter: str) -> None:
    with pytest.raises(ParseError):
        parse(f"---\n{matter}\n---\n\nBody\n", sources=TRUSTING)


def test_html_inside_markdown_is_read_and_comments_are_not() -> None:
    text = (
        "<!-- hidden -->\n\n<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr></table>\n\nEnd<br>line\n"
    )
    assert shown(parse(text)) == [("table", "| A | B |\n| --- | --- |\n| 1 | 2 |"), ("paragraph", "End line")]


def test_template_tags_of_a_site_generator_are_dropped() -> None:
    assert shown(parse('See [leave]({% page "/leave" %}) now.\n')) == [("paragraph", "See leave now.")]


def test_a_page_without_text_is_an_error() -> None:
    with pytest.raises(ParseError, match="no text"):
        parse("---\ntitle: x\n---\n")


@given(st.text(alphabet="ab# *-_`>|[]()<!1.\n\\&;{}~", max_size=200))
def test_any_text_parses_the_same_twice_and_leaves_no_empty_block(text: str) -> None:
    content = parse_markdown(text)
    assert content == parse_markdown(text)
    assert all(block.text for block in content.blocks)


@given(st.lists(st.from_regex(r"[a-z]{2,8}", fullmatch=True), min_size=1, max_size=30))
def test_words_survive_in_order_whatever_the_markup(words: list[str]) -> None:
    marks = ["{}", "**{}**", "[{}](https://example.org)", "- {}", "> {}", "## {}", "`{}`", "| {} |\n|---|"]
    text = "\n\n".join(marks[at % len(marks)].format(word) for at, word in enumerate(words))
    found = " ".join(block.text for block in parse_markdown(text).blocks)
    assert [word for word in found.replace("|", " ").split() if word.isalpha()] == words
