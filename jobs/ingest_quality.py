"""How good an ingest is, in figures: what parsing made of this run's documents, and what the version's chunks are like.

Workers send a few counts a document; chunk figures are read from the columns of one segment after the other. So the
report needs no more memory for a million documents than for one.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag.data import Document, ErrorRow
from rag.evaluate.holdings import read_holdings
from rag.evaluate.tasks import Task
from rag.ids import VersionId
from rag.index.segment import open_chunks
from rag.index.store import IndexStore
from rag.parse.table import read_table

BIN_TOKENS = 16
_PARSE_STAGES = ("read", "parse", "clean", "chunk")
_SHOWN_SPANS = _SHOWN_PAGES = 20


@dataclass(frozen=True, slots=True)
class DocumentCounts:
    """What parsing and cleaning made of documents; the counts of several add up."""

    documents: int = 0
    pages: int = 0
    pages_without_text: int = 0
    pages_by_route: Mapping[str, int] = field(default_factory=dict)
    tables: int = 0
    tables_read: int = 0  # with rows and columns
    hidden_characters: int = 0  # left out, since nobody sees them
    narrowed: int = 0  # documents that fewer may read, for the personal data in them
    unreadable: int = 0  # documents that nobody may read
    lost: tuple[str, ...] = ()  # the first few pages that could not be read, in words

    def __add__(self, other: "DocumentCounts") -> "DocumentCounts":
        routes = Counter(self.pages_by_route) + Counter(other.pages_by_route)
        sums = {name: getattr(self, name) + getattr(other, name) for name in _SUMMED}
        lost = (self.lost + other.lost)[:_SHOWN_PAGES]
        return DocumentCounts(pages_by_route=dict(sorted(routes.items())), lost=lost, **sums)


_SUMMED = (
    "documents", "pages", "pages_without_text", "tables", "tables_read", "hidden_characters", "narrowed", "unreadable"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChunkFigures:
    """What the live chunks of a version are like."""

    chunks: int = 0
    tokens: tuple[tuple[int, int], ...] = ()  # (least tokens of a bin, chunks in it), of BIN_TOKENS each
    tokens_mean: float = 0.0
    tokens_max: int = 0
    overlap: float = 0.0  # share of the chunks' characters that an earlier chunk of the document holds as well
    flags: Mapping[str, int] = field(default_factory=dict)  # chunks by flag


@dataclass(frozen=True, slots=True)
class Answerability:
    """How many of the golden set's spans lie whole in one chunk: no search can find the others."""

    spans: int
    within_one_chunk: int
    not_indexed: int  # spans whose document the version does not hold; not among `spans`
    missing: tuple[str, ...]  # the first few that lie in no chunk, in words

    @property
    def share(self) -> float:
        return self.within_one_chunk / self.spans if self.spans else 0.0


@dataclass(frozen=True, slots=True)
class QualityReport:
    """The figures of one run: parsing of the documents that it read, duplicates and chunks of the version it made."""

    read: DocumentCounts  # documents that were parsed in this run
    failed: int  # documents that were read and could not be parsed
    documents: int  # of the version, stood in for or not
    exact_duplicates: int
    near_duplicates: int
    chunks: ChunkFigures
    answerability: Answerability | None  # None where no golden file is configured
    errors: tuple[tuple[str, str, int], ...]  # stage, class, how often

    @property
    def rates(self) -> dict[str, float | None]:
        """The shares by name; None where there was nothing to take a share of."""
        read = self.read
        return {
            "parser error rate": _share(self.failed, read.documents + self.failed),
            "pages without text": _share(read.pages_without_text, read.pages),
            "pages read by OCR": _share(read.pages_by_route.get("ocr", 0), read.pages),
            "pages lost": _share(read.pages_by_route.get("lost", 0), read.pages),
            "tables read as rows and columns": _share(read.tables_read, read.tables),
            "exact duplicates": _share(self.exact_duplicates, self.documents),
            "near duplicates": _share(self.near_duplicates, self.documents),
            "overlap of chunks": self.chunks.overlap if self.chunks.chunks else None,
            "answer spans within one chunk": self.answerability.share
            if self.answerability and self.answerability.spans
            else None,
        }


def count_document(document: Document, cleaned: Document) -> DocumentCounts:
    """The counts of one document as it was parsed, and as it was cleaned afterwards."""
    tables = [read_table(block.text) for block in document.blocks if block.kind == "table"]
    with_text = {block.region.page for block in document.blocks if block.region is not None}
    narrowed = cleaned.metadata.access != document.metadata.access
    return DocumentCounts(
        documents=1,
        pages=document.num_pages,
        pages_without_text=document.num_pages - len(with_text) if with_text else 0,
        pages_by_route=dict(sorted(Counter(page.route for page in document.pages).items())),
        tables=len(tables),
        tables_read=sum(
            table is not None and min(table.table.num_rows, table.table.num_columns) > 1 for table in tables
        ),
        hidden_characters=sum(page.num_hidden for page in document.pages),
        narrowed=int(narrowed),
        unreadable=int(not cleaned.metadata.access.groups),
        lost=tuple(
            f"{document.metadata.uri}, page {page.page}: {page.reason}"
            for page in document.pages
            if page.route == "lost"
        )[:_SHOWN_PAGES],
    )


def measure_version(
    store: IndexStore,
    version: VersionId | None,
    read: DocumentCounts,
    errors: Sequence[ErrorRow],
    similarities: Iterable[float],
    tasks: Sequence[Task],
) -> QualityReport:
    """The report of a run that left this version; None: none. `similarities` are those of the version's duplicates."""
    alike = list(similarities)
    kinds = Counter((row.stage, row.error) for row in errors)
    return QualityReport(
        read=read,
        failed=sum(row.stage in _PARSE_STAGES and row.error != "Duplicate" for row in errors),
        documents=store.manifest(version).counts.documents if version else 0,
        exact_duplicates=sum(similarity == 1.0 for similarity in alike),
        near_duplicates=sum(similarity < 1.0 for similarity in alike),
        chunks=chunk_figures(store, version) if version else ChunkFigures(),
        answerability=answerability(store, version, tasks) if version and tasks else None,
        errors=tuple((stage, error, count) for (stage, error), count in sorted(kinds.items())),
    )


def chunk_figures(store: IndexStore, version: VersionId) -> ChunkFigures:
    """The figures of the version's live chunks."""
    manifest = store.manifest(version)
    bins: Counter[int] = Counter()
    flags: Counter[str] = Counter()
    num_tokens = longest = characters = repeated = 0
    for entry in (entry for shard in manifest.shards for entry in shard.segments):
        live = np.ones(entry.info.num_chunks, np.bool_)
        live[np.asarray(store.tombstones(manifest, entry).to_array(), np.int64)] = False
        columns = ["num_tokens", "document_id", "start", "end", "flags"]
        table = open_chunks(store.segment(entry.info)).select(columns).filter(pa.array(live))
        tokens = table.column("num_tokens").to_numpy()
        bins.update((tokens // BIN_TOKENS).tolist())
        flags.update(flag for row in table.column("flags").to_pylist() for flag in row)
        num_tokens, longest = num_tokens + int(tokens.sum()), max(longest, int(tokens.max(initial=0)))
        all_characters, again = _overlap(table)
        characters, repeated = characters + all_characters, repeated + again
    chunks = sum(bins.values())
    return ChunkFigures(
        chunks=chunks,
        tokens=tuple((at * BIN_TOKENS, bins[at]) for at in range(max(bins, default=-1) + 1)),
        tokens_mean=round(num_tokens / chunks, 1) if chunks else 0.0,
        tokens_max=longest,
        overlap=round(repeated / characters, 4) if characters else 0.0,
        flags=dict(sorted(flags.items())),
    )


def answerability(store: IndexStore, version: VersionId, tasks: Sequence[Task]) -> Answerability:
    """The tasks' spans that lie whole in one chunk of the version, and those that do not."""
    held = {record.uri for record in store.registry(version) if record.chunk_ids}
    asked = [task for task in tasks if held.issuperset(task.gold.documents)]
    holdings = read_holdings(store, version, asked, ())
    spans = met = 0
    missing: list[str] = []
    for task in asked:
        found = holdings.met_by_chunks(task)
        spans += len(task.gold.grades)
        met += len(found)
        missing += [f"{task.id}: {task.gold.name(need)}" for need in range(len(task.gold.grades)) if need not in found]
    elsewhere = sum(len(task.gold.grades) for task in tasks) - spans
    return Answerability(spans, met, elsewhere, tuple(missing[:_SHOWN_SPANS]))


def _overlap(table: pa.Table) -> tuple[int, int]:
    """All characters of the chunks, and those that an earlier chunk of the same document holds as well."""
    if not len(table):
        return 0, 0
    document: npt.NDArray[np.int64] = (
        table.column("document_id").combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    )
    start, end = table.column("start").to_numpy(), table.column("end").to_numpy()
    order = np.lexsort((end, start, document))
    document, start, end = document[order], start[order], end[order]
    # Documents are laid one behind the other, so that one running maximum serves them all.
    shift = document * (int(end.max()) + 1)
    reach = np.maximum.accumulate(end + shift)[:-1]
    again = np.minimum(reach, (end + shift)[1:]) - (start + shift)[1:]
    return int((end - start).sum()), int(np.maximum(again, 0).sum())


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
