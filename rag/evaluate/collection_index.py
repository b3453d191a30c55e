"""An index without a cluster: chunks and vectors, or a whole test collection, in; a version and its open shards out."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from rag.config import RagConfig
from rag.data import Access, Chunk, DocumentMetadata, EncodedQuery, Principal, Vector, Vectors
from rag.evaluate.beir import Collection, CorpusDocument
from rag.ids import DocumentId, VersionId, chunk_id, digest, document_id, shard_of
from rag.index.commit import commit_version
from rag.index.registry import DocumentRecord
from rag.index.segment import SegmentInfo, write_segment
from rag.index.shard import LocalShard, open_shard
from rag.index.store import open_store
from rag.protocols import Embedder

TENANT = "bench"
READERS = ("everyone",)
READER = Principal(subject="bench", tenant=TENANT, groups=frozenset(READERS))


def index_collection(config: RagConfig, collection: Collection, embedder: Embedder) -> VersionId:
    """The live version that holds each document of the collection as one chunk; built where it is not live yet.

    The index is below `config.index_root`, which must be this collection's own: `collection_config` names it so.
    """
    store = open_store(config)
    live = store.current_or_none()
    if live is not None and store.manifest(live).fingerprint == config.index_fingerprint():
        return live
    chunks = [chunk_of(document) for document in collection.documents]
    vectors = embedder.embed_passages([chunk.embedded_text for chunk in chunks])
    version = commit_chunks(config, chunks, vectors)
    store.publish(version)
    return version


def collection_config(config: RagConfig, collection: Collection, folder: Path) -> RagConfig:
    """The configuration with its store in the folder, under a name that other documents or settings do not share."""
    documents = digest(*(part for d in collection.documents for part in (d.id, d.title, d.text)), size_bytes=8)
    return config.model_copy(
        update={"store": folder / collection.name, "index_name": f"{documents}-{config.index_fingerprint()[:16]}"}
    )


def commit_chunks(
    config: RagConfig,
    chunks: Sequence[Chunk],
    vectors: Vectors,
    num_segments: int = 1,
    parent: VersionId | None = None,
) -> VersionId:
    """The chunks, and nothing of the parent, as one committed version that is not live yet; each shard in about
    `num_segments` segments."""
    store = open_store(config)
    num_shards = config.index.num_shards
    segments: dict[int, list[SegmentInfo]] = {}
    for shard in range(num_shards):
        places = [place for place, chunk in enumerate(chunks) if shard_of(chunk.document_id, num_shards) == shard]
        for turn in range(num_segments):
            if mine := places[turn::num_segments]:
                info = write_segment(store.segments_dir, [chunks[place] for place in mine], vectors[mine], config.index)
                segments.setdefault(shard, []).append(info)
    records = records_of(chunks, num_shards)
    return commit_version(store, segments, (), records, config, int(vectors.shape[1]), parent, fresh=True).version


def build_shards(
    root: Path, config: RagConfig, chunks: Sequence[Chunk], vectors: Vectors, num_segments: int = 1
) -> list[LocalShard]:
    """The chunks as one version below `root`, its shards open; each shard in about `num_segments` segments."""
    config = config.model_copy(update={"store": root})
    version = commit_chunks(config, chunks, vectors, num_segments)
    num_shards = config.index.num_shards
    return [open_shard(config.index_root, version, shard, config, verify=False) for shard in range(num_shards)]


def chunk_of(document: CorpusDocument) -> Chunk:
    """A document of a test collection as one chunk, whatever its length; the encoder cuts it to its window."""
    document_of = document_id(TENANT, document.id)
    metadata = DocumentMetadata(uri=document.id, title=document.title, access=Access(TENANT, READERS))
    return Chunk(
        id=chunk_id(document_of, f"{document.title}\n{document.text}", 0),
        document_id=document_of,
        ordinal=0,
        section=0,
        text=document.text,
        start=0,
        end=len(document.text),
        headings=(),
        regions=(),
        num_tokens=0,
        metadata=metadata,
    )


def query_for(version: VersionId, text: str, vector: Vector) -> EncodedQuery:
    """A query by the one reader of all that `chunk_of` makes."""
    return EncodedQuery(text, vector, READER, version)


def records_of(chunks: Iterable[Chunk], num_shards: int) -> list[DocumentRecord]:
    """The registry of the chunks' documents, as if no source had been read."""
    by_document: dict[DocumentId, list[Chunk]] = {}
    for chunk in chunks:
        by_document.setdefault(chunk.document_id, []).append(chunk)
    return [
        DocumentRecord(
            document_id=document,
            uri=members[0].metadata.uri,
            root="",
            content_hash="",
            metadata_hash="",
            watermark="",
            shard=shard_of(document, num_shards),
            chunk_ids=tuple(chunk.id for chunk in members),
        )
        for document, members in by_document.items()
    ]
