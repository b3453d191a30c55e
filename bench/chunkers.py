"""Which chunker keeps answers whole and finds them, and at what price: the five on the sample's golden set, and on the
questions that two handbooks ask in their headings?

python -m bench.chunkers [--data ../shared/data] [--sets ir-handbook-faq-18f] [--max-documents N]

Everything but the chunker is the configuration's. The golden set goes through the whole retrieval with the overlap
reranker, which costs nothing: the fused ranking is judged, and what the prompt shows.

The pages of a handbook are put together from the sections of its collection, in which the questions are taken out of
the headings; so it is known which characters of a page answer a question. A chunk stands for what a prompt would show
of it: its text, or its parent's. It finds a section that it covers by half, or lies in by half. Answerability is
the share of the judged sections, of those that fit into the token budget, that lie whole in one chunk.
"""

import argparse
import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from bench.gate import LOCAL, Lab
from bench.report import PROJECT, RESULTS, Run, need, print_table
from rag.clean.flags import TextFlags
from rag.config import ChunkConfig, RagConfig, load_config
from rag.data import BLOCK_SEPARATOR, Access, Block, Chunk, Document, DocumentMetadata
from rag.evaluate.beir import Collection, CorpusDocument, read_collection
from rag.evaluate.collection_index import READERS, TENANT, build_shards, query_for
from rag.evaluate.metrics import mean
from rag.evaluate.sampling import sample
from rag.ids import ChunkId, DocumentId, document_id
from rag.parse.markdown import markdown_blocks
from rag.parts import build_chunker, build_token_counter
from rag.protocols import Chunker, Embedder
from rag.rerank.overlap import OverlapReranker
from rag.search.merge import combine

CHUNKERS: tuple[str, ...] = get_args(ChunkConfig.model_fields["chunker"].annotation)
DEPTH = 100
K = 10
HALF = 0.5
LEGS = ("dense", "bm25", "fused")

Figures = dict[str, float]


def with_chunker(config: RagConfig, name: str) -> RagConfig:
    return config.model_copy(update={"chunk": config.chunk.model_copy(update={"chunker": name})})


def chunker_for(config: RagConfig, embedder: Embedder) -> Chunker:
    """The configured chunker; the semantic one shares the encoder that is loaded already."""
    if config.chunk.chunker == "semantic":
        from rag.chunk.semantic import SemanticChunker

        return SemanticChunker(config.chunk, build_token_counter(config), TextFlags(config.clean), embedder)
    return build_chunker(config)


def sizes(chunks: Sequence[Chunk], seconds: float) -> Figures:
    return {
        "chunks": len(chunks),
        "tokens": sum(chunk.num_tokens for chunk in chunks),
        "mean_tokens": round(mean(chunk.num_tokens for chunk in chunks), 1),
        "chunk_s": round(seconds, 2),
    }


def cut(documents: Sequence[Document], chunker: Chunker) -> tuple[list[Chunk], float]:
    started = time.perf_counter()
    chunks = [chunk for document in documents for chunk in chunker.chunk(document)]
    return chunks, time.perf_counter() - started


# ---------------------------------------------------------------- the golden set


def golden_figures(lab: Lab, name: str) -> Figures:
    """Answerability, the rankings, and what the prompt shows, with one chunker."""
    config = with_chunker(lab.config, name)
    chunks, seconds = cut(lab.documents, chunker_for(config, lab.embedder))
    run = lab.run(config=config, chunks=chunks, reranker=OverlapReranker())
    table = [kind == "table" for kind in run.slices["kind"]]
    hits = zip(run.scores["dense"]["hit@5"], table, strict=True)
    figures = {
        "answerability": mean(run.values("chunks", "recall")),
        "dense hit@5, tables": mean(hit for hit, of_table in hits if of_table and hit is not None),
        "dense ndcg@10": mean(run.values("dense", "ndcg@10")),
        "fused ndcg@10": mean(run.values("fused", "ndcg@10")),
        "prompt recall": mean(run.values("prompt", "recall")),
    }
    return {metric: round(value, 4) for metric, value in figures.items()} | sizes(chunks, seconds)


# ---------------------------------------------------------------- handbooks


@dataclass(frozen=True, slots=True)
class Shown:
    """What a prompt shows of a chunk: a span of a page."""

    uri: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Section:
    """Where the text of a section lies in its page."""

    uri: str
    start: int
    end: int

    def found_in(self, shown: Shown) -> bool:
        shared = min(self.end, shown.end) - max(self.start, shown.start)
        return shown.uri == self.uri and shared >= HALF * min(self.end - self.start, shown.end - shown.start)

    def whole_in(self, shown: Shown) -> bool:
        return shown.uri == self.uri and shown.start <= self.start and self.end <= shown.end


@dataclass(frozen=True, slots=True)
class Handbook:
    """The pages of a collection, where its sections lie in them, and its questions."""

    collection: Collection
    pages: tuple[Document, ...]
    sections: Mapping[str, Section]

    def needs(self) -> list[list[Section]]:
        """What answers each question of the collection."""
        return [
            [self.sections[name] for name, grade in query.grades.items() if grade > 0 and name in self.sections]
            for query in self.collection.queries
        ]


def read_handbook(folder: Path, max_documents: int | None) -> Handbook:
    """The handbook of the collection in the folder: the judged pages, and a seeded sample of the others if limited."""
    collection = read_collection(folder)
    parts: dict[str, list[CorpusDocument]] = {}
    for document in collection.documents:
        parts.setdefault(_page(document.id), []).append(document)
    judged = {_page(name) for query in collection.queries for name in query.grades}
    kept = {*judged, *sample(sorted(parts.keys() - judged), max_documents)}
    pages: list[Document] = []
    sections: dict[str, Section] = {}
    for uri in (uri for uri in parts if uri in kept):
        page, found = page_of(uri, parts[uri])
        if page.blocks:
            pages.append(page)
            sections |= found
    return Handbook(collection, tuple(pages), sections)


def _page(section: str) -> str:
    return section.rpartition("#")[0]


def page_of(uri: str, parts: Sequence[CorpusDocument]) -> tuple[Document, dict[str, Section]]:
    """The page that the sections make up, headings from their titles, and where each section's text lies in it."""
    blocks: list[Block] = []
    spans: dict[str, tuple[int, int]] = {}  # section -> its first block, and the one after its last
    path: list[str] = []
    for part in parts:
        names = part.title.split(" > ")
        shared = 0
        while shared < min(len(path), len(names)) and path[shared] == names[shared]:
            shared += 1
        for depth, name in enumerate(names[shared:], start=shared + 1):
            if depth > 1 and name.strip():  # the first is the page's own title
                blocks.append(Block("heading", name, level=min(depth, 6)))
        path = names
        body = [block for block in markdown_blocks(part.text) if block.text.strip()]
        if body:
            spans[part.id] = (len(blocks), len(blocks) + len(body))
            blocks += body
    metadata = DocumentMetadata(uri, parts[0].title.split(" > ")[0], Access(TENANT, READERS))
    starts = [0]
    for block in blocks:
        starts.append(starts[-1] + len(block.text) + len(BLOCK_SEPARATOR))
    sections = {
        name: Section(uri, starts[first], starts[end] - len(BLOCK_SEPARATOR)) for name, (first, end) in spans.items()
    }
    return Document(document_id(TENANT, uri), "", metadata, tuple(blocks)), sections


def handbook_figures(handbook: Handbook, config: RagConfig, embedder: Embedder) -> Figures:
    """nDCG@10 of each leg and of their fusion, answerability, and what the prompts would cost, with one chunker."""
    counter = build_token_counter(config)
    chunks, seconds = cut(handbook.pages, chunker_for(config, embedder))
    texts = {page.id: page.text for page in handbook.pages}
    shown = {chunk.id: shown_of(chunk, texts) for chunk in chunks}
    rankings = search(handbook.collection, chunks, config, embedder)
    needs = handbook.needs()
    figures = {
        f"{leg} ndcg@10": mean(
            ndcg(sections, [shown[chunk] for chunk in ranking])
            for sections, ranking in zip(needs, found, strict=True)
            if sections
        )
        for leg, found in rankings.items()
    }
    by_uri: dict[str, list[Shown]] = {}
    for one in shown.values():
        by_uri.setdefault(one.uri, []).append(one)
    judged = list(dict.fromkeys(section for sections in needs for section in sections))
    page_text = {page.metadata.uri: page.text for page in handbook.pages}
    lengths = counter.count([page_text[section.uri][section.start : section.end] for section in judged])
    fitting = [section for section, tokens in zip(judged, lengths, strict=True) if tokens <= config.chunk.max_tokens]
    whole = mean(any(section.whole_in(one) for one in by_uri.get(section.uri, ())) for section in fitting)
    prompts = [{shown[chunk].text for chunk in ranking[:K]} for ranking in rankings["fused"]]
    prompt_tokens = sum(counter.count([text for prompt in prompts for text in sorted(prompt)])) / len(prompts)
    quality = {"answerability": whole, **figures, "tokens of 10": prompt_tokens}
    return {metric: round(value, 4) for metric, value in quality.items()} | sizes(chunks, seconds)


def shown_of(chunk: Chunk, texts: Mapping[DocumentId, str]) -> Shown:
    """What the prompt shows in the chunk's place."""
    start, end = chunk.parent or (chunk.start, chunk.end)
    text = texts[chunk.document_id][start:end]
    return Shown(chunk.metadata.uri, start, end, f"{chunk.context}\n{text}" if chunk.context else text)


def search(
    collection: Collection, chunks: Sequence[Chunk], config: RagConfig, embedder: Embedder
) -> dict[str, list[list[ChunkId]]]:
    """The best chunks of each question in each leg and in their fusion."""
    vectors = embedder.embed_passages([chunk.embedded_text for chunk in chunks])
    asked = embedder.embed_queries([query.text for query in collection.queries])
    rankings: dict[str, list[list[ChunkId]]] = {leg: [] for leg in LEGS}
    with tempfile.TemporaryDirectory() as folder:
        shards = build_shards(Path(folder), config, chunks, vectors)
        version = shards[0].manifest.version
        for query, vector in zip(collection.queries, asked, strict=True):
            parts = [shard.search(query_for(version, query.text, vector), DEPTH, DEPTH) for shard in shards]
            result = combine(parts, (), config.search, limit=DEPTH)
            for leg, found in zip(LEGS, (result.dense, result.bm25, result.fused), strict=True):
                rankings[leg].append([candidate.chunk_id for candidate in found[:K]])
    return rankings


def ndcg(needs: Sequence[Section], shown: Sequence[Shown]) -> float:
    """nDCG of a ranking of chunks: each section counts at the first rank that finds it."""
    ranks = [next((rank for rank, one in enumerate(shown, start=1) if need.found_in(one)), None) for need in needs]
    gained = sum(1 / math.log2(1 + rank) for rank in ranks if rank)
    best = sum(1 / math.log2(1 + rank) for rank in range(1, min(len(needs), K) + 1))
    return min(gained / best, 1.0)  # one chunk may find two sections at once


# ---------------------------------------------------------------- the command


def show(title: str, rows: Mapping[str, Figures]) -> None:
    columns = next(iter(rows.values()))
    print_table(title, ("chunker", *columns), [(name, *figures.values()) for name, figures in rows.items()])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.chunkers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=PROJECT.parent / "shared" / "data", help="folder of the sets")
    parser.add_argument("--sets", nargs="*", default=["ir-handbook-faq-18f", "ir-handbook-faq-sourcegraph"])
    parser.add_argument(
        "--max-documents", type=int, help="pages beside the judged ones, a seeded sample; left out: all"
    )
    parser.add_argument("--only", nargs="+", default=list(CHUNKERS), choices=CHUNKERS, help="these chunkers")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON record")
    args = parser.parse_args()
    run = Run("chunkers")
    config = load_config(LOCAL)
    figures: dict[str, dict[str, Figures]] = {}
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder), config)
        figures["golden"] = {name: golden_figures(lab, name) for name in args.only}
        show("the sample's golden set", figures["golden"])
        for name in args.sets:
            handbook = read_handbook(need(args.data / name, "the collection"), args.max_documents)
            figures[name] = {
                chunker: handbook_figures(handbook, with_chunker(config, chunker), lab.embedder)
                for chunker in args.only
            }
            show(name, figures[name])
    run.write({**figures, "max_documents": args.max_documents}, config, args.results)


if __name__ == "__main__":
    main()
