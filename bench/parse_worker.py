"""Parses files with one engine and writes what it gets, a JSON line a file. Runs in the engine's own environment.

python -m bench.parse_worker ENGINE [PASSWORD ...], or python bench/parse_worker.py ... where quire isn't installed

quire gets the passwords of encrypted files once, as it does from a configuration; the others get each with its file.

Standard input: one JSON object a line, {"path", "password"}. Standard output: after a first line {"ready": the version}
for each of them {"markdown", "seconds"} or {"error", "seconds"}. No engine may need another one's libraries here.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

Parse = Callable[[str, str], dict[str, Any]]  # path, password -> {"markdown"}


def main() -> None:
    engine = sys.argv[1]
    # Libraries print to standard output: the lines of the protocol get a descriptor of their own.
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(record: dict[str, Any]) -> None:  # Any: what JSON can say
        lines.write(json.dumps(record) + "\n")
        lines.flush()

    parse = ENGINES[engine]()
    say({"ready": version(engine)})
    for line in sys.stdin:
        job = json.loads(line)
        started = time.perf_counter()
        try:
            result = parse(job["path"], job["password"])
        except Exception as error:  # whatever an engine raises is its result
            result = {"error": f"{type(error).__name__}: {error}"[:500]}
        say({**result, "seconds": time.perf_counter() - started})


def version(engine: str) -> str:
    try:
        return metadata.version(engine.removesuffix("-ocr").removesuffix("-text"))
    except metadata.PackageNotFoundError:
        return ""


def _quire(read_figures: bool = True) -> Parse:
    from bench.parse_regression import parser_config
    from rag.data import Access, DocumentMetadata, RawDocument
    from rag.ids import digest
    from rag.parse.render import document_markdown
    from rag.parts import build_parser

    config = parser_config(sys.argv[2:])
    if not read_figures:
        config = config.model_copy(update={"parse": config.parse.model_copy(update={"max_figures": 0})})
    parser = build_parser(config)

    def parse(path: str, password: str) -> dict[str, Any]:
        content = Path(path).read_bytes()
        name = Path(path).name
        metadata = DocumentMetadata(name, name, Access("bench", ("everyone",)))
        document = parser.parse(RawDocument(content, digest(content), metadata))
        return {"markdown": document_markdown(document)}

    return parse


def _pymupdf4llm(use_ocr: bool = False) -> Parse:
    import pymupdf
    import pymupdf4llm

    def parse(path: str, password: str) -> dict[str, Any]:
        with pymupdf.open(path) as pdf:
            if password:
                pdf.authenticate(password)
            text = pymupdf4llm.to_markdown(pdf, header=False, footer=False, show_progress=False, use_ocr=use_ocr)
            return {"markdown": text}

    return parse


def _liteparse() -> Parse:
    from liteparse import LiteParse

    def parse(path: str, password: str) -> dict[str, Any]:
        # Its recognition of text fetches models from the network, and fails the whole file where it can't.
        parser = LiteParse(output_format="markdown", ocr_enabled=False, password=password or None, quiet=True)
        return {"markdown": parser.parse(path).text}

    return parse


def _markitdown() -> Parse:
    from markitdown import MarkItDown

    converter = MarkItDown()

    def parse(path: str, password: str) -> dict[str, Any]:
        return {"markdown": converter.convert(path).text_content}

    return parse


def _pdfplumber() -> Parse:
    import pdfplumber

    def parse(path: str, password: str) -> dict[str, Any]:
        with pdfplumber.open(path, password=password) as pdf:
            return {"markdown": "\n\n".join(_pdfplumber_page(page) for page in pdf.pages)}

    return parse


def _pdfplumber_page(page: Any) -> str:  # Any: the library has no types
    """The text outside the tables, and each table where it begins."""
    tables = page.find_tables()
    outside = page
    for table in tables:
        outside = outside.outside_bbox(table.bbox)
    parts = [(line["top"], line["text"]) for line in outside.extract_text_lines()]
    for table in tables:
        rows = [[" ".join((cell or "").split()).replace("|", "\\|") for cell in row] for row in table.extract()]
        if rows:
            lines = [f"| {' | '.join(row)} |" for row in rows]
            parts.append((table.bbox[1], "\n".join(["", lines[0], f"|{' --- |' * len(rows[0])}", *lines[1:], ""])))
    return "\n".join(text for _, text in sorted(parts, key=lambda part: part[0]))


def _edgeparse() -> Parse:
    import edgeparse

    def parse(path: str, password: str) -> dict[str, Any]:
        return {"markdown": edgeparse.convert(path, format="markdown", password=password or None)}

    return parse


def _kreuzberg() -> Parse:
    from kreuzberg import ExtractionConfig, PdfConfig, extract_file_sync

    def parse(path: str, password: str) -> dict[str, Any]:
        pdf = PdfConfig(passwords=[password] if password else None)
        config = ExtractionConfig(output_format="markdown", use_cache=False, pdf_options=pdf)
        return {"markdown": extract_file_sync(path, config=config).content}

    return parse


ENGINES: dict[str, Callable[[], Parse]] = {
    "quire": _quire,
    "quire-text": lambda: _quire(read_figures=False),
    "pymupdf4llm": _pymupdf4llm,
    "pymupdf4llm-ocr": lambda: _pymupdf4llm(use_ocr=True),
    "liteparse": _liteparse,
    "markitdown": _markitdown,
    "pdfplumber": _pdfplumber,
    "edgeparse": _edgeparse,
    "kreuzberg": _kreuzberg,
}

if __name__ == "__main__":
    main()
