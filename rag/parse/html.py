"""HTML -> blocks: the page's main content, without navigation, scripts and what its reader does not see."""

import re
from dataclasses import replace

from bs4 import BeautifulSoup, Tag
from bs4.element import NavigableString, PreformattedString

from rag.clean.navigation import drop_navigation
from rag.data import Block
from rag.parse.content import ParsedContent, render_code, render_item
from rag.parse.table import Table, TableCell, compact, render, table_of_flow

_DROPPED = frozenset(
    {
        "script", "style", "noscript", "template", "nav", "header", "footer", "aside", "form", "button", "select",
        "textarea", "iframe", "object", "svg", "canvas", "audio", "video", "head"
    }
)  # fmt: skip
_INLINE = frozenset(
    {
        "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i",
        "ins", "kbd", "label", "mark", "q", "rp", "rt", "ruby", "s", "samp", "small", "span", "strike", "strong",
        "sub", "sup", "time", "tt", "u", "var", "wbr"
    }
)  # fmt: skip
_HEADING = re.compile(r"h[1-6]")
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_FIELD_OF_META = {  # names of meta elements -> our field, most telling first
    "article:modified_time": "updated_at", "og:updated_time": "updated_at", "last-modified": "updated_at",
    "updated_at": "updated_at", "last_updated": "updated_at", "dcterms.modified": "updated_at", "date": "date",
    "article:published_time": "date", "dcterms.date": "date", "owner": "owner", "authority": "authority",
}  # fmt: skip


def parse_html(text: str) -> ParsedContent:
    """The blocks of the page's <main>, else of its only <article>, else of its body, and what <head> says of it."""
    soup = BeautifulSoup(text, "lxml")
    drop_navigation(soup)
    title = soup.title.get_text() if soup.title else ""
    fields: dict[str, object] = {}
    for name, field in _FIELD_OF_META.items():
        for meta in soup.find_all("meta", attrs={key: re.compile(f"^{re.escape(name)}$", re.I) for key in ("name",)}):
            fields.setdefault(field, str(meta.get("content", "")))
        for meta in soup.find_all("meta", attrs={"property": name}):
            fields.setdefault(field, str(meta.get("content", "")))
    language = soup.html.get("lang") if soup.html else None
    if isinstance(language, str):
        fields["language"] = language
    return ParsedContent(tuple(_main_blocks(soup)), " ".join(title.split()), fields)


def fragment_blocks(text: str) -> list[Block]:
    """The blocks of a piece of HTML, as it stands inside Markdown."""
    soup = BeautifulSoup(text, "lxml")
    return _blocks(soup.body) if soup.body else []


def _main_blocks(soup: BeautifulSoup) -> list[Block]:
    main = soup.find("main") or soup.find(True, attrs={"role": "main"})
    articles = soup.find_all("article", limit=2)
    if main is None and len(articles) == 1:
        main = articles[0]
    if isinstance(main, Tag):
        # A header inside the content holds its title, not the site's banner.
        for header in main.find_all("header"):
            header.unwrap()
        if blocks := _blocks(main):
            return blocks
    return _blocks(soup.body) if soup.body else []


def _blocks(element: Tag) -> list[Block]:
    found: list[Block] = []
    line: list[str] = []

    def end_paragraph() -> None:
        if text := " ".join("".join(line).split()):
            found.append(Block("paragraph", text))
        line.clear()

    def walk(parent: Tag) -> None:
        for child in parent.children:
            if isinstance(child, NavigableString):
                if not isinstance(child, PreformattedString):  # comments, doctypes, CDATA
                    line.append(str(child))
            elif isinstance(child, Tag) and not _is_dropped(child):
                if child.name == "br":
                    line.append(" ")
                elif child.name == "img":
                    line.append(f" {child.get('alt') or ''} ")
                elif child.name in _INLINE:
                    walk(child)
                else:
                    end_paragraph()
                    block = _structured_block(child)
                    if block is None:
                        walk(child)
                        end_paragraph()
                    elif block.text:
                        found.append(block)

    walk(element)
    end_paragraph()
    return found


def _is_dropped(tag: Tag) -> bool:
    if tag.name in _DROPPED or tag.has_attr("hidden") or tag.get("aria-hidden") == "true":
        return True
    style = tag.get("style")
    return isinstance(style, str) and _HIDDEN_STYLE.search(style) is not None


def _structured_block(tag: Tag) -> Block | None:
    """The one block that the element stands for; None where it only holds others."""
    if _HEADING.fullmatch(tag.name):
        return Block("heading", _inner_text(tag), level=int(tag.name[1]))
    if tag.name in ("ul", "ol"):
        return Block("list", _list(tag))
    if tag.name == "pre":
        return Block("code", render_code(tag.get_text().strip("\n"))) if tag.get_text().strip() else Block("code", "")
    if tag.name == "table" and not _is_layout(tag):
        return Block("table", render(_table(tag)))
    return None


def _inner_text(tag: Tag) -> str:
    return " ".join(" ".join(block.text for block in _blocks(tag)).split())


def _list(tag: Tag) -> str:
    items: list[str] = []
    for child in tag.children:
        if not isinstance(child, Tag) or _is_dropped(child):
            continue
        nested = child.name in ("ul", "ol")  # invalid, and common
        texts = [_list(child)] if nested else [block.text for block in _blocks(child)]
        if any(texts):
            number = f"{len(items) + 1}." if tag.name == "ol" else "-"
            items.append(render_item(number, texts))
    return "\n".join(items)


def _is_layout(table: Tag) -> bool:
    if table.get("role") == "presentation" or table.find("table") is not None:
        return True
    return not any(len(row.find_all(["td", "th"], limit=2)) > 1 for row in table.find_all("tr"))


def _table(tag: Tag) -> Table:
    """The table's cells; its first row is taken for the header where no cell says that it is one."""
    rows: list[list[TableCell]] = []
    for row in tag.find_all("tr"):
        in_head = row.find_parent("thead") is not None
        rows.append(
            [
                TableCell(
                    0,
                    0,
                    "\n".join(" ".join(block.text.split()) for block in _blocks(cell)),
                    _span(cell, "rowspan"),
                    _span(cell, "colspan"),
                    in_head or cell.name == "th",
                )
                for cell in row.find_all(["td", "th"])
            ]
        )
    if rows and not any(cell.is_header for row in rows for cell in row):
        rows[0] = [replace(cell, is_header=True) for cell in rows[0]]
    return compact(table_of_flow(rows))


def _span(cell: Tag, name: str) -> int:
    value = cell.get(name)
    if not isinstance(value, str) or not value.isdecimal():
        return 1
    return max(1, int(value[:9]))
