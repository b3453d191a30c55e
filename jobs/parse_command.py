"""`quire parse`: what the parser makes of a file, as Markdown, as JSON, or drawn on its pages."""

import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jobs.printing import print_error, print_json, say
from rag.config import RagConfig
from rag.data import Document, ErrorRow, RawDocument
from rag.errors import InputError, ParseError
from rag.parse.media_type import PDF
from rag.parse.render import document_markdown
from rag.parts import build_parser
from rag.read.objects import read_object
from rag.read.sources import list_sources


def parse_file(config: RagConfig, path: Path, show: Path | None, *, as_json: bool) -> int:
    """Prints every document of the file (an export holds several); the exit code: 1 where one could not be parsed.

    `show` is the folder for a picture of each page, with its blocks. Raises InputError for a file that is not there,
    and where the pages of what is no PDF are to be shown.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file")
    parser = build_parser(config)
    documents: list[dict[str, Any]] = []  # Any: JSON
    num_failed = 0
    for source in list_sources(path, config.sources):
        if isinstance(source, ErrorRow):
            print_error(f"{source.uri}: {source.message}")
            num_failed += 1
            continue
        try:
            raw = read_object(source, config.sources)
            document = parser.parse(raw)
        except ParseError as error:
            print_error(str(error))
            num_failed += 1
            continue
        if as_json:
            documents.append(document_json(document))
        else:
            sys.stdout.write(document_markdown(document) + "\n")
        say(_summary(document))
        if show is not None:
            say(f"{_show(config, raw, document, show)} pages drawn in {show}")
    if as_json:
        print_json(documents)
    return 1 if num_failed else 0


def document_json(document: Document) -> dict[str, Any]:  # Any: JSON
    """The document in names and values."""
    metadata = document.metadata
    return {
        "id": document.id,
        "uri": metadata.uri,
        "title": metadata.title,
        "media_type": metadata.media_type,
        "updated_at": metadata.updated_at.isoformat() if metadata.updated_at else None,
        "num_pages": document.num_pages,
        "flags": list(document.flags),
        "pages": [asdict(page) for page in document.pages],
        "blocks": [asdict(block) for block in document.blocks],
    }


def _summary(document: Document) -> str:
    kinds = Counter(block.kind for block in document.blocks)
    routes = Counter(page.route for page in document.pages)
    parts = [f"{count} {kind}" for kind, count in sorted(kinds.items())]
    if routes:
        parts.append("pages: " + ", ".join(f"{count} {route}" for route, count in sorted(routes.items())))
    parts += [f"page {page.page} is lost: {page.reason}" for page in document.pages if page.route == "lost"]
    if document.flags:
        parts.append("flags: " + ", ".join(document.flags))
    return f"{document.metadata.uri}: " + "; ".join(parts)


def _show(config: RagConfig, raw: RawDocument, document: Document, folder: Path) -> int:
    from rag.parse.pdf.opening import open_pdf
    from rag.parse.show import draw_blocks

    uri = document.metadata.uri
    if document.metadata.media_type != PDF:
        raise InputError(f"{uri}: only the pages of a PDF can be shown, this is {document.metadata.media_type}")
    folder.mkdir(parents=True, exist_ok=True)
    num_pages = 0
    with open_pdf(uri, raw.content, config.parse.passwords) as pdf:
        for number, picture in draw_blocks(document, pdf):
            (folder / f"{Path(uri).stem}-{number:04d}.png").write_bytes(picture)
            num_pages += 1
    return num_pages
