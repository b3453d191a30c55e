import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.config import IndexConfig, PlanConfig, RagConfig, SearchConfig
from rag.data import Chunk, EncodedQuery, MetadataFilter, Principal, SearchResult, Vector, Vectors
from rag.errors import IndexDamaged, IndexMismatch, ModelError, NotFound
from rag.ids import ChunkId, VersionId
from rag.index.analysis import Analyzer
from rag.index.dense.index import DenseIndex
from rag.index.manifest import Manifest
from rag.index.revocations import NOTHING_REVOKED, Revocations
from rag.index.shard import LocalShard, open_shard
from rag.index.store import IndexStore
from rag.search.fuse import reciprocal_rank_fusion
from rag.search.merge import combine
from tests.rag.index.factories import EVERYONE, TENANT, commit, make_chunk, make_config, make_query, unit_vectors

WORDS = ("leave", "policy", "ERR_4031", "expense", "laptop", "vpn")
GROUPS = ("staff", "hr", "legal")
LAYOUTS = ((1, 1), (1, 3), (2, 2), (4, 1), (7, 1))  # shards, segments a shard

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
group_sets = st.lists(st.sampled_from(GROUPS), max_size=2, unique=True)


@st.composite
def corpora(draw: st.DrawFn) -> list[Chunk]:
    """Chunks of a few documents, each document with readers of its own."""
    chunks: list[Chunk] = []
    for number in range(draw(st.integers(1, 6))):
        tenant, groups = draw(st.sampled_from((TENANT, TENANT, "rival"))), draw(group_sets)
        for ordinal, text in enumerate(draw(st.lists(texts, min_size=1, max_size=4))):
            chunks.append(make_chunk(text, f"d{number}", ordinal, ordinal // 2, groups, tenant))
    return chunks


# Small integers: float32 sums of them are exact, so equal means equal, and ties are many.
def small_vectors(num_rows: int, seed: int) -> Vectors:
    return np.random.default_rng(seed).integers(-2, 3, (num_rows, 4)).astype(np.float32)


def open_all(config: RagConfig, version: VersionId) -> list[LocalShard]:
    return [open_shard(config.index_root, version, shard, config) for shard in range(config.index.num_shards)]


def search(shards: Sequence[LocalShard], query: EncodedQuery, k: int) -> SearchResult:
    results = [shard.search(query, k, k) for shard in shards]
    return combine(results, [], SearchConfig(k_dense=k, k_bm25=k), limit=2 * k)


def readable(chunk: Chunk, principal: Principal) -> bool:
    access = chunk.metadata.access
    return access.tenant == principal.tenant and bool(set(access.groups) & principal.groups)


def brute_force_dense(
    chunks: Sequence[Chunk], vectors: Vectors, vector: Vector, principal: Principal, k: int
) -> list[tuple[ChunkId, float]]:
    scored = [
        (chunk.id, float(row @ vector))
        for chunk, row in zip(chunks, vectors, strict=True)
        if readable(chunk, principal)
    ]
    return sorted(scored, key=lambda item: (-item[1], item[0]))[:k]


def plain_bm25(chunks: Sequence[Chunk], text: str, config: RagConfig) -> dict[ChunkId, float]:
    """The scores of an index over the whole corpus that bm25s builds by itself."""
    analyzer = Analyzer(config.index.lexical)
    plain = bm25s.BM25(k1=config.index.lexical.k1, b=config.index.lexical.b, method="lucene")
    plain.index([analyzer.terms(chunk.embedded_text) for chunk in chunks], show_progress=False)
    scores = plain.get_scores(analyzer.terms(text))
    return {chunk.id: float(score) for chunk, score in zip(chunks, scores, strict=True)}


@settings(max_examples=12, deadline=None)
@given(chunks=corpora(), seed=st.integers(0, 99), text=texts, groups=group_sets, k=st.integers(1, 8))
def test_neither_shards_nor_segments_change_a_result_and_it_is_that_of_brute_force(
    chunks: list[Chunk], seed: int, text: str, groups: list[str], k: int
) -> None:
    vectors = small_vectors(len(chunks), seed)
    principal = Principal("ann", TENANT, frozenset(groups))
    vector = small_vectors(1, seed + 1)[0]
    results: list[SearchResult] = []
    with TemporaryDirectory() as folder:
        for num_shards, num_segments in LAYOUTS:
            config = make_config(Path(folder), IndexConfig(num_shards=num_shards))
            version = commit(IndexStore(config.index_root), chunks, vectors, config, num_segments).version
            results.append(search(open_all(config, version), make_query(version, text, vector, principal), k))

    whole, bm25 = results[0], plain_bm25(chunks, text, config)
    for result in results[1:]:
        assert (result.dense, result.bm25, result.fused) == (whole.dense, whole.bm25, whole.fused)
        assert result.scores == whole.scores
    assert [(candidate.chunk_id, candidate.score) for candidate in whole.dense] == brute_force_dense(
        chunks, vectors, vector, principal, k
    )
    matching = [chunk.id for chunk in chunks if readable(chunk, principal) and bm25[chunk.id] > 0]
    assert len(whole.bm25) == min(k, len(matching))
    assert {candidate.chunk_id for candidate in whole.bm25} <= set(matching)
    best = sorted((bm25[chunk_id] for chunk_id in matching), reverse=True)[:k]
    assert [candidate.score for candidate in whole.bm25] == pytest.approx(best, abs=1e-5)
    for chunk_id, scores in whole.scores.items():
        assert scores.bm25 == pytest.approx(bm25[chunk_id], abs=1e-5)


@settings(max_examples=8, deadline=None)
@given(chunks=corpora(), data=st.data(), text=texts, groups=group_sets)
def test_an_updated_index_answers_like_one_built_anew(
    chunks: list[Chunk], data: st.DataObject, text: str, groups: list[str]
) -> None:
    """Dead rows are not found, and count neither for document frequencies nor for the average length."""
    documents = sorted({chunk.document_id for chunk in chunks})
    gone = data.draw(st.lists(st.sampled_from(documents), unique=True))
    kept = [chunk for chunk in chunks if chunk.document_id not in gone]
    added = [make_chunk("vpn laptop ERR_4031", "new", groups=("staff", "hr"))]
    vectors, new_vectors = small_vectors(len(chunks), 3), small_vectors(1, 4)
    places = [place for place, chunk in enumerate(chunks) if chunk.document_id not in gone]
    principal = Principal("ann", TENANT, frozenset(groups))
    with TemporaryDirectory() as folder:
        config = make_config(Path(folder), IndexConfig(num_shards=2))
        store = IndexStore(config.index_root)
        parent = commit(store, chunks, vectors, config, 2).version
        updated = commit(store, added, new_vectors, config, parent=parent, removed=gone, kept=kept)
        fresh = commit(store, [*kept, *added], np.concatenate([vectors[places], new_vectors]), config)
        found, expected = (
            search(open_all(config, manifest.version), make_query(manifest.version, text, None, principal), 50)
            for manifest in (updated, fresh)
        )
        assert updated.counts.chunks == fresh.counts.chunks
    assert (found.dense, found.bm25, found.scores) == (expected.dense, expected.bm25, expected.scores)


@pytest.fixture
def config(tmp_path: Path) -> RagConfig:
    return make_config(tmp_path)


def committed(config: RagConfig, chunks: Sequence[Chunk], num_segments: int = 1) -> Manifest:
    return commit(IndexStore(config.index_root), chunks, unit_vectors(len(chunks)), config, num_segments)


def opened(config: RagConfig, chunks: Sequence[Chunk], num_segments: int = 1) -> tuple[LocalShard, VersionId]:
    version = committed(config, chunks, num_segments).version
    return open_shard(config.index_root, version, 0, config), version


def test_a_row_that_may_not_be_read_is_in_no_candidate_list_and_in_no_fetch(config: RagConfig) -> None:
    secret = make_chunk("salary bands", "hr/salaries", groups=("hr",))
    foreign = make_chunk("salary bands", "handbook/leave.md", tenant="rival")
    nobody = make_chunk("salary bands of the board", "hr/board", groups=())
    public = make_chunk("salary questions go to people operations", "handbook/pay")
    shard, version = opened(config, [secret, foreign, nobody, public])
    query = make_query(version, "salary bands")
    found = shard.search(query, 10, 10)
    assert [candidate.chunk_id for candidate in found.dense] == [public.id]
    assert [candidate.chunk_id for candidate in found.bm25] == [public.id]
    assert set(found.scores) == {public.id}
    everything = [chunk.id for chunk in (secret, foreign, nobody, public)]
    assert shard.fetch(query, everything, neighbours=3) == [public]
    outsider = make_query(version, "salary", principal=Principal("eve", TENANT, frozenset(), operator=True))
    assert shard.search(outsider, 10, 10).scores == {}
    assert shard.fetch(outsider, everything) == []


def test_identifiers_are_found_whole(config: RagConfig) -> None:
    chunks = [make_chunk(f"Restart the relay on ERR_{n}.", f"runbook/{n}") for n in range(4030, 4040)]
    shard, version = opened(config, chunks)
    first, second, *_ = shard.search(make_query(version, "what does err_4031 mean"), 3, 3).bm25
    assert first.chunk_id == chunks[1].id
    assert first.score > 5 * second.score  # which shares only the word "err"


def test_words_that_no_chunk_holds_propose_nothing(config: RagConfig) -> None:
    shard, version = opened(config, [make_chunk("leave policy"), make_chunk("expenses", "b")])
    for text in ("zebra", "", "the of and"):
        found = shard.search(make_query(version, text), 5, 5)
        assert found.bm25 == ()
        assert len(found.dense) == 2
        assert {scores.bm25 for scores in found.scores.values()} == {0.0}


def test_both_scores_of_every_candidate_are_given(config: RagConfig) -> None:
    chunks = [make_chunk("vpn access", "a"), make_chunk("laptop", "b"), make_chunk("vpn", "c")]
    shard, version = opened(config, chunks, num_segments=2)
    query = make_query(version, "vpn")
    full, narrow = shard.search(query, 3, 3), shard.search(query, 1, 1)
    assert set(narrow.scores) == {candidate.chunk_id for candidate in (*narrow.dense, *narrow.bm25)}
    assert all(full.scores[chunk_id] == scores for chunk_id, scores in narrow.scores.items())
    assert {name: scores.dense for name, scores in full.scores.items()} == {
        candidate.chunk_id: candidate.score for candidate in full.dense
    }
    other = full.scores[chunks[1].id]
    assert other.bm25 == 0.0
    assert np.frombuffer(other.vector, np.float16) @ query.vector == pytest.approx(other.dense, abs=1e-2)
    assert narrow.compute_ms > 0


SECTIONS = [make_chunk(f"part {n}", "guide", ordinal=n, section=(0, 0, 0, 1, 1, 1)[n]) for n in range(6)]


@pytest.mark.parametrize("num_segments", [1, 3])
@pytest.mark.parametrize(
    ("wanted", "neighbours", "ordinals"),
    [([1], 0, [1]), ([1], 1, [0, 1, 2]), ([2], 1, [1, 2]), ([3], 2, [3, 4, 5]), ([4, 3, 4], 1, [3, 4, 5]), ([], 2, [])],
)
def test_neighbours_stay_in_the_section_and_come_in_order(
    config: RagConfig, num_segments: int, wanted: list[int], neighbours: int, ordinals: list[int]
) -> None:
    other = [make_chunk(f"part {n}", "another guide", ordinal=n) for n in range(6)]
    shard, version = opened(config, [*SECTIONS, *other], num_segments)
    fetched = shard.fetch(make_query(version), [SECTIONS[n].id for n in wanted], neighbours)
    assert fetched == [SECTIONS[n] for n in ordinals]


def test_a_dead_chunk_can_not_be_fetched_and_is_no_neighbour(config: RagConfig) -> None:
    store = IndexStore(config.index_root)
    staying = make_chunk("stays", "other")
    parent = commit(store, [*SECTIONS, staying], unit_vectors(7), config).version
    edited = [make_chunk("part 0, edited", "guide"), SECTIONS[1]]
    document = [SECTIONS[0].document_id]
    version = commit(store, edited, unit_vectors(2), config, parent=parent, removed=document, kept=[staying]).version
    shard = open_shard(config.index_root, version, 0, config)
    assert shard.num_chunks == 3
    assert shard.fetch(make_query(version), [chunk.id for chunk in SECTIONS], neighbours=5) == edited


def test_a_shard_that_loses_its_own_chunks_fails_its_probe(config: RagConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    store = IndexStore(config.index_root)
    chunks = [make_chunk(f"text {n}", f"{n}.md") for n in range(5)]
    version = commit(store, chunks, unit_vectors(5), config).version
    shard = open_shard(config.index_root, version, 0, config)
    shard.probe()
    nothing = (np.empty(0, np.int64), np.empty(0, np.float32), "exact")
    monkeypatch.setattr(DenseIndex, "search", lambda self, query, k, allowed: nothing)
    with pytest.raises(IndexMismatch, match="does not find its own row"):
        shard.probe()


def test_an_empty_shard_can_be_opened_and_asked(tmp_path: Path) -> None:
    config = make_config(tmp_path, IndexConfig(num_shards=64))
    version = committed(config, [make_chunk("lonely")]).version
    shards = open_all(config, version)
    assert sum(shard.num_chunks for shard in shards) == 1
    empty = next(shard for shard in shards if not shard.num_chunks)
    assert empty.search(make_query(version, "lonely"), 5, 5).scores == {}
    assert empty.fetch(make_query(version), [ChunkId("x")], 1) == []
    assert len(search(shards, make_query(version, "lonely"), 5).bm25) == 1


def test_a_query_of_another_version_or_dimension_is_refused(config: RagConfig) -> None:
    shard, version = opened(config, [make_chunk("x")])
    with pytest.raises(IndexMismatch, match="the query is for v-other"):
        shard.search(make_query(VersionId("v-other")), 1, 1)
    with pytest.raises(IndexMismatch, match=r"shape \(3,\).*\(4,\)"):
        shard.search(make_query(version, vector=np.ones(3, np.float32)), 1, 1)
    with pytest.raises(ModelError, match="not finite"):
        shard.search(make_query(version, vector=np.full(4, np.nan, np.float32)), 1, 1)


def test_a_shard_that_does_not_exist_or_was_built_otherwise_is_refused(config: RagConfig) -> None:
    version = committed(config, [make_chunk("x")]).version
    with pytest.raises(NotFound, match="no shard 1; it has 1"):
        open_shard(config.index_root, version, 1, config)
    other = make_config(config.store, IndexConfig(num_shards=1, vector_dtype="float16"))
    with pytest.raises(IndexMismatch, match="fingerprint"):
        open_shard(config.index_root, version, 0, other)


def test_damage_to_any_file_of_a_version_is_found_at_open(config: RagConfig) -> None:
    store = IndexStore(config.index_root)
    parent = committed(config, [*SECTIONS, make_chunk("stays", "other")]).version
    removed = [SECTIONS[0].document_id]
    kept = [make_chunk("stays", "other")]
    version = commit(store, [make_chunk("new", "n")], unit_vectors(1), config, 1, parent, removed, kept).version
    open_shard(config.index_root, version, 0, config)
    files = [path for path in store.version_dir(version).iterdir() if path.name != "manifest.json"]
    assert len(files) == 2  # statistics and tombstones
    for path in [*files, *(path for path in store.segments_dir.rglob("*") if path.is_file())]:
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(IndexDamaged) as caught:
            open_shard(config.index_root, version, 0, config)
        assert caught.value.path == path
        path.write_bytes(content)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_stored_precision_changes_scores_alike_in_every_layout(tmp_path: Path, dtype: str) -> None:
    chunks = [make_chunk(f"clause {n}", f"d{n}") for n in range(60)]
    vectors = unit_vectors(60, 64)
    query_vector = unit_vectors(1, 64, seed=4)[0]
    found: list[SearchResult] = []
    for num_shards in (1, 3):
        config = make_config(tmp_path, IndexConfig.model_validate({"num_shards": num_shards, "vector_dtype": dtype}))
        version = commit(IndexStore(config.index_root), chunks, vectors, config, 2).version
        found.append(search(open_all(config, version), make_query(version, "clause", query_vector), 10))
    assert found[0].dense == found[1].dense
    truth = dict(brute_force_dense(chunks, vectors, query_vector, EVERYONE, 60))
    for candidate in found[0].dense:
        assert candidate.score == pytest.approx(truth[candidate.chunk_id], abs=1e-3)


def test_threads_get_the_answers_that_one_thread_gets(config: RagConfig) -> None:
    chunks = [make_chunk(f"{WORDS[n % 6]} {n}", f"d{n}", groups=(GROUPS[n % 3],)) for n in range(120)]
    shard, version = opened(config, chunks, num_segments=2)
    queries = [
        make_query(version, f"{word} {n}", unit_vectors(1, seed=n)[0], Principal("ann", TENANT, frozenset({group})))
        for n, word in enumerate(WORDS)
        for group in GROUPS
    ]
    alone = [shard.search(query, 5, 5) for query in queries]
    start = threading.Barrier(4)

    def ask(_: int) -> list[object]:
        start.wait()
        found = [shard.search(query, 5, 5) for query in queries]
        return [(result.dense, result.bm25, result.scores) for result in found]

    with ThreadPoolExecutor(4) as pool:
        for answers in pool.map(ask, range(4)):
            assert answers == [(result.dense, result.bm25, result.scores) for result in alone]


ANN_KINDS = ("ivf_flat", "ivf_pq", "hnsw")


@pytest.mark.parametrize("kind", ANN_KINDS)
def test_every_kind_of_index_says_how_it_searched_and_how_good_it_is(tmp_path: Path, kind: str) -> None:
    dense = {"kind": kind, "min_rows": 256, "nlist": 8, "pq_bytes": 4, "m": 16}
    config = make_config(tmp_path, IndexConfig.model_validate({"num_shards": 1, "dense": dense}))
    config = config.model_copy(update={"search": SearchConfig(plan=PlanConfig(exact_rows=10, exact_share=0.1))})
    chunks = [make_chunk(f"clause {n}", f"d{n}", groups=("staff", *(("hr",) if n < 5 else ()))) for n in range(400)]
    vectors = unit_vectors(400, 16)
    manifest = commit(IndexStore(config.index_root), chunks, vectors, config)
    (info,) = (entry.info for entry in manifest.shards[0].segments)
    assert info.recall is not None
    assert info.recall >= 0.97
    shard = open_shard(config.index_root, manifest.version, 0, config)
    shard.probe()
    few = Principal("bob", TENANT, frozenset({"hr"}))
    query = make_query(manifest.version, "clause", unit_vectors(1, 16, seed=5)[0])
    found = shard.search(query, 10, 10)
    assert found.strategy == kind
    truth = brute_force_dense(chunks, vectors, query.vector, EVERYONE, 10)
    assert len({name for name, _ in truth} & {candidate.chunk_id for candidate in found.dense}) >= 9
    assert shard.search(replace(query, principal=few), 10, 10).strategy == "exact"
    nobody = Principal("eve", TENANT, frozenset())
    assert shard.search(replace(query, principal=nobody), 10, 10).strategy == "nothing"


def test_segments_that_are_searched_otherwise_are_all_named(tmp_path: Path) -> None:
    dense = {"kind": "hnsw", "min_rows": 256, "m": 16}
    config = make_config(tmp_path, IndexConfig.model_validate({"num_shards": 1, "dense": dense}))
    config = config.model_copy(
        update={"search": SearchConfig(plan=PlanConfig(exact_rows=0, exact_share=0.0, exact_share_hnsw=0.0))}
    )
    store = IndexStore(config.index_root)
    large = [make_chunk(f"clause {n}", f"d{n}") for n in range(300)]
    parent = commit(store, large, unit_vectors(300, 8), config).version
    small = [make_chunk("news", "news")]
    version = commit(store, small, unit_vectors(1, 8, seed=3), config, parent=parent, kept=large).version
    found = open_shard(config.index_root, version, 0, config).search(
        make_query(version, "", unit_vectors(1, 8, seed=4)[0]), 3, 3
    )
    assert found.strategy == "exact+hnsw"


def test_what_is_revoked_is_in_no_list_and_no_fetch_from_the_next_call_on(config: RagConfig) -> None:
    chunks = [make_chunk(f"vpn {n}", f"d{n}", groups=("staff",) if n % 2 else ("staff", "hr")) for n in range(6)]
    shard, version = opened(config, chunks, num_segments=2)
    query = make_query(version, "vpn")
    ids = {chunk.id for chunk in chunks}
    assert set(shard.search(query, 9, 9).scores) == ids
    shard.revoke(Revocations(documents=frozenset({chunks[1].document_id})))
    assert set(shard.search(query, 9, 9).scores) == ids - {chunks[1].id}
    assert shard.fetch(query, [chunks[1].id]) == []
    shard.revoke(Revocations(groups=frozenset({(TENANT, "staff")})))
    assert shard.search(query, 9, 9).scores == {}
    both = replace(query, principal=Principal("bob", TENANT, frozenset({"staff", "hr"})))
    assert set(shard.search(both, 9, 9).scores) == {chunk.id for chunk in chunks[::2]}
    shard.revoke(NOTHING_REVOKED)
    assert set(shard.search(query, 9, 9).scores) == ids


def test_the_best_candidates_come_with_their_chunks(config: RagConfig) -> None:
    chunks = [make_chunk(f"vpn {'token ' * n}", f"d{n}", groups=("staff",) if n else ("hr",)) for n in range(6)]
    shard, version = opened(config, chunks, num_segments=2)
    query = make_query(version, "vpn token")
    found = shard.search(query, 9, 9, 3)
    fused = reciprocal_rank_fusion([found.dense, found.bm25], 3)
    assert {chunk.id for chunk in found.chunks} == {candidate.chunk_id for candidate in fused}
    assert len(found.chunks) == 3
    assert shard.search(query, 9, 9).chunks == ()


def test_a_filter_leaves_out_of_both_legs_what_does_not_match(config: RagConfig) -> None:
    old = make_chunk("vpn rules", "old", updated_at=datetime(2023, 5, 1, tzinfo=UTC))
    new = make_chunk("vpn rules", "new", updated_at=datetime(2024, 5, 1, tzinfo=UTC))
    shard, version = opened(config, [old, new, make_chunk("vpn rules", "undated")])
    query = make_query(version, "vpn")
    of_2024 = MetadataFilter(updated_from=date(2024, 1, 1), updated_before=date(2025, 1, 1))
    found = shard.search(replace(query, filter=of_2024), 5, 5)
    assert [candidate.chunk_id for candidate in (*found.dense, *found.bm25)] == [new.id, new.id]
    assert len(shard.search(query, 5, 5).dense) == 3
