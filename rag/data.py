"""The nouns that pass through the rooms. A reader who knows this file can guess every signature.

All are frozen: a step takes values and returns new ones. Offsets count characters (Python `str` indices).
"""

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from rag.ids import ChunkId, DocumentId, VersionId
from rag.sent import Sent

Vector: TypeAlias = npt.NDArray[np.float32]  # (dim,), unit length
Vectors: TypeAlias = npt.NDArray[np.float32]  # (n, dim), unit rows

BlockKind = Literal[
    "title", "heading", "paragraph", "list", "table", "code", "equation", "figure", "caption", "footnote", "header",
    "footer",
]  # fmt: skip
Authority = Literal["policy", "reference", "note"]


# ---------------------------------------------------------------- who may read


@dataclass(frozen=True, slots=True)
class Access(Sent):
    """Who may read a document: members of any of `groups`, inside `tenant`. No groups: nobody."""

    tenant: str
    groups: tuple[str, ...]  # sorted, unique


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks: an authenticated subject with the groups that were resolved for it."""

    subject: str
    tenant: str
    groups: frozenset[str]
    operator: bool = False  # may read every trace and the state of the index, not more documents


# ---------------------------------------------------------------- documents


@dataclass(frozen=True, slots=True)
class DocumentMetadata(Sent):
    """What a source says about a document, beside its content."""

    uri: str
    title: str
    access: Access
    owner: str = ""
    updated_at: datetime | None = None  # effective date, timezone-aware
    authority: Authority = "reference"
    language: str = "en"  # ISO 639-1
    media_type: str = "text/plain"


@dataclass(frozen=True, slots=True)
class SourceObject:
    """One object that a source lists, not yet read: a file, or one row of an export.

    `watermark` is cheap to compare (modification time and size of a file); equal watermarks let a run skip the read.
    """

    uri: str  # relative to the source's root, posix; the row's id after '#' for a row of an export
    path: str  # the file that holds it
    watermark: str
    size_bytes: int
    metadata: DocumentMetadata
    row: str | None = None  # one JSON object, for a row of an export


@dataclass(frozen=True, slots=True)
class RawDocument:
    """The bytes of one source object with what the source says about them."""

    content: bytes
    content_hash: str
    metadata: DocumentMetadata


@dataclass(frozen=True, slots=True)
class Box(Sent):
    """A rectangle on a page, in points from the top left corner of the page as displayed."""

    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(frozen=True, slots=True)
class Region(Sent):
    """A place on a page that a citation can highlight. Pages count from 1."""

    page: int
    box: Box


@dataclass(frozen=True, slots=True)
class Block:
    """One layout unit of a document, in reading order; `text` is Markdown for tables, lists and code."""

    kind: BlockKind
    text: str
    level: int = 0  # 1-6 for headings, 0 otherwise
    region: Region | None = None


PageRoute = Literal["text", "layout", "ocr", "lost"]


@dataclass(frozen=True, slots=True)
class PageReport:
    """How one page was read, and why that way."""

    page: int  # from 1
    route: PageRoute  # its text layer as it stands, or inside the boxes of a detector; recognition; not read at all
    reason: str
    num_characters: int  # of the text that was kept
    num_hidden: int = 0  # characters that nobody sees on the page: left out
    num_repeated: int = 0  # characters of running headers and footers and of tables of contents: left out
    confidence: float = 1.0  # mean over the page's lines; below 1 only where they were recognized


@dataclass(frozen=True, slots=True)
class Document:
    """One source, parsed: typed blocks in reading order. Its text is the blocks' texts joined by a blank line."""

    id: DocumentId
    content_hash: str
    metadata: DocumentMetadata
    blocks: tuple[Block, ...]
    num_pages: int = 0  # 0 where the format has no pages
    pages: tuple[PageReport, ...] = ()  # empty where the format has none
    flags: tuple[str, ...] = ()  # sorted; for example "hidden_text"

    @property
    def text(self) -> str:
        """The text into which chunk offsets point."""
        return BLOCK_SEPARATOR.join(block.text for block in self.blocks)


BLOCK_SEPARATOR = "\n\n"


@dataclass(frozen=True, slots=True)
class Chunk(Sent):
    """The span of a document that is embedded and indexed, with all that a citation of it needs."""

    id: ChunkId
    document_id: DocumentId
    ordinal: int  # place among the document's chunks, from 0
    section: int  # place of its section among the document's sections, from 0: neighbours share it
    text: str  # document.text[start:end], exactly
    start: int
    end: int
    headings: tuple[str, ...]  # heading path, outermost first, without the title
    regions: tuple[Region, ...]  # empty where the format has no pages
    num_tokens: int  # of `embedded_text`, by the encoder's own tokenizer, special tokens included
    metadata: DocumentMetadata
    flags: tuple[str, ...] = ()  # for example "instruction_like"
    context: str = ""  # what belongs above the text and stands further up: a table's header rows, the items around one
    parent: tuple[int, int] | None = None  # span of the longer text that a prompt shows in its place; None: itself

    @property
    def embedded_text(self) -> str:
        """Title, heading path and context above the text: what the encoder and the lexical index see."""
        return embedded_text(self.metadata.title, self.headings, self.text, self.context)


def embedded_text(title: str, headings: tuple[str, ...], text: str, context: str = "") -> str:
    """The text that stands for a chunk in both indexes: names that the heading path repeats are said once, and a table
    in HTML is its cells between pipes."""
    path: list[str] = []
    for name in (title, *headings):
        if name and (not path or path[-1] != name):
            path.append(name)
    below = f"{context}\n{text}" if context else text
    if "<tr" in below:
        below = _HTML_ROW.sub(_cells_alone, below)
    return f"{' > '.join(path)}\n{below}" if path else below


# A row of a table in HTML, or the line that opens or closes one: its tags are half of its tokens, and say nothing.
_HTML_ROW = re.compile(r"^(?:<tr>(.*)</tr>|</?table>)\n?", re.MULTILINE)
_HTML_CELL = re.compile(r"<t[hd][^<>]*>(.*?)</t[hd]>")


def _cells_alone(row: re.Match[str]) -> str:
    cells = (html.unescape(cell.replace("<br>", " ")) for cell in _HTML_CELL.findall(row[1] or ""))
    return f"| {' | '.join(cells)} |\n" if row[1] else ""


# ---------------------------------------------------------------- queries and candidates


@dataclass(frozen=True, slots=True)
class Turn:
    """One earlier message of the conversation."""

    role: Literal["user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Question:
    """What a person asked, and who they are."""

    text: str
    principal: Principal
    history: tuple[Turn, ...] = ()
    greedy: bool = False  # the likeliest words, in the place of sampled ones


@dataclass(frozen=True, slots=True)
class Query:
    """A question made ready for search: stand-alone, acronyms spelled out."""

    text: str  # what both indexes search for
    original: str
    rewrites: tuple[str, ...] = ()  # names of the rules that changed the text, in order


@dataclass(frozen=True, slots=True)
class MetadataFilter:
    """What a chunk's document must be like to be searched at all; what is left out asks nothing."""

    updated_from: date | None = None  # the day, in UTC, of `updated_at` or later; without a date a document is left out
    updated_before: date | None = None
    media_types: frozenset[str] = frozenset()  # any of them
    without_flags: frozenset[str] = frozenset()  # none of them


NO_FILTER = MetadataFilter()


@dataclass(frozen=True, slots=True)
class EncodedQuery:
    """A query as a shard receives it. Two equal ones get equal candidates from the same version."""

    text: str
    vector: Vector
    principal: Principal
    version: VersionId
    filter: MetadataFilter = NO_FILTER


@dataclass(frozen=True, slots=True)
class Candidate(Sent):
    """A chunk that an index proposes; higher scores are better, and scales differ between sources."""

    chunk_id: ChunkId
    score: float
    source: Literal["dense", "bm25", "rrf", "rerank"]


@dataclass(frozen=True, slots=True)
class FirstStageScores(Sent):
    """Both first-stage scores of one chunk for one query; 0.0 BM25 where no term matches."""

    dense: float
    bm25: float
    vector: bytes = field(default=b"", repr=False)  # the chunk's own, in float16; empty: not at hand


@dataclass(frozen=True, slots=True)
class ShardCandidates:
    """What one shard proposes for one query, each leg best first, ties by chunk id."""

    shard: int
    dense: tuple[Candidate, ...]
    bm25: tuple[Candidate, ...]
    scores: Mapping[ChunkId, FirstStageScores]  # both scores of every candidate of either leg
    compute_ms: float
    strategy: str = "exact"  # how the dense leg was searched; several, joined by "+", where segments differ
    chunks: tuple[Chunk, ...] = ()  # the candidates most likely to be read next, so that nobody has to ask again


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The global rankings of one query, and which shards are missing from them."""

    dense: tuple[Candidate, ...]
    bm25: tuple[Candidate, ...]
    fused: tuple[Candidate, ...]
    scores: Mapping[ChunkId, FirstStageScores]
    missing_shards: tuple[int, ...]
    compute_ms: float  # of the slowest shard


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk chosen for the prompt under its number, with the neighbours that were stitched to it."""

    number: int  # from 1, as cited
    chunk: Chunk
    text: str  # the chunk's text, or a longer span of the same section around it
    score: float  # of the reranker, higher is better


@dataclass(frozen=True, slots=True)
class Reading:
    """A passage to be read for an answer. `above` is what one knows before: title and headings."""

    above: str
    text: str
    stretches: tuple[tuple[int, int], ...]  # (start, end) in the text: where an answer is looked for


NO_SPAN = -30.0  # the score where there was nothing to read


@dataclass(frozen=True, slots=True)
class ReadSpan:
    """The words of a stretch that answer best: `text[start:end]`."""

    start: int
    end: int
    score: float  # the logits of these words less those of no answer: above 0 where an answer is likelier than none


# ---------------------------------------------------------------- answers


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the generator receives: the messages, and the passages that their numbers mean.

    Where the last message is the assistant's, it is the beginning of the answer, and the model goes on behind it.
    """

    messages: tuple[Message, ...]
    passages: tuple[Passage, ...]
    num_passages_dropped: int = 0  # by the token budget
    partial: tuple[str, ...] = ()  # shards that gave no neighbours in time, in words
    scope: str = ""  # whose permissions its texts were read with: what an engine keeps of it is for these alone
    greedy: bool = False  # the likeliest words, in the place of sampled ones

    @property
    def lead(self) -> str:
        """The beginning of the answer; "" where the model begins it."""
        return self.messages[-1].content if self.messages and self.messages[-1].role == "assistant" else ""


@dataclass(frozen=True, slots=True)
class Citation:
    """One [n] of an answer, resolved to a place that the asker may read."""

    number: int
    chunk_id: ChunkId
    document_id: DocumentId
    uri: str
    title: str
    headings: tuple[str, ...]
    page: int | None
    regions: tuple[Region, ...]
    quote: str  # the passage's text that the answer rests on
    updated_at: datetime | None
    attributed: bool = False  # True: set by quire from the overlap of words, not written by the model
    start: int | None = None  # of the quote in the passage's text; None where it is the whole passage
    end: int | None = None


@dataclass(frozen=True, slots=True)
class AnswerSentence:
    """One sentence of an answer with what it rests on."""

    text: str  # as in the answer, with its [n]
    citations: tuple[Citation, ...]  # one a number, each with the quote for this sentence
    support: float  # in [0, 1]: how far its citations say the same; 1.0: the passage's own words


AbstainReason = Literal["", "no_passages", "low_evidence", "refused_by_model", "unsupported", "disallowed"]
Grounding = Literal["generated", "quoted", "none"]  # the model's words, sentences of the passages, or an abstention


@dataclass(frozen=True, slots=True)
class Answer:
    """What the asker gets: text whose every [n] is among `citations`, and how far it can be trusted."""

    text: str
    citations: tuple[Citation, ...]
    abstained: AbstainReason
    closest: tuple[Citation, ...]  # what was found instead, when abstaining
    partial: tuple[str, ...]  # what is missing, in words: "shard 1", "rerank"
    version: VersionId
    grounding: Grounding = "generated"
    num_citations_removed: int = 0
    num_sentences_dropped: int = 0  # of the model's, for want of support
    num_prompt_tokens: int = 0
    num_output_tokens: int = 0
    sentences: tuple[AnswerSentence, ...] = ()  # of `text`, those that cite; empty when abstaining


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One input that did not become part of the index, and why."""

    uri: str
    stage: Literal["list", "read", "parse", "clean", "chunk", "embed"]
    error: str  # class of the error
    message: str


@dataclass(frozen=True, slots=True)
class Span:
    """One stage of one answer: when it ran, what went in and out."""

    name: str
    start_ms: float  # since the question arrived
    wall_ms: float  # as the orchestration saw it: compute, queue and transport
    compute_ms: float  # inside the stage alone
    counts: Mapping[str, int] = field(default_factory=dict)
