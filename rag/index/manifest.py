"""The manifest: what an index version is made of. It is written last, so a version without one does not exist."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from rag.config import RagConfig
from rag.errors import IndexMismatch
from rag.ids import VersionId, digest
from rag.index.files import FileInfo, Record
from rag.index.segment import SegmentInfo
from rag.models import MODELS

REBUILD_COMMAND = "quire ingest"


class EncoderInfo(Record):
    """The encoder whose vectors the version holds; queries must come from the same one."""

    embedder: Literal["sentence", "hashing"]
    model: str
    revision: str  # digest of the weights, where the registry knows it; empty otherwise
    dim: int
    max_tokens: int
    query_prefix: str
    passage_prefix: str

    @property
    def name(self) -> str:
        """The model, or the embedder where that has none."""
        return self.model if self.embedder == "sentence" else self.embedder


class NamedFile(Record):
    """A file of a version, by name."""

    name: str
    info: FileInfo


class SegmentEntry(Record):
    """A segment as one version sees it: without the rows of its tombstones file."""

    info: SegmentInfo
    tombstones: NamedFile | None = None
    num_tombstones: int = 0

    @property
    def num_live(self) -> int:
        """Rows that are not dead."""
        return self.info.num_chunks - self.num_tombstones


class ShardEntry(Record):
    """The segments of one shard, by id."""

    shard: int
    segments: tuple[SegmentEntry, ...]

    @property
    def num_chunks(self) -> int:
        """Live chunks."""
        return sum(entry.num_live for entry in self.segments)


class Counts(Record):
    """How much a version holds."""

    documents: int
    chunks: int  # live
    tombstones: int


class Content(Record):
    """The part of a manifest that says what a search finds: two versions with equal contents answer alike."""

    fingerprint: str
    encoder: EncoderInfo
    num_shards: int
    shards: tuple[ShardEntry, ...]
    counts: Counts
    statistics: NamedFile  # in the version's folder
    registry: NamedFile  # in documents/

    def version_id(self, parent: VersionId | None) -> VersionId:
        """The id of the version with this content after that parent."""
        return VersionId(f"v-{digest(self.model_dump_json(), parent or '', size_bytes=8)}")


class Manifest(Record):
    """An index version: its content, and where it came from."""

    version: VersionId
    parent: VersionId | None
    created_at: datetime
    content: Content
    timings: Mapping[str, float] = {}  # stage -> seconds
    made_by: str = "ingest"  # the job: ingest, reembed, compact, reconcile
    recall: float | None = None  # of the dense index against brute force; None for flat, which is exact
    smoke: Mapping[str, float] | None = None  # the smoke test's figures

    @property
    def fingerprint(self) -> str:
        return self.content.fingerprint

    @property
    def encoder(self) -> EncoderInfo:
        return self.content.encoder

    @property
    def num_shards(self) -> int:
        return self.content.num_shards

    @property
    def shards(self) -> tuple[ShardEntry, ...]:
        return self.content.shards

    @property
    def segments(self) -> tuple[SegmentEntry, ...]:
        """Those of every shard."""
        return tuple(entry for shard in self.shards for entry in shard.segments)

    @property
    def counts(self) -> Counts:
        return self.content.counts


def encoder_info(config: RagConfig, dim: int) -> EncoderInfo:
    """The encoder of the configuration, whose vectors have so many dimensions."""
    embed = config.embed
    return EncoderInfo(
        embedder=embed.embedder,
        model=embed.model,
        revision=MODELS[embed.model].digest() if embed.embedder == "sentence" and embed.model in MODELS else "",
        dim=dim,
        max_tokens=embed.max_tokens,
        query_prefix=embed.query_prefix,
        passage_prefix=embed.passage_prefix,
    )


def with_encoder_of(config: RagConfig, manifest: Manifest) -> RagConfig:
    """The configuration with the encoder that made the version's vectors, which a re-embedding may have changed.

    What answers follows the version; what builds follows the configuration.
    """
    encoder = manifest.encoder
    names = ("embedder", "model", "max_tokens", "query_prefix", "passage_prefix")
    embed = config.embed.model_copy(update={name: getattr(encoder, name) for name in names})
    return config if embed == config.embed else config.model_copy(update={"embed": embed})


def check_compatible(manifest: Manifest, config: RagConfig) -> None:
    """Raises IndexMismatch when the version was built under other settings than the configuration's."""
    built, wanted = manifest.encoder, config.embed
    encoder = "name that one under `embed` in rag.yaml, or bring the index to the configured one with `quire reembed`"
    rebuild = f"build a version under these settings with `{REBUILD_COMMAND}`"
    fingerprint = "fingerprint of the parse, clean, chunk, embed and index settings"
    pairs = [
        ("encoder", built.model, wanted.model, encoder),
        ("embedder", built.embedder, wanted.embedder, encoder),
        ("window of the encoder", built.max_tokens, wanted.max_tokens, encoder),
        ("query prefix", built.query_prefix, wanted.query_prefix, encoder),
        ("passage prefix", built.passage_prefix, wanted.passage_prefix, encoder),
        ("number of shards", manifest.num_shards, config.index.num_shards, rebuild),
        (fingerprint, manifest.fingerprint, config.index_fingerprint(), rebuild),
    ]
    for name, found, expected, remedy in pairs:
        if found != expected:
            raise IndexMismatch(
                f"index version {manifest.version} was built with the {name} {found!r}, the configuration has "
                f"{expected!r}; {remedy}"
            )
