"""Questions out of indexed chunks: `python -m jobs.synthesize --config FILE --out FILE`, or `quire synthesize`.

Every row of the output names the tenant and groups of the chunk that it was made of: it is as confidential as that.
With `--corpus` the documents of a test collection take the place of the index; its queries are never read.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast, get_args

from jobs.printing import print_failure, print_json, print_pairs, print_rows, say
from rag.config import RagConfig, load_config
from rag.data import Chunk
from rag.errors import InputError, RagError
from rag.index.store import open_store
from rag.local import config_of_version, open_shards
from rag.models import resolve, untaught
from rag.parts import build_embedder, build_generator
from rag.protocols import Embedder
from rag.train.corpus import VersionChunks, read_collection_chunks
from rag.train.question_rules import QuestionDraft
from rag.train.round_trip import CorpusSearch, ShardSearch
from rag.train.synthesize import (
    ChunkSearch,
    Source,
    SynthesisOptions,
    SynthesisReport,
    SyntheticQuestion,
    draft_by_model,
    draft_by_rules,
    keep_good,
    pick_chunks,
    sample_key,
)
from rag.train.writers import BatchWriter, GeneratorWriter, Writer

MAX_QUESTION_TOKENS = 40
SHOWN_QUESTIONS = 8


@dataclass(frozen=True, slots=True)
class SearchableChunks:
    """Chunks in the order of the sample, and the search over all of them."""

    name: str
    chunks: Iterable[Chunk]
    search: ChunkSearch


def open_index(config: RagConfig, seed: int) -> SearchableChunks:
    """The live version of the index. Raises NotFound, IndexMismatch and IndexDamaged."""
    store = open_store(config)
    version = store.current()
    shards = open_shards(config, version)
    chunks = VersionChunks(store, store.manifest(version))
    return SearchableChunks(version, chunks.sampled(seed), ShardSearch(shards, version, chunks.tenant_groups(), config))


def open_collection(folder: Path, config: RagConfig, embedder: Embedder, seed: int) -> SearchableChunks:
    """The corpus of a test collection, encoded. Raises InputError."""
    chunks = sorted(read_collection_chunks(folder), key=lambda chunk: sample_key(chunk.id, seed))
    say(f"encoding {len(chunks)} documents of {folder.name}")
    vectors = embedder.embed_passages([chunk.embedded_text for chunk in chunks])
    return SearchableChunks(folder.name, chunks, CorpusSearch(chunks, vectors, config.index, config.search))


def build_writer(config: RagConfig) -> Writer:
    """The generator of the configuration, as one that writes many short texts, greedily; without an adapter of ours,
    which knows how to answer and has forgotten how to ask."""
    if config.generate.generator == "language_model":
        return BatchWriter(resolve(untaught(config.generate.model), config.models), MAX_QUESTION_TOKENS)
    return GeneratorWriter(build_generator(config))


def synthesize(
    source: SearchableChunks, embedder: Embedder, options: SynthesisOptions, writer: Writer | None, model: str = ""
) -> tuple[list[SyntheticQuestion], SynthesisReport]:
    """The questions that pass every filter, and what became of the others. `writer` is needed unless by rules alone."""
    report = SynthesisReport()
    chunks = pick_chunks(source.chunks, options, report)
    drafts: list[QuestionDraft] = []
    if options.source != "llm":
        drafts += draft_by_rules(chunks, options)
    if options.source != "rules":
        if writer is None:
            raise ValueError(f"source {options.source!r} needs a writer")
        say(f"writing questions about {len(chunks)} chunks with {model}")
        drafts += draft_by_model(
            chunks, writer, options, lambda done, total: say(f"written: {done} of {total} questions")
        )
    return keep_good(drafts, embedder, source.search, options, report, model), report


def write_rows(rows: Sequence[SyntheticQuestion], path: Path) -> None:
    """The rows as JSONL, in order, readable by their owner alone: they quote documents that not everybody may read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows)
    temporary.replace(path)


def run(
    config_file: Path, out: Path, options: SynthesisOptions, *, corpus: Path | None = None, as_json: bool = False
) -> int:
    """Make the questions, write them and print the report; the exit code: 1 when none was kept."""
    started = time.perf_counter()
    config = load_config(config_file)
    if corpus is None:
        config = config_of_version(config, open_store(config).current())
    embedder = build_embedder(config)
    source = (
        open_index(config, options.seed) if corpus is None else open_collection(corpus, config, embedder, options.seed)
    )
    writer = build_writer(config) if options.source != "rules" else None
    rows, report = synthesize(source, embedder, options, writer, untaught(config.generate.model))
    write_rows(rows, out)
    seconds = round(time.perf_counter() - started, 1)
    if as_json:
        print_json({"source": source.name, "out": str(out), "seconds": seconds, **report.to_json()})
        return 0 if rows else 1
    print_pairs(
        f"Questions about {source.name}",
        {
            "chunks seen": report.chunks_seen,
            **{f"skipped: {reason}": count for reason, count in sorted(report.chunks_skipped.items())},
            "chunks used": report.chunks_used,
            "questions kept": len(rows),
            "seconds": seconds,
            "file": out,
        },
    )
    print_rows("Filters", ("questions", "rules", "llm"), report.rows())
    print_rows("Kept by rule", ("rule", "questions"), sorted(report.kept_by_rule.items()))
    shown = [(row.rule, row.question, row.uri) for row in rows[:: max(1, len(rows) // SHOWN_QUESTIONS)]]
    print_rows("Some of them", ("rule", "question", "document"), shown[:SHOWN_QUESTIONS])
    return 0 if rows else 1


def check_source(name: str) -> Source:
    """The source of that name. Raises InputError."""
    if name not in get_args(Source):
        raise InputError(f"source {name!r}: expected one of {', '.join(get_args(Source))}")
    return cast(Source, name)


def arguments_of(
    config: Path, out: Path, options: SynthesisOptions, corpus: Path | None, *, as_json: bool
) -> list[str]:
    """The arguments that have `python -m jobs.synthesize` do the same from any folder."""
    arguments = ["--config", str(config.resolve()), "--out", str(out.resolve()), "--source", options.source]
    arguments += ["--max-chunks", str(options.max_chunks), "--questions-per-chunk", str(options.questions_per_chunk)]
    arguments += ["--k", str(options.k_round_trip), "--seed", str(options.seed)]
    arguments += [] if corpus is None else ["--corpus", str(corpus.resolve())]
    return [*arguments, *["--json"] * as_json]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `python -m jobs.synthesize`. Exit codes: 0, 1 when it failed or kept nothing, 2 for wrong arguments."""
    defaults = SynthesisOptions()
    parser = argparse.ArgumentParser(prog="python -m jobs.synthesize", description="Make questions that chunks answer.")
    parser.add_argument("--config", type=Path, required=True, help="rag.yaml")
    parser.add_argument("--out", type=Path, required=True, help="JSONL file to write")
    parser.add_argument("--corpus", type=Path, help="folder of a test collection, in place of the index")
    parser.add_argument("--source", choices=("rules", "llm", "both"), default=defaults.source, help="(%(default)s)")
    parser.add_argument("--max-chunks", type=int, default=defaults.max_chunks, help="a seeded sample (%(default)s)")
    parser.add_argument(
        "--questions-per-chunk", type=int, default=defaults.questions_per_chunk, help="of each source (%(default)s)"
    )
    parser.add_argument(
        "--k", type=int, default=defaults.k_round_trip, help="the chunk must be found among so many (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument("--json", action="store_true", dest="as_json", help="print the report as JSON")
    chosen = parser.parse_args(arguments)
    options = SynthesisOptions(
        source=chosen.source,
        max_chunks=chosen.max_chunks,
        questions_per_chunk=chosen.questions_per_chunk,
        k_round_trip=chosen.k,
        seed=chosen.seed,
    )
    try:
        return run(chosen.config, chosen.out, options, corpus=chosen.corpus, as_json=chosen.as_json)
    except RagError as error:
        return print_failure(error)


if __name__ == "__main__":
    sys.exit(main())
