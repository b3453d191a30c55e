"""The HTTP interface: what is accepted and what is sent. Pydantic guards this door; the rooms use `rag.data`."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from rag.data import AnswerSentence, Citation, Span, Turn
from rag.errors import RagError
from rag.generate.citations import cite
from rag.index.manifest import Manifest
from rag.pipeline import DoneEvent, RankedChunk, Retrieval, RetrievalEvent
from rag.trace import Trace


class Body(BaseModel):
    """A request body: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TurnBody(Body):
    role: Literal["user", "assistant"]
    content: str


class QueryBody(Body):
    question: str = Field(description="The question, in words.", examples=["How many days of leave do I get?"])
    history: tuple[TurnBody, ...] = Field((), max_length=50, description="Earlier turns, oldest first.")
    greedy: bool = Field(False, description="The likeliest words, in the place of sampled ones: repeatable answers.")
    stream: bool = Field(False, description="Answer as server-sent events: retrieval, token, citation, done, error.")

    def turns(self) -> tuple[Turn, ...]:
        return tuple(Turn(turn.role, turn.content) for turn in self.history)


class SearchBody(Body):
    query: str = Field(description="What to search for.", examples=["ERR_4031"])
    k: int = Field(10, ge=1, description="Most results; the server's own limit is in its configuration.")


class RegionMessage(BaseModel):
    page: int
    box: tuple[float, float, float, float] = Field(description="x0, y0, x1, y1 in points from the top left.")


class CitationMessage(BaseModel):
    number: int
    chunk_id: str
    document_id: str
    uri: str
    title: str
    headings: list[str]
    page: int | None
    regions: list[RegionMessage]
    quote: str
    updated_at: datetime | None
    attributed: bool = Field(description="True where quire, not the model, set the citation.")
    start: int | None = Field(None, description="Where the quote begins in the passage's text, in characters.")
    end: int | None = Field(None, description="Where it ends; None where the whole passage is quoted.")


class SentenceMessage(BaseModel):
    text: str = Field(description="As in the answer, with its [n].")
    citations: list[CitationMessage] = Field(description="One a number, each with the quote for this sentence.")
    support: float = Field(description="In [0, 1]: how far its citations say the same; 1: the passage's own words.")


class StageMessage(BaseModel):
    name: str
    start_ms: float
    wall_ms: float = Field(description="As the orchestration saw it: compute, queue and transport.")
    compute_ms: float = Field(description="Inside the stage alone.")
    counts: dict[str, int]


class AnswerMessage(BaseModel):
    answer: str
    citations: list[CitationMessage]
    abstained: str = Field(description="Why there is no answer; empty when there is one.")
    sentences: list[SentenceMessage] = Field(description="The sentences that cite, each with what it rests on.")
    grounding: str = Field(
        description="`generated`, its sentences checked; `quoted` from the passages; `none` when abstaining."
    )
    closest: list[CitationMessage] = Field(description="What was found instead, when abstaining.")
    partial: list[str] = Field(description="What is missing from the answer, for example `shard 1`.")
    version: str
    trace_id: str
    num_citations_removed: int = Field(description="Numbers that did not resolve.")
    num_sentences_dropped: int = Field(description="Sentences of the model that no passage supports.")
    stages: list[StageMessage]


class RetrievalMessage(BaseModel):
    """The `retrieval` event: what the answer will rest on."""

    trace_id: str
    version: str
    partial: list[str]
    passages: list[CitationMessage]


class SearchResultMessage(BaseModel):
    chunk_id: str
    document_id: str
    uri: str
    title: str
    headings: list[str]
    page: int | None
    text: str
    score: float
    dense: float
    bm25: float


class SearchMessage(BaseModel):
    results: list[SearchResultMessage]
    partial: list[str]
    version: str
    trace_id: str
    stages: list[StageMessage]


class IndexMessage(BaseModel):
    version: str
    created_at: datetime
    encoder: str
    dim: int
    num_shards: int
    documents: int
    chunks: int


class ErrorMessage(BaseModel):
    error: str = Field(description="Class of the error.")
    message: str
    trace_id: str = Field("", description="Of the question that it ended, where one was asked.")


def error_message(error: RagError) -> ErrorMessage:
    return ErrorMessage(error=type(error).__name__, message=str(error), trace_id=error.trace_id)


def citation_message(citation: Citation) -> CitationMessage:
    return CitationMessage(
        number=citation.number,
        chunk_id=citation.chunk_id,
        document_id=citation.document_id,
        uri=citation.uri,
        title=citation.title,
        headings=list(citation.headings),
        page=citation.page,
        regions=[
            RegionMessage(page=region.page, box=(region.box.x0, region.box.y0, region.box.x1, region.box.y1))
            for region in citation.regions
        ],
        quote=citation.quote,
        updated_at=citation.updated_at,
        attributed=citation.attributed,
        start=citation.start,
        end=citation.end,
    )


def sentence_message(sentence: AnswerSentence) -> SentenceMessage:
    citations = [citation_message(citation) for citation in sentence.citations]
    return SentenceMessage(text=sentence.text, citations=citations, support=sentence.support)


def stage_messages(spans: tuple[Span, ...]) -> list[StageMessage]:
    return [
        StageMessage(
            name=span.name,
            start_ms=span.start_ms,
            wall_ms=span.wall_ms,
            compute_ms=span.compute_ms,
            counts=dict(span.counts),
        )
        for span in spans
    ]


def retrieval_message(event: RetrievalEvent) -> RetrievalMessage:
    return RetrievalMessage(
        trace_id=event.trace_id,
        version=event.version,
        partial=list(event.partial),
        passages=[citation_message(cite(passage)) for passage in event.passages],
    )


def answer_message(done: DoneEvent) -> AnswerMessage:
    answer = done.answer
    return AnswerMessage(
        answer=answer.text,
        citations=[citation_message(citation) for citation in answer.citations],
        sentences=[sentence_message(sentence) for sentence in answer.sentences],
        abstained=answer.abstained,
        grounding=answer.grounding,
        closest=[citation_message(citation) for citation in answer.closest],
        partial=list(answer.partial),
        version=answer.version,
        trace_id=done.trace.id,
        num_citations_removed=answer.num_citations_removed,
        num_sentences_dropped=answer.num_sentences_dropped,
        stages=stage_messages(done.trace.spans),
    )


def search_result_message(ranked: RankedChunk) -> SearchResultMessage:
    chunk = ranked.chunk
    return SearchResultMessage(
        chunk_id=chunk.id,
        document_id=chunk.document_id,
        uri=chunk.metadata.uri,
        title=chunk.metadata.title,
        headings=list(chunk.headings),
        page=chunk.regions[0].page if chunk.regions else None,
        text=chunk.text,
        score=ranked.score,
        dense=ranked.dense,
        bm25=ranked.bm25,
    )


def search_message(retrieval: Retrieval, trace: Trace, k: int) -> SearchMessage:
    return SearchMessage(
        results=[search_result_message(ranked) for ranked in retrieval.ranked[:k]],
        partial=list(retrieval.partial),
        version=retrieval.encoded.version,
        trace_id=trace.id,
        stages=stage_messages(trace.spans),
    )


def index_message(manifest: Manifest) -> IndexMessage:
    return IndexMessage(
        version=manifest.version,
        created_at=manifest.created_at,
        encoder=manifest.encoder.model,
        dim=manifest.encoder.dim,
        num_shards=manifest.num_shards,
        documents=manifest.counts.documents,
        chunks=manifest.counts.chunks,
    )
