"""Does grouping find copies, and does it leave alone what is alike in form and different in fact?

python -m bench.duplicates [--data ../shared/data] [--set wiki-18f]

Copies are planted beside every page of a handbook, one kind at a time: of the same words, with a few words changed, and
with one fact changed. Found is a planted page that is grouped with its original; the pages themselves are grouped too.
"""

import argparse
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from bench.report import PROJECT, RESULTS, Run, need, print_table, verdict
from rag.clean.duplicates import find_duplicates, sign
from rag.config import CleanConfig, RagConfig, SourcesConfig
from rag.data import Block, Document, SourceObject
from rag.ids import DocumentId, document_id
from rag.parts import build_parser
from rag.read.objects import read_object
from rag.read.sources import list_sources

MIN_WORDS = 80  # of the pages that are copied: a few words are a large part of a shorter one
Change = Callable[[str, random.Random], str | None]


def other_layout(text: str, rng: random.Random) -> str | None:
    return "\n".join(text.split())


def other_words(text: str, rng: random.Random) -> str | None:
    """One word in a hundred is left out; no figure, name or negation."""
    words = text.split(" ")
    plain = [at for at, word in enumerate(words) if re.fullmatch(r"[a-z]{5,}", word) and word not in _NEGATIONS]
    chosen = set(rng.sample(plain, min(len(plain), max(1, len(words) // 100))))
    return " ".join(word for at, word in enumerate(words) if at not in chosen) if chosen else None


def other_figure(text: str, rng: random.Random) -> str | None:
    """One number is another one."""
    found = list(re.finditer(r"(?<![\w.])\d+(?![\w.])", text))
    if not found:
        return None
    match = rng.choice(found)
    return f"{text[: match.start()]}{int(match[0]) + 7}{text[match.end() :]}"


def other_name(text: str, rng: random.Random) -> str | None:
    """One name inside a sentence is another one."""
    found = list(re.finditer(r"(?<=[a-z] )[A-Z][a-z]{3,}\b", text))
    if not found:
        return None
    match = rng.choice(found)
    return f"{text[: match.start()]}Oslo{text[match.end() :]}" if text.count(match[0]) == 1 else None


def swapped(text: str, rng: random.Random) -> str | None:
    """Two different numbers have changed places."""
    found = list(re.finditer(r"(?<![\w.])\d+(?![\w.])", text))
    pairs = [(a, b) for a, b in pairwise(found) if a[0] != b[0]]
    if not pairs:
        return None
    a, b = rng.choice(pairs)
    return f"{text[: a.start()]}{b[0]}{text[a.end() : b.start()]}{a[0]}{text[b.end() :]}"


def negated(text: str, rng: random.Random) -> str | None:
    """One sentence says the opposite."""
    if re.search(r"\bnot\b", text):
        return None
    found = list(re.finditer(r"\b(?:can|must|should|will|is|are) (?=[a-z])", text))
    return f"{text[: found[0].end()]}not {text[found[0].end() :]}" if found else None


_NEGATIONS = {"never", "without", "except", "unless", "cannot"}
PLANTED: Mapping[str, tuple[Change, bool]] = {  # name -> change, and whether the copy should be grouped
    "other layout": (other_layout, True),
    "1% of the words left out": (other_words, True),
    "another figure": (other_figure, False),
    "two figures swapped": (swapped, False),
    "another name": (other_name, False),
    "a negation": (negated, False),
}


def copy_of(document: Document, change: Change, rng: random.Random) -> Document | None:
    """The document with its longest paragraph changed, under another uri."""
    place = max(range(len(document.blocks)), key=lambda at: len(document.blocks[at].text))
    changed = change(document.blocks[place].text, rng)
    if changed is None or changed == document.blocks[place].text:
        return None
    blocks: list[Block] = list(document.blocks)
    blocks[place] = replace(blocks[place], text=changed)
    uri = f"copies/{document.metadata.uri}"
    metadata = replace(document.metadata, uri=uri)
    return Document(document_id(metadata.access.tenant, uri), "", metadata, tuple(blocks))


def grouped(documents: Sequence[Document], config: CleanConfig) -> tuple[dict[DocumentId, DocumentId], float]:
    """The duplicates with what stands in for each, and the seconds that signatures and grouping took."""
    started = time.perf_counter()
    signatures = {document.id: made for document in documents if (made := sign(document, config))}
    uris = {document.id: document.metadata.uri for document in documents}
    found = find_duplicates(signatures, uris, config.min_similarity)
    return {name: duplicate.kept for name, duplicate in found.items()}, time.perf_counter() - started


def read_pages(root: Path) -> list[Document]:
    sources = SourcesConfig(default_groups=("everyone",))
    config = RagConfig.model_validate({"store": root, "var": root, "models": root, "sources": sources})
    parser = build_parser(config)
    return [
        parser.parse(read_object(one, sources)) for one in list_sources(root, sources) if isinstance(one, SourceObject)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.duplicates", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=PROJECT.parent / "shared" / "data", help="folder of the sets")
    parser.add_argument("--set", default="wiki-18f", help="folder with `pages`")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON record")
    args = parser.parse_args()
    run, config = Run("duplicates"), CleanConfig()
    pages = read_pages(need(args.data / args.set / "pages", "the handbook"))
    own, seconds = grouped(pages, config)
    characters = sum(len(page.text) for page in pages)
    figures: dict[str, dict[str, float]] = {}
    for name, (change, wanted) in PLANTED.items():
        rng = random.Random(name)
        long = [page for page in pages if len(page.text.split()) >= MIN_WORDS]
        copies = {page.id: made for page in long if (made := copy_of(page, change, rng))}
        found, _ = grouped([*pages, *copies.values()], config)
        pairs = {page: made.id for page, made in copies.items()}
        hits = sum(found.get(made) == page or found.get(page) == made for page, made in pairs.items())
        figures[name] = {
            "planted": len(copies),
            "grouped": hits,
            "share": round(hits / len(copies), 4),
            "wanted": wanted,
        }
    print_table(
        "planted copies",
        ("copy", "planted", "grouped", "share", "wanted"),
        [(n, *f.values()) for n, f in figures.items()],
    )
    verdicts = {
        "copies_are_found": verdict(
            all(f["share"] >= 0.9 for f in figures.values() if f["wanted"]), "9 of 10 copies are found"
        ),
        "facts_are_kept": verdict(
            all(f["share"] == 0 for f in figures.values() if not f["wanted"]),
            "no page that differs in a fact is dropped",
        ),
    }
    record = {
        "planted": figures,
        "pages": len(pages),
        "pages_grouped_as_they_are": len(own),
        "mb_per_s": round(characters / 1e6 / seconds, 2),
        "verdicts": verdicts,
    }
    run.write(record, None, args.results)


if __name__ == "__main__":
    main()
