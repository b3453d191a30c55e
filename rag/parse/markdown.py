"""Markdown -> blocks, by CommonMark with tables; inline markup becomes the text that a reader sees."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from rag.data import Block
from rag.parse.content import ParsedContent, render_code, render_item
from rag.parse.html import fragment_blocks
from rag.parse.table import render, table_of_rows

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_MARKED = re.compile(r"[\\`*\[]|(?<!\w)_|_(?!\w)|&#?\w|<[A-Za-z/!?]")  # text without these is what it looks like
_TEMPLATE_TAG = re.compile(r"\{%.*?%\}", re.DOTALL)  # Liquid, as static site generators leave it in pages
_ATTRIBUTES = re.compile(r"\s*\{[:#][^{}]*\}\s*$")  # {#anchor} and {: .class} at a line's end
_TAG_OR_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)|<[^>]*>", re.DOTALL)
_YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # as safe as safe_load, and ten times its speed


def parse_markdown(text: str) -> ParsedContent:
    """The blocks of the text and the fields of its front matter; front matter that is no mapping stays text."""
    fields: dict[str, object] = {}
    problem = ""
    if match := _FRONT_MATTER.match(text):
        try:
            loaded = yaml.load(match[1], Loader=_YAML_LOADER) if match[1].strip() else {}
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            loaded, problem = None, f"front matter is not YAML: {str(error).splitlines()[0]}"
        if isinstance(loaded, dict):
            fields = {str(key).lower(): value for key, value in loaded.items()}
            text = text[match.end() :]
        else:
            problem = problem or f"front matter is not a mapping but {type(loaded).__name__}"
    title = fields.get("title")
    return ParsedContent(
        tuple(markdown_blocks(text)), inline_text(title) if isinstance(title, str) else "", fields, problem
    )


def markdown_blocks(text: str) -> list[Block]:
    """The blocks of Markdown without front matter."""
    env: dict[str, object] = {}  # reference definitions, collected by the block pass and used by the inline one
    return _Renderer(env).blocks(_block_parser().parse(text, env))


def inline_text(text: str) -> str:
    """One line of Markdown as its reader sees it."""
    return _Renderer({}).inline(text)


@cache
def _block_parser() -> MarkdownIt:
    # Inline markup is parsed only where there is some: two thirds of all lines have none.
    return MarkdownIt("commonmark").enable("table").disable("inline")


@cache
def _inline_parser() -> MarkdownIt:
    return _TextOnly("commonmark")


class _TextOnly(MarkdownIt):
    """Markdown whose links are not looked at: only their text is kept, and checking addresses takes a fifth of it."""

    def normalizeLink(self, url: str) -> str:  # noqa: N802
        return url

    def validateLink(self, url: str) -> bool:  # noqa: N802
        return True


class _Renderer:
    """Turns one document's tokens into blocks."""

    def __init__(self, env: dict[str, object]) -> None:
        self._env = env

    def blocks(self, tokens: Sequence[Token]) -> list[Block]:
        found: list[Block] = []
        at = 0
        while at < len(tokens):
            end = _end_of(tokens, at)
            found += self._block(tokens, at, end)
            at = end + 1
        return [block for block in found if block.text]

    def _block(self, tokens: Sequence[Token], at: int, end: int) -> list[Block]:
        token = tokens[at]
        match token.type:
            case "heading_open":
                text = self.inline(_ATTRIBUTES.sub("", tokens[at + 1].content))
                return [Block("heading", text, level=int(token.tag[1]))]
            case "paragraph_open":
                return [Block("paragraph", self.inline(tokens[at + 1].content))]
            case "bullet_list_open" | "ordered_list_open":
                return [Block("list", self._list(tokens[at + 1 : end]))]
            case "table_open":
                return [Block("table", self._table(tokens[at + 1 : end]))]
            case "fence" | "code_block":
                return [Block("code", render_code(token.content, token.info.strip()))] if token.content.strip() else []
            case "blockquote_open":
                quoted = self.blocks(tokens[at + 1 : end])
                return [replace(block, kind="paragraph", level=0) if block.level else block for block in quoted]
            case "html_block":
                return fragment_blocks(token.content) if _TAG_OR_COMMENT.sub("", token.content).strip() else []
            case _:
                return []  # a thematic break

    def _list(self, tokens: Sequence[Token]) -> str:
        items: list[str] = []
        at = 0
        while at < len(tokens):
            end = _end_of(tokens, at)
            marker = f"{tokens[at].info}." if tokens[at].info else "-"
            texts = [block.text for block in self.blocks(tokens[at + 1 : end])]
            if texts:
                items.append(render_item(marker, texts))
            at = end + 1
        return "\n".join(items)

    def _table(self, tokens: Sequence[Token]) -> str:
        rows: list[list[str]] = []
        for token in tokens:
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "inline":
                rows[-1].append(self.inline(token.content))
        return render(table_of_rows(rows)) if any(any(row) for row in rows) else ""

    def inline(self, source: str) -> str:
        if "{" in source:
            source = _ATTRIBUTES.sub("", _TEMPLATE_TAG.sub("", source))
        if not _MARKED.search(source):
            return " ".join(source.split())
        pieces: list[str] = []
        for token in _inline_parser().parseInline(source, self._env)[0].children or ():
            match token.type:
                case "text" | "code_inline" | "image":
                    pieces.append(token.content)
                case "softbreak" | "hardbreak":
                    pieces.append(" ")
                case "html_inline" if token.content.lower().startswith("<br"):
                    pieces.append(" ")
        return " ".join("".join(pieces).split())


def _end_of(tokens: Sequence[Token], at: int) -> int:
    """The place of the token that closes the one at `at`; itself where it opens nothing."""
    if tokens[at].nesting != 1:
        return at
    level = tokens[at].level
    return next(end for end in range(at + 1, len(tokens)) if tokens[end].level == level)
