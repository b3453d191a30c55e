"""One row of an export -> blocks: a forum thread, a page with a text, or else its fields."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from rag.clean.forum import is_thread, latest_change, shape_thread
from rag.data import Block
from rag.parse.content import ParsedContent
from rag.parse.markdown import inline_text, markdown_blocks

_TEXT_FIELDS = ("text", "body", "content")
_DESCRIPTION = frozenset(
    ["id", "title", "groups", "tenant", "owner", "authority", "language", "updated_at", "last_updated", "date"]
)


def parse_row(text: str) -> ParsedContent:
    """The blocks of the row, under its title. Raises ValueError where the text is no JSON object."""
    row = json.loads(text)
    if not isinstance(row, dict):
        raise ValueError(f"expected a JSON object, found {type(row).__name__}")
    fields: dict[str, object] = {str(key).lower(): value for key, value in row.items()}
    title = inline_text(row["title"]) if isinstance(row.get("title"), str) else ""
    blocks = [Block("heading", title, level=1)] if title else []
    if is_thread(row):
        blocks += _thread_blocks(row)
        if change := latest_change(row):
            fields.setdefault("updated_at", change)
    elif body := next((row[name] for name in _TEXT_FIELDS if isinstance(row.get(name), str) and row[name].strip()), ""):
        blocks += markdown_blocks(body)
    else:
        lines = [f"{key}: {_value(value)}" for key, value in row.items() if str(key).lower() not in _DESCRIPTION]
        blocks += [Block("paragraph", "\n".join(lines))] if lines else []
    return ParsedContent(tuple(blocks), title, fields)


def _thread_blocks(row: Mapping[str, object]) -> Iterator[Block]:
    for post in shape_thread(row):
        if post.heading:
            yield Block("heading", post.heading, level=2)
        for block in markdown_blocks(post.text):
            # A heading inside a post must not open a section beside the posts.
            yield replace(block, kind="paragraph", level=0) if block.kind == "heading" else block


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
