"""One shard of one version, open for search: dense and BM25 candidates among the rows that the asker may read."""

import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from rag.config import RagConfig
from rag.data import Candidate, Chunk, EncodedQuery, FirstStageScores, Principal, ShardCandidates
from rag.errors import IndexMismatch, ModelError, NotFound
from rag.ids import ChunkId, DocumentId, VersionId
from rag.index.access import RowMask, SegmentAccess, ShardAccess
from rag.index.analysis import Analyzer
from rag.index.manifest import Manifest, check_compatible
from rag.index.remote import open_remote
from rag.index.revocations import RevocationFeed, RevocationList, Revocations
from rag.index.row_flags import row_flags
from rag.index.segment import Segment, find_row, open_segment
from rag.index.store import IndexStore
from rag.search.fuse import reciprocal_rank_fusion
from rag.search.merge import merge_top_k
from rag.tables import CHUNK_SCHEMA, table_to_chunks

_MIB = 1 << 20


class LocalShard:
    """A shard in this process. Safe to search from several threads at once."""

    def __init__(
        self,
        shard: int,
        manifest: Manifest,
        segments: Sequence["_LiveSegment"],
        analyzer: Analyzer,
        mask_cache_mb: int = 128,
    ) -> None:
        self.shard, self.manifest = shard, manifest
        self._segments, self._analyzer = tuple(segments), analyzer
        self._access = ShardAccess([segment.access for segment in segments], mask_cache_mb * _MIB)
        self._sections = _Sections(self._segments)
        self._feed: RevocationFeed | None = None
        self._followed: RevocationList | None = None  # the last list that was put into force
        self._following = threading.Lock()

    def __repr__(self) -> str:
        return f"LocalShard({self.shard}, {self.manifest.version}, {len(self._segments)} segments, {self.num_chunks})"

    @property
    def num_chunks(self) -> int:
        """Live chunks of the shard."""
        return self.manifest.shards[self.shard].num_chunks

    def search(self, query: EncodedQuery, k_dense: int, k_bm25: int, k_read: int = 0) -> ShardCandidates:
        """The best candidates of both legs among the live chunks that the query's principal may read and its filter
        lets through.

        Scores are exact, and with a flat dense index so are the candidates: they, and the order of ties by chunk id, do
        not depend on how the corpus is cut. A chunk without a term of the query is no BM25 candidate. The `k_read`
        candidates that are best by both legs come with their chunks. Raises IndexMismatch for a query of another
        version or dimension.
        """
        started = time.perf_counter()
        self._check_query(query)
        access = self._current_access()
        terms = self._analyzer.terms(query.text)
        masks = access.masks(query.principal, query.filter)
        parts = [
            segment.search(query, terms, k_dense, k_bm25, allowed)
            for segment, allowed in zip(self._segments, masks, strict=True)
        ]
        dense = merge_top_k([part.dense for part in parts], k_dense)
        bm25 = merge_top_k([part.bm25 for part in parts], k_bm25)
        proposed = {candidate.chunk_id for candidate in (*dense, *bm25)}
        scores = {name: both for part in parts for name, both in part.scores.items() if name in proposed}
        first = [candidate.chunk_id for candidate in reciprocal_rank_fusion([dense, bm25], k_read)]
        chunks = tuple(self.fetch(query, first)) if first else ()
        compute_ms = (time.perf_counter() - started) * 1e3
        strategy = "+".join(sorted({part.strategy for part in parts} - {"nothing"})) or "nothing"
        return ShardCandidates(self.shard, dense, bm25, scores, compute_ms, strategy, chunks)

    def fetch(self, query: EncodedQuery, chunk_ids: Sequence[ChunkId], neighbours: int = 0) -> list[Chunk]:
        """The readable ones of the chunks, with up to `neighbours` on either side in the same section, each once, by
        document and ordinal. A chunk that the principal may not read is left out like one that does not exist."""
        self._check_query(query)
        masks = self._current_access().masks(query.principal)
        wanted: set[tuple[int, int]] = set()
        for place, segment in enumerate(self._segments):
            rows = [row for chunk_id in set(chunk_ids) if (row := find_row(segment.chunks, chunk_id)) is not None]
            wanted.update((place, row) for row in _readable(masks[place], rows))
        if neighbours:
            wanted.update(around for found in tuple(wanted) for around in self._sections.around(*found, neighbours))
        chunks: list[Chunk] = []
        for place, segment in enumerate(self._segments):
            rows = _readable(masks[place], [row for owner, row in wanted if owner == place])
            chunks += table_to_chunks(segment.chunks.take(pa.array(rows, pa.int64())))
        return sorted(chunks, key=lambda chunk: (chunk.document_id, chunk.ordinal, chunk.id))

    def revoke(self, revocations: Revocations) -> None:
        """Takes what is revoked, and only that, out of every search and fetch that begins after this call."""
        if revocations != self._access.revocations:
            self._access = self._access.revoke(revocations)

    def follow(self, feed: RevocationFeed) -> None:
        """From now on, every search and fetch takes out what the feed says is revoked in this version."""
        self._feed, self._followed = feed, None
        self._current_access()

    def _current_access(self) -> ShardAccess:
        """Who may read what, under the revocations that the feed knows."""
        if self._feed is None:
            return self._access
        self._feed.current()
        with self._following:
            # Asked once more in here: a thread that was held up may come with a list that is no longer the last one.
            listed = self._feed.known
            if listed is not self._followed:
                self.revoke(listed.for_version(self.manifest.created_at))
                self._followed = listed
            return self._access

    def probe(self) -> None:
        """Searches every segment for a chunk of its own. Raises IndexMismatch for a segment that does not find it."""
        for segment in self._segments:
            segment.probe()

    def _check_query(self, query: EncodedQuery) -> None:
        if query.version != self.manifest.version:
            raise IndexMismatch(
                f"shard {self.shard} holds index version {self.manifest.version}, the query is for {query.version}"
            )
        if query.vector.shape != (self.manifest.encoder.dim,):
            raise IndexMismatch(
                f"query vector of shape {query.vector.shape}, index version {self.manifest.version} expects "
                f"({self.manifest.encoder.dim},)"
            )
        if not np.isfinite(query.vector).all():
            raise ModelError(f"the encoder {self.manifest.encoder.model} gave a query vector that is not finite")


def open_shard(index_root: Path, version: VersionId, shard: int, config: RagConfig, verify: bool = True) -> LocalShard:
    """A shard of a committed version, ready to search; `verify` compares the checksum of every file.

    Raises NotFound for a version or shard that does not exist, IndexMismatch when it was built under other settings,
    IndexDamaged for a file that is missing or damaged.
    """
    store = IndexStore(index_root, open_remote(config.remote, config.index_name))
    manifest = store.manifest(version)
    check_compatible(manifest, config)
    if not 0 <= shard < manifest.num_shards:
        raise NotFound(f"index version {version} has no shard {shard}; it has {manifest.num_shards}")
    statistics = store.statistics(manifest)
    segments: list[_LiveSegment] = []
    for entry in manifest.shards[shard].segments:
        segment = open_segment(
            store.segment(entry.info), entry.info, config.index, statistics, verify, config.search.plan
        )
        segments.append(_LiveSegment(segment, store.tombstones(manifest, entry)))
    opened = LocalShard(shard, manifest, segments, Analyzer(config.index.lexical), config.search.mask_cache_mb)
    opened.follow(store.revocation_feed())
    return opened


class _LiveSegment:
    """A segment without its dead rows."""

    def __init__(self, segment: Segment, tombstones: BitMap) -> None:
        self.chunks = segment.chunks
        self._segment, self._tombstones = segment, tombstones
        self.access = SegmentAccess(segment.access, tombstones, len(segment.chunks), self._rows_of)

    def search(
        self, query: EncodedQuery, terms: Sequence[str], k_dense: int, k_bm25: int, allowed: RowMask
    ) -> ShardCandidates:
        """Both legs over the allowed rows of this segment alone."""
        if not allowed.count:
            return ShardCandidates(0, (), (), {}, 0.0, "nothing")
        dense_rows, dense_scores, strategy = self._segment.dense.search(query.vector, k_dense, allowed)
        bm25_rows, bm25_scores = self._segment.lexical.search(terms, k_bm25, allowed)
        rows = np.union1d(dense_rows, bm25_rows)
        ids: list[ChunkId] = self.chunks.column("id").take(pa.array(rows)).to_pylist()
        id_of = dict(zip(rows.tolist(), ids, strict=True))
        columns = zip(
            self._segment.dense.scores(query.vector, rows).tolist(),
            self._segment.lexical.scores_of(terms, rows).tolist(),
            self._segment.dense.packed(rows),
            strict=True,
        )
        return ShardCandidates(
            shard=0,
            dense=tuple(
                Candidate(id_of[row], score, "dense")
                for row, score in zip(dense_rows.tolist(), dense_scores.tolist(), strict=True)
            ),
            bm25=tuple(
                Candidate(id_of[row], score, "bm25")
                for row, score in zip(bm25_rows.tolist(), bm25_scores.tolist(), strict=True)
            ),
            scores={name: FirstStageScores(*scores) for name, scores in zip(ids, columns, strict=True)},
            compute_ms=0.0,
            strategy=strategy,
        )

    def probe(self) -> None:
        """Looks up a live chunk by its own vector, as somebody who may read it."""
        for row in np.flatnonzero(self.live()).tolist():
            access = table_to_chunks(self.chunks.slice(row, 1))[0].metadata.access
            if access.groups:
                asker = Principal("", access.tenant, frozenset(access.groups))
                (allowed,) = ShardAccess([self.access], limit_bytes=0).masks(asker)
                vector = self._segment.dense.vector(row)
                rows, scores, _ = self._segment.dense.search(vector, 1, allowed)
                own = self._segment.dense.scores(vector, np.array([row]))
                if len(rows) != 1 or scores[0] < own[0]:
                    raise IndexMismatch(f"segment {self._segment.info.id} does not find its own row {row}")
                return

    def live(self) -> npt.NDArray[np.bool_]:
        """Which rows are not dead."""
        return ~row_flags(self._tombstones, len(self.chunks))

    def _rows_of(self, documents: Collection[DocumentId]) -> BitMap:
        """The rows of the documents, dead ones too."""
        if not documents:
            return BitMap()
        column = self.chunks.column("document_id")
        found = pc.is_in(column, value_set=pa.array(sorted(documents), pa.string()))
        return BitMap(np.flatnonzero(found.to_numpy()))


def _readable(mask: RowMask, rows: Sequence[int]) -> list[int]:
    """Those of the rows that the mask holds, ascending."""
    found = np.sort(np.asarray(rows, np.int64))
    kept: list[int] = found[mask.contains(found)].tolist()
    return kept


class _Sections:
    """The live chunks of a shard in the order of their documents, to find what stands beside a chunk.

    A document's chunks may lie in several segments, and in each they are in the order of ids, not of the text.
    """

    def __init__(self, segments: Sequence[_LiveSegment]) -> None:
        live = [np.flatnonzero(segment.live()) for segment in segments]
        columns = ["document_id", "ordinal", "section"]
        tables = [s.chunks.select(columns).take(pa.array(rows)) for s, rows in zip(segments, live, strict=True)]
        table = pa.concat_tables([CHUNK_SCHEMA.empty_table().select(columns), *tables])
        document = table.column("document_id").combine_chunks().dictionary_encode().indices.to_numpy()
        ordinal = table.column("ordinal").to_numpy()
        order = np.lexsort((ordinal, document))
        self._document, self._ordinal = document[order], ordinal[order]
        self._section = table.column("section").to_numpy()[order]
        self._segment = np.repeat(np.arange(len(segments)), [len(rows) for rows in live])[order]
        self._row = np.concatenate([np.empty(0, np.int64), *live])[order]
        self._places = [np.full(len(segment.chunks), -1, np.int64) for segment in segments]
        for owner, places in enumerate(self._places):
            mine = np.flatnonzero(self._segment == owner)
            places[self._row[mine]] = mine

    def around(self, segment: int, row: int, reach: int) -> list[tuple[int, int]]:
        """(segment, row) of the live chunks at most `reach` ordinals from a live one, in its document and section."""
        place = int(self._places[segment][row])
        near = slice(max(place - reach, 0), place + reach + 1)
        same = (
            (self._document[near] == self._document[place])
            & (self._section[near] == self._section[place])
            & (np.abs(self._ordinal[near] - self._ordinal[place]) <= reach)
        )
        return list(zip(self._segment[near][same].tolist(), self._row[near][same].tolist(), strict=True))
