"""As what should a table be embedded: as Markdown, as HTML, as bare cells, or as one labelled line a row?

python -m bench.table_text

The chunks of the sample stay as they are; only what the encoder sees of their tables changes. Judged is dense search
alone, on the golden questions about tables and on all of them.
"""

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from bench.gate import LOCAL, Lab
from bench.report import RESULTS, Run, print_table, verdict
from bench.sample.build import SAMPLE
from rag.config import load_config
from rag.data import BLOCK_SEPARATOR, Chunk, embedded_text
from rag.evaluate.golden import GoldenQuestion, read_golden, spans_found
from rag.evaluate.metrics import mean
from rag.parse.table import Table, labelled_rows, read_table, render_html, render_markdown

K = 5
WRITINGS: Mapping[str, Callable[[Table], str]] = {
    "markdown": render_markdown,
    "html": render_html,
    "cells": lambda table: "\n".join(" ".join(row) for row in table.grid()),
    "labelled": lambda table: "\n".join(labelled_rows(table)),
}
KINDS = ("table", "identifier", "lookup", "all")


def written(chunk: Chunk, write: Callable[[Table], str]) -> str:
    """What the encoder sees of the chunk when its tables are written so; a chunk without one stays as it is."""
    shown = f"{chunk.context}\n{chunk.text}" if chunk.context else chunk.text
    parts = shown.split(BLOCK_SEPARATOR)
    tables = [read_table(part) for part in parts]
    if not any(tables):
        return chunk.embedded_text
    texts = [write(found.table) if found else part for found, part in zip(tables, parts, strict=True)]
    # The path alone first: a table in HTML is written as asked, not as `embedded_text` writes it.
    path = embedded_text(chunk.metadata.title, chunk.headings, "")
    return path + BLOCK_SEPARATOR.join(texts)


def ranks(questions: Sequence[GoldenQuestion], chunks: Sequence[Chunk], scores: np.ndarray) -> list[int | None]:
    """The rank of the first chunk that holds an answer, for each question; None where no chunk does."""
    found: list[int | None] = []
    for question, row in zip(questions, scores, strict=True):
        order = np.argsort(-row, kind="stable")
        held = spans_found(question, [(chunks[at].metadata.uri, chunks[at].text) for at in order])
        found.append(next((rank for rank, places in enumerate(held, start=1) if places), None))
    return found


def figures_of(questions: Sequence[GoldenQuestion], found: Sequence[int | None]) -> dict[str, dict[str, float]]:
    """hit@5 and MRR by kind of question."""
    by_kind = {}
    for kind in KINDS:
        own = [rank for question, rank in zip(questions, found, strict=True) if kind in ("all", question.kind)]
        by_kind[kind] = {
            "questions": len(own),
            f"hit@{K}": round(mean(float(rank is not None and rank <= K) for rank in own), 4),
            "mrr": round(mean(1 / rank if rank else 0.0 for rank in own), 4),
        }
    return by_kind


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.table_text", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON record")
    args = parser.parse_args()
    run = Run("table_text")
    config = load_config(LOCAL)
    questions = [q for q in read_golden(SAMPLE / "golden.jsonl") if q.answerable and not q.history]
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder), config)
        asked = lab.embedder.embed_queries([question.text for question in questions])
        figures = {}
        for name, write in WRITINGS.items():
            vectors = lab.embedder.embed_passages([written(chunk, write) for chunk in lab.chunks])
            figures[name] = figures_of(questions, ranks(questions, lab.chunks, asked @ vectors.T))
        shown = [(name, *(value for kind in KINDS for value in by[kind].values())) for name, by in figures.items()]
        columns = [f"{kind} {metric}" for kind in KINDS for metric in ("n", f"hit@{K}", "mrr")]
        print_table("dense search by how tables are written", ("writing", *columns), shown)
    best = max(figures, key=lambda name: (figures[name]["all"]["mrr"], figures[name]["table"]["mrr"]))
    tables = {name: by["table"][f"hit@{K}"] for name, by in figures.items()}
    verdicts = {
        "markdown_is_best_over_all": verdict(best == "markdown", f"the best MRR over all questions: {best}"),
        "labelled_wins_on_tables": verdict(
            tables["labelled"] > tables["markdown"],
            f"hit@{K} of tables: labelled {tables['labelled']}, Markdown {tables['markdown']}",
        ),
    }
    run.write({"writings": figures, "verdicts": verdicts}, config, args.results)


if __name__ == "__main__":
    main()
