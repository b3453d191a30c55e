"""One shard of one version, open for search: exact dense and BM25 candidates among the rows that the asker may read."""

import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from rag.config import RagConfig
from rag.data import Candidate, Chunk, EncodedQuery, FirstStageScores, Principal, ShardCandidates
from rag.errors import IndexMismatch, ModelError, NotFound
from rag.ids import ChunkId, VersionId
from rag.index.access import RowMask, row_mask
from rag.index.analysis import Analyzer
from rag.index.lexical import best_matches
from rag.index.manifest import Manifest, check_compatible
from rag.index.segment import Segment, find_row, open_segment
from rag.index.versions import IndexStore
from rag.search.merge import merge_top_k
from rag.tables import CHUNK_SCHEMA, table_to_chunks

_CACHED_MASKS = 256  # different (tenant, groups) remembered a segment; one bit a row each


class LocalShard:
    """A shard in this process. Safe to search from several threads at once."""

    def __init__(self, shard: int, manifest: Manifest, segments: Sequence["_LiveSegment"], analyzer: Analyzer) -> None:
        self.shard, self.manifest = shard, manifest
        self._segments, self._analyzer = tuple(segments), analyzer
        self._sections = _Sections(self._segments)

    def __repr__(self) -> str:
        return f"LocalShard({self.shard}, {self.manifest.version}, {len(self._segments)} segments, {self.num_chunks})"

    @property
    def num_chunks(self) -> int:
        """Live chunks of the shard."""
        return self.manifest.shards[self.shard].num_chunks

    def search(self, query: EncodedQuery, k_dense: int, k_bm25: int) -> ShardCandidates:
        """The best candidates of both legs among the live chunks that the query's principal may read.

        Both are exact: the scores, and the order of ties by chunk id, do not depend on how the corpus is cut. A chunk
        without a term of the query is no BM25 candidate. Raises IndexMismatch for a query of another version or
        dimension.
        """
        started = time.perf_counter()
        self._check_query(query)
        terms = self._analyzer.terms(query.text)
        parts = [segment.search(query, terms, k_dense, k_bm25) for segment in self._segments]
        dense = merge_top_k([part.dense for part in parts], k_dense)
        bm25 = merge_top_k([part.bm25 for part in parts], k_bm25)
        proposed = {candidate.chunk_id for candidate in (*dense, *bm25)}
        scores = {name: both for part in parts for name, both in part.scores.items() if name in proposed}
        compute_ms = (time.perf_counter() - started) * 1e3
        return ShardCandidates(self.shard, dense, bm25, scores, compute_ms)

    def fetch(self, query: EncodedQuery, chunk_ids: Sequence[ChunkId], neighbours: int = 0) -> list[Chunk]:
        """The readable ones of the chunks, with up to `neighbours` on either side in the same section, each once, by
        document and ordinal. A chunk that the principal may not read is left out like one that does not exist."""
        self._check_query(query)
        wanted: set[tuple[int, int]] = set()
        for place, segment in enumerate(self._segments):
            rows = [row for chunk_id in set(chunk_ids) if (row := find_row(segment.chunks, chunk_id)) is not None]
            wanted.update((place, row) for row in segment.readable(query.principal, rows))
        wanted.update(around for found in tuple(wanted) for around in self._sections.around(*found, neighbours))
        chunks: list[Chunk] = []
        for place, segment in enumerate(self._segments):
            rows = segment.readable(query.principal, [row for owner, row in wanted if owner == place])
            chunks += table_to_chunks(segment.chunks.take(pa.array(rows, pa.int64())))
        return sorted(chunks, key=lambda chunk: (chunk.document_id, chunk.ordinal, chunk.id))

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
    store = IndexStore(index_root)
    manifest = store.manifest(version)
    check_compatible(manifest, config)
    if not 0 <= shard < manifest.num_shards:
        raise NotFound(f"index version {version} has no shard {shard}; it has {manifest.num_shards}")
    statistics = store.statistics(manifest)
    segments: list[_LiveSegment] = []
    for entry in manifest.shards[shard].segments:
        directory = store.segments_dir / entry.info.id
        segment = open_segment(directory, entry.info, config.index, statistics, verify)
        segments.append(_LiveSegment(segment, store.tombstones(manifest, entry)))
    return LocalShard(shard, manifest, segments, Analyzer(config.index.lexical))


class _LiveSegment:
    """A segment without its dead rows."""

    def __init__(self, segment: Segment, tombstones: BitMap) -> None:
        self.chunks = segment.chunks
        self._segment, self._tombstones = segment, tombstones
        self._mask_of = lru_cache(maxsize=_CACHED_MASKS)(self._make_mask)

    def search(self, query: EncodedQuery, terms: Sequence[str], k_dense: int, k_bm25: int) -> ShardCandidates:
        """Both legs over this segment alone."""
        allowed = self._mask(query.principal)
        if not allowed.count:
            return ShardCandidates(0, (), (), {}, 0.0)
        dense_rows, dense_scores = self._segment.dense.search(query.vector, k_dense, allowed)
        all_bm25_scores = self._segment.lexical.scores(terms)
        bm25_rows, bm25_scores = best_matches(all_bm25_scores, k_bm25, allowed)
        rows = np.union1d(dense_rows, bm25_rows)
        ids: list[ChunkId] = self.chunks.column("id").take(pa.array(rows)).to_pylist()
        id_of = dict(zip(rows.tolist(), ids, strict=True))
        both = zip(self._segment.dense.scores(query.vector, rows).tolist(), all_bm25_scores[rows].tolist(), strict=True)
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
            scores={name: FirstStageScores(*scores) for name, scores in zip(ids, both, strict=True)},
            compute_ms=0.0,
        )

    def probe(self) -> None:
        """Looks up a live chunk by its own vector, as somebody who may read it."""
        for row in np.flatnonzero(self.live()).tolist():
            access = table_to_chunks(self.chunks.slice(row, 1))[0].metadata.access
            if access.groups:
                allowed = self._mask(Principal("", access.tenant, frozenset(access.groups)))
                vector = self._segment.dense.vector(row)
                rows, scores = self._segment.dense.search(vector, 1, allowed)
                own = self._segment.dense.scores(vector, np.array([row]))
                if len(rows) != 1 or scores[0] < own[0]:
                    raise IndexMismatch(f"segment {self._segment.info.id} does not find its own row {row}")
                return

    def readable(self, principal: Principal, rows: Sequence[int]) -> list[int]:
        """Those of the rows that are live and that the principal may read, ascending."""
        found = np.sort(np.asarray(rows, np.int64))
        kept: list[int] = found[self._mask(principal).contains(found)].tolist()
        return kept

    def live(self) -> npt.NDArray[np.bool_]:
        """Which rows are not dead."""
        flags = np.ones(len(self.chunks), np.bool_)
        flags[np.asarray(self._tombstones.to_array(), np.int64)] = False
        return flags

    def _mask(self, principal: Principal) -> RowMask:
        return self._mask_of(principal.tenant, principal.groups)

    def _make_mask(self, tenant: str, groups: frozenset[str]) -> RowMask:
        principal = Principal(subject="", tenant=tenant, groups=groups)
        return row_mask(self._segment.access.allowed_rows(principal) - self._tombstones, len(self.chunks))


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
