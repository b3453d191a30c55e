"""Does the regression gate catch what it must, and does it let pass what changes nothing?

python -m bench.gate [--only NAME ...]
python -m bench.gate --write-baseline          makes bench/sample/baseline.json anew, and stops

The sample corpus is indexed and its golden set asked in this process, with the real encoder and reranker. Then the same
with a defect planted, one at a time, and with changes that change nothing: other cuts of the index, another order,
another run of every model. Vectors and logits are kept by their texts, so that only what a defect changes is computed
again.
"""

import argparse
import asyncio
import logging
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from pyroaring import BitMap

from bench.report import PROJECT, RESULTS, Run, out, print_table, verdict
from bench.sample.build import SAMPLE, build_sample
from bench.sample_access import read_sample_access
from jobs.ingest import ingest
from jobs.ingest_engine import LocalEngine
from rag.assemble.assemble import Assembly, assemble
from rag.config import LexicalIndexConfig, RagConfig, load_config
from rag.data import Candidate, Chunk, Document, ErrorRow, Passage, Principal, Prompt, Query, Question, Vector, Vectors
from rag.errors import ParseError
from rag.evaluate.collection_index import commit_chunks
from rag.evaluate.gate import GateVerdict, gate
from rag.evaluate.golden import read_golden, read_principals
from rag.evaluate.run import EvaluationRun, evaluate, without_machine
from rag.evaluate.tasks import Task, golden_tasks
from rag.generate.prompt import build_prompt
from rag.ids import ChunkId, VersionId, chunk_id
from rag.index.access import AccessTable
from rag.index.analysis import Analyzer
from rag.index.store import IndexStore
from rag.local import retrieval_pipeline
from rag.models import resolve
from rag.parts import build_chunker, build_embedder, build_parser, build_reranker
from rag.protocols import Embedder, Reranker
from rag.read.objects import read_object
from rag.read.sources import list_sources

BASELINE = SAMPLE / "baseline.json"
LOCAL = PROJECT / "serve_configs" / "local" / "rag.yaml"
DATASET = "sample/golden.jsonl"
CUT_CHARACTERS = 300  # of the chunker that cuts tables wherever that is
FLOAT_NOISE = 1e-5  # of another machine's arithmetic, in a vector's coordinates and in logits
STALE_SHARE = 0.8  # of the dated documents are in the version that keeps answering

Planted = Callable[["Lab"], EvaluationRun]


# ---------------------------------------------------------------- parts that remember


class RememberingEmbedder:
    """The embedder inside, asked once for each text."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._passages: dict[str, Vector] = {}
        self._queries: dict[str, Vector] = {}

    @property
    def dim(self) -> int:
        return self._inner.dim

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        return _remembered(texts, self._passages, self._inner.embed_passages)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return _remembered(texts, self._queries, self._inner.embed_queries)


def _remembered(texts: Sequence[str], known: dict[str, Vector], embed: Callable[[Sequence[str]], Vectors]) -> Vectors:
    if new := [text for text in dict.fromkeys(texts) if text not in known]:
        known |= dict(zip(new, embed(new), strict=True))
    return np.stack([known[text] for text in texts])


class RememberingReranker:
    """The reranker inside, asked once for each question with its candidates: a score may depend on all of these."""

    def __init__(self, inner: Reranker) -> None:
        self._inner = inner
        self._logits: dict[tuple[str, tuple[str, ...]], list[float]] = {}

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        asked = (query, tuple(passages))
        if asked not in self._logits:
            self._logits[asked] = self._inner.score(query, passages)
        return self._logits[asked]

    def score_many(self, queries: Sequence[tuple[str, Sequence[str]]]) -> list[list[float]]:
        return [self.score(query, passages) for query, passages in queries]


class ChangedEmbedder:
    """An embedder whose texts or vectors are changed on the way."""

    def __init__(
        self,
        inner: Embedder,
        text: Callable[[str], str] = lambda text: text,
        vectors: Callable[[Vectors], Vectors] = lambda vectors: vectors,
    ) -> None:
        self._inner, self._text, self._vectors = inner, text, vectors

    @property
    def dim(self) -> int:
        return self._inner.dim

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        return self._vectors(self._inner.embed_passages([self._text(text) for text in texts]))

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self._vectors(self._inner.embed_queries(texts))


class ChangedReranker:
    """A reranker whose logits are changed on the way."""

    def __init__(self, inner: Reranker, change: Callable[[float], float]) -> None:
        self._inner, self._change = inner, change

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        return [self._change(logit) for logit in self._inner.score(query, passages)]

    def score_many(self, queries: Sequence[tuple[str, Sequence[str]]]) -> list[list[float]]:
        return [self.score(query, passages) for query, passages in queries]


# ---------------------------------------------------------------- the laboratory


class Lab:
    """The sample, parsed once, and whatever is needed to index it and to ask its golden set under any change."""

    def __init__(self, folder: Path, config: RagConfig) -> None:
        self.folder, self.corpus = folder, folder / "corpus"
        self.config = config.model_copy(update={"store": folder / "store", "var": folder / "var"})
        build_sample(self.corpus)
        self.documents = _parse(self.corpus, self.config)
        self.chunks = self.chunked(self.documents)
        self.embedder = RememberingEmbedder(build_embedder(config))
        self.reranker = RememberingReranker(build_reranker(config))
        principals = read_principals(SAMPLE / "principals.yaml")
        self.tasks = golden_tasks(read_golden(SAMPLE / "golden.jsonl"), principals)
        self._access = read_sample_access(SAMPLE, self.corpus)
        self._num_stores = 0

    def chunked(self, documents: Iterable[Document]) -> list[Chunk]:
        """The chunks of the documents, by the configured chunker."""
        chunker = build_chunker(self.config)
        return [chunk for document in documents for chunk in chunker.chunk(document)]

    def run(
        self,
        *,
        config: RagConfig | None = None,
        chunks: Sequence[Chunk] | None = None,
        embedder: Embedder | None = None,
        reranker: Reranker | None = None,
        tasks: Sequence[Task] | None = None,
        num_segments: int = 1,
        stale_chunks: Sequence[Chunk] | None = None,
    ) -> EvaluationRun:
        """The golden set asked of an index of its own; `stale_chunks` are what an older version holds that answers."""
        config = self.own_store(config or self.config)
        embedder = embedder or self.embedder

        def committed(held: Sequence[Chunk]) -> VersionId:
            vectors = embedder.embed_passages([chunk.embedded_text for chunk in held])
            return commit_chunks(config, held, vectors, num_segments)

        live = committed(self.chunks if chunks is None else chunks)
        IndexStore(config.index_root).publish(live)
        answering = live if stale_chunks is None else committed(stale_chunks)
        return self.ask(config, answering, embedder, reranker or self.reranker, tasks)

    def ask(
        self,
        config: RagConfig,
        version: VersionId,
        embedder: Embedder,
        reranker: Reranker,
        tasks: Sequence[Task] | None = None,
    ) -> EvaluationRun:
        """The golden set asked of a version; who may read what is checked with the sample's own rules as well."""
        pipeline = retrieval_pipeline(config, embedder, reranker, version)
        return asyncio.run(evaluate(pipeline, tasks or self.tasks, config, DATASET, readable=self._readable))

    def own_store(self, config: RagConfig) -> RagConfig:
        """The configuration with a store that nothing else uses."""
        self._num_stores += 1
        return config.model_copy(update={"store": self.folder / f"store-{self._num_stores}"})

    def _readable(self, principal: Principal, chunk: Chunk) -> bool:
        return self._access.may_read(principal, chunk.metadata.uri)


def _parse(corpus: Path, config: RagConfig) -> list[Document]:
    """Every document of the corpus that can be read without character recognition."""
    parser = build_parser(config)
    documents = []
    for source in list_sources(corpus, config.sources):
        if isinstance(source, ErrorRow):
            continue
        try:
            documents.append(parser.parse(read_object(source, config.sources)))
        except ParseError as error:
            out.print(f"[dim]left out: {error}[/dim]")
    return documents


# ---------------------------------------------------------------- defects


def tables_cut(lab: Lab) -> EvaluationRun:
    """A chunker that cuts what holds a table every so many characters, in the middle of rows."""
    return lab.run(chunks=[piece for chunk in lab.chunks for piece in _cut(chunk)])


def wrong_pooling(lab: Lab) -> EvaluationRun:
    """An encoder that takes the first token's state for the text's, because its folder says so."""
    folder = lab.folder / "cls-encoder"
    shutil.copytree(resolve(lab.config.embed.model, lab.config.models), folder)
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}', encoding="utf-8")
    embed = lab.config.embed.model_copy(update={"model": str(folder)})
    config = lab.config.model_copy(update={"embed": embed})
    return lab.run(config=config, embedder=RememberingEmbedder(build_embedder(config)))


def missing_prefix(lab: Lab) -> EvaluationRun:
    """An encoder that is given the chunk's text without the title and the headings above it."""
    bare = {chunk.embedded_text: chunk.text for chunk in lab.chunks}
    return lab.run(embedder=ChangedEmbedder(lab.embedder, text=bare.__getitem__))


def digits_dropped(lab: Lab) -> EvaluationRun:
    """A lexical analysis that drops digits, of passages and questions alike."""
    terms = Analyzer.terms
    with patch.object(Analyzer, "terms", lambda self, text: terms(self, re.sub(r"\d", " ", text))):
        return lab.run()


def no_term_frequency(lab: Lab) -> EvaluationRun:
    """k1 = 0: a term counts once, however often it occurs and however long the chunk is."""
    return lab.run(config=_with_lexical(lab.config, lab.config.index.lexical.model_copy(update={"k1": 0.0})))


def raw_fusion(lab: Lab) -> EvaluationRun:
    """A fusion that adds up the raw scores of both legs."""
    with patch("rag.search.merge.reciprocal_rank_fusion", _sum_of_scores):
        return lab.run()


def sign_flipped(lab: Lab) -> EvaluationRun:
    """A reranker whose worst passage gets its best score."""
    return lab.run(reranker=ChangedReranker(lab.reranker, lambda logit: -logit))


def last_passage_not_shown(lab: Lab) -> EvaluationRun:
    """A prompt without the last of the passages that were assembled for it."""

    def shortened(query: Query, question: Question, passages: Sequence[Passage], num_dropped: int = 0) -> Prompt:
        return build_prompt(query, question, passages[:-1], num_dropped)

    with patch("rag.pipeline.build_prompt", shortened):
        return lab.run()


def last_passage_not_assembled(lab: Lab) -> EvaluationRun:
    """The same one step earlier, so that no count disagrees."""

    def shortened(*arguments: Any) -> Assembly:  # Any: whatever the pipeline hands to `assemble`
        assembly = assemble(*arguments)
        return replace(assembly, passages=assembly.passages[:-1])

    with patch("rag.pipeline.assemble", shortened):
        return lab.run()


def no_access_filter(lab: Lab) -> EvaluationRun:
    """Shards that search every row, whoever asks; the pipeline's own check is still there."""
    with _no_filter():
        return lab.run()


def no_access_check(lab: Lab) -> EvaluationRun:
    """Neither the shards' filter nor the pipeline's check."""
    with _no_filter(), patch("rag.pipeline.may_read", lambda access, principal: True):
        return lab.run()


def stale_version(lab: Lab) -> EvaluationRun:
    """A service that stays with an old version after newer documents were published."""
    dates = sorted(document.metadata.updated_at for document in lab.documents if document.metadata.updated_at)
    last = dates[int(len(dates) * STALE_SHARE)]
    old = [document for document in lab.documents if (document.metadata.updated_at or last) <= last]
    return lab.run(stale_chunks=lab.chunked(old))


DEFECTS: Mapping[str, Planted] = {
    "tables cut in rows": tables_cut,
    "cls pooling": wrong_pooling,
    "prefix missing": missing_prefix,
    "digits dropped": digits_dropped,
    "k1 = 0": no_term_frequency,
    "raw score fusion": raw_fusion,
    "reranker sign flipped": sign_flipped,
    "last passage not shown": last_passage_not_shown,
    "last passage not assembled": last_passage_not_assembled,
    "access filter off": no_access_filter,
    "access filter and check off": no_access_check,
    "stale version": stale_version,
}


def _cut(chunk: Chunk) -> Iterator[Chunk]:
    if "| ---" not in chunk.text and "|---" not in chunk.text:
        yield replace(chunk, ordinal=chunk.ordinal * 100)
        return
    for turn, start in enumerate(range(0, len(chunk.text), CUT_CHARACTERS)):
        text = chunk.text[start : start + CUT_CHARACTERS]
        piece = replace(chunk, text=text, ordinal=chunk.ordinal * 100 + turn, start=chunk.start + start)
        yield replace(
            piece,
            id=chunk_id(chunk.document_id, piece.embedded_text, turn),
            end=piece.start + len(text),
        )


def _sum_of_scores(rankings: Sequence[Sequence[Candidate]], limit: int, rank_constant: int = 60) -> list[Candidate]:
    scores: dict[ChunkId, float] = {}
    for candidate in (candidate for ranking in rankings for candidate in ranking):
        scores[candidate.chunk_id] = scores.get(candidate.chunk_id, 0.0) + candidate.score
    best_first = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [Candidate(name, score, "rrf") for name, score in best_first[:limit]]


@contextmanager
def _no_filter() -> Iterator[None]:
    def every_row(table: AccessTable, principal: Principal) -> BitMap:
        return reduce(BitMap.union, table._columns["tenants"].values(), BitMap())

    complaints = logging.getLogger("rag.pipeline")  # about every chunk that the shards should not have given
    with patch.object(AccessTable, "allowed_rows", every_row), patch.object(complaints, "disabled", True):
        yield


# ---------------------------------------------------------------- changes that change nothing


def again(lab: Lab) -> EvaluationRun:
    """The same once more, in another store."""
    return lab.run()


def questions_reversed(lab: Lab) -> EvaluationRun:
    """The questions in the opposite order."""
    return lab.run(tasks=lab.tasks[::-1])


def documents_reversed(lab: Lab) -> EvaluationRun:
    """The documents read in the opposite order."""
    return lab.run(chunks=lab.chunked(lab.documents[::-1]))


def one_shard(lab: Lab) -> EvaluationRun:
    """The whole corpus in one shard."""
    return lab.run(config=_with_shards(lab.config, 1))


def five_shards(lab: Lab) -> EvaluationRun:
    """The corpus over five shards."""
    return lab.run(config=_with_shards(lab.config, 5))


def three_segments(lab: Lab) -> EvaluationRun:
    """Each shard in three segments."""
    return lab.run(num_segments=3)


def stored_and_read(lab: Lab) -> EvaluationRun:
    """A run that was written to a file and read again."""
    return EvaluationRun.from_json(lab.run().to_json())


def ingested_anew(lab: Lab) -> EvaluationRun:
    """The index built by the ingest job from the files, every chunk embedded again, in other batches."""
    embed = lab.config.embed.model_copy(update={"batch_tokens": 1_024})
    config = lab.own_store(lab.config.model_copy(update={"embed": embed}))
    ingest(config, [lab.corpus], progress=_Quiet(), engine=LocalEngine())
    return lab.ask(config, IndexStore(config.index_root).current(), lab.embedder, lab.reranker)


def other_floats(seed: int) -> Planted:
    """The last bits of another machine in every vector and every logit."""

    def planted(lab: Lab) -> EvaluationRun:
        random = np.random.default_rng(seed)

        def noisy(vectors: Vectors) -> Vectors:
            changed = vectors + random.normal(0.0, FLOAT_NOISE, vectors.shape)
            unit: Vectors = (changed / np.linalg.norm(changed, axis=1, keepdims=True)).astype(np.float32)
            return unit

        embedder = RememberingEmbedder(ChangedEmbedder(lab.embedder, vectors=noisy))
        reranker = ChangedReranker(lab.reranker, lambda logit: logit + float(random.normal(0.0, FLOAT_NOISE)))
        return lab.run(embedder=embedder, reranker=reranker)

    return planted


NOTHING: Mapping[str, Planted] = {
    "again": again,
    "questions reversed": questions_reversed,
    "documents reversed": documents_reversed,
    "one shard": one_shard,
    "five shards": five_shards,
    "three segments": three_segments,
    "stored and read": stored_and_read,
    "ingested anew": ingested_anew,
    "other floats 1": other_floats(1),
    "other floats 2": other_floats(2),
}


class _Quiet:
    def stage(self, name: str, total: int = 0) -> None: ...

    def advance(self, documents: int, chunks: int) -> None: ...


def _with_shards(config: RagConfig, num_shards: int) -> RagConfig:
    return config.model_copy(update={"index": config.index.model_copy(update={"num_shards": num_shards})})


def _with_lexical(config: RagConfig, lexical: LexicalIndexConfig) -> RagConfig:
    return config.model_copy(update={"index": config.index.model_copy(update={"lexical": lexical})})


# ---------------------------------------------------------------- the command


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the gate said to one variant."""

    name: str
    planted: bool
    verdict: GateVerdict
    seconds: float

    @property
    def right(self) -> bool:
        return self.verdict.ok != self.planted

    def row(self) -> tuple[object, ...]:
        falls = self.verdict.falls
        surest = f"{falls[0].scope}, {falls[0].stage} {falls[0].metric}" if falls else ""
        figures = (falls[0].before, falls[0].after, falls[0].p) if falls else (None, None, None)
        broken = ", ".join(f"{one.name} {one.after}" for one in self.verdict.broken)
        said = "passes" if self.verdict.ok else "caught"
        return (self.name, said, len(falls), surest, *figures, broken, self.verdict.num_changed, round(self.seconds, 1))

    def figures(self) -> dict[str, Any]:  # Any: JSON
        """The outcome with the ten surest falls."""
        return {
            "name": self.name,
            "planted": self.planted,
            "ok": self.verdict.ok,
            "changed_questions": self.verdict.num_changed,
            "falls": len(self.verdict.falls),
            "surest": [
                {
                    "scope": fall.scope,
                    "stage": fall.stage,
                    "metric": fall.metric,
                    "before": round(fall.before, 4),
                    "after": round(fall.after, 4),
                    "p": round(fall.p, 6),
                    "worse": len(fall.worse),
                    "better": len(fall.better),
                }
                for fall in self.verdict.falls[:10]
            ],
            "broken": {one.name: one.after for one in self.verdict.broken},
            "seconds": round(self.seconds, 1),
        }


def try_variants(lab: Lab, variants: Mapping[str, Planted], before: EvaluationRun, *, planted: bool) -> list[Outcome]:
    """What the gate says to each variant."""
    outcomes = []
    for name, variant in variants.items():
        started = time.perf_counter()
        outcomes.append(Outcome(name, planted, gate(before, variant(lab)), time.perf_counter() - started))
        out.print(f"[dim]{name}: {'passes' if outcomes[-1].verdict.ok else 'caught'}[/dim]")
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gate", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", type=Path, default=LOCAL)
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="only variants whose names contain one of these words"
    )
    parser.add_argument(
        "--write-baseline", action="store_true", help=f"write {BASELINE.name} beside the sample, and stop"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON record")
    args = parser.parse_args()
    run, config = Run("gate"), load_config(args.config)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        lab = Lab(Path(folder), config)
        before = lab.run()
        base_s = time.perf_counter() - started
        out.print(f"{len(lab.chunks)} chunks, {len(lab.tasks)} questions, {base_s:.0f} s")
        if args.write_baseline:
            BASELINE.write_text(without_machine(before).to_json(), encoding="utf-8")
            out.print(f"written: {BASELINE.relative_to(PROJECT)}")
            return
        wanted = {name: planted for name, planted in {**DEFECTS, **NOTHING}.items() if _wanted(name, args.only)}
        outcomes = [
            *try_variants(lab, {n: v for n, v in wanted.items() if n in DEFECTS}, before, planted=True),
            *try_variants(lab, {n: v for n, v in wanted.items() if n in NOTHING}, before, planted=False),
        ]
    columns = ("variant", "gate", "falls", "surest fall", "before", "after", "p", "broken invariants", "changed", "s")
    print_table("the gate", columns, [outcome.row() for outcome in outcomes])
    defects, nothing = [o for o in outcomes if o.planted], [o for o in outcomes if not o.planted]
    checks = [
        verdict(all(o.right for o in defects), f"{sum(o.right for o in defects)} of {len(defects)} defects are caught"),
        verdict(all(o.right for o in nothing), f"{sum(o.right for o in nothing)} of {len(nothing)} no-ops pass"),
    ]
    if args.only is None:
        figures = {
            "questions": len(lab.tasks),
            "chunks": len(lab.chunks),
            "comparisons": len(outcomes[0].verdict.comparisons),
            "caught": sum(o.right for o in defects),
            "defects": len(defects),
            "passed": sum(o.right for o in nothing),
            "no_ops": len(nothing),
            "baseline_s": round(base_s, 1),
            "variants": [outcome.figures() for outcome in outcomes],
        }
        run.write(figures, config, args.results)
    raise SystemExit(0 if all(checks) else 1)


def _wanted(name: str, only: Sequence[str] | None) -> bool:
    return only is None or any(word in name for word in only)


if __name__ == "__main__":
    main()
