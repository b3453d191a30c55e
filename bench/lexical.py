"""Is BM25 over shards the same as one bm25s index, and as fast?

python -m bench.lexical --data ../shared/data

Rankings: every question of every test collection, against an index that bm25s builds by itself over the whole
collection with the same terms. Scores that agree to a part in 100,000 are one score: bm25s adds up in another order.
Speed: 150,000 chunks, real ones and others spliced from two of them, in one shard, everything allowed, one question
after another on one thread, against bm25s with its faster, compiled backend and all questions in one call. Times are of
the processor; the two take turns.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bm25s
import numpy as np

from bench.report import PROJECT, RESULTS, Run, need, out, percentile, print_table, verdict
from rag.config import LexicalIndexConfig, load_config
from rag.data import embedded_text
from rag.evaluate.beir import Collection, read_collection
from rag.ids import document_id, shard_of
from rag.index.access import RowMask
from rag.index.analysis import Analyzer
from rag.index.lexical import BM25, TermFrequencies, count_terms
from rag.index.statistics import merge_statistics

SHARDS = (1, 3, 8)
K, ROUNDS = 50, 7
TOLERANCE = 1e-5  # of a score

Terms = list[str]


class Sharded:
    """Rows of terms in shards, as the index cuts them: on the statistics of all."""

    def __init__(
        self, names: Sequence[str], rows: Sequence[Terms], num_shards: int, config: LexicalIndexConfig
    ) -> None:
        self._places = [
            np.array(
                [
                    place
                    for place, name in enumerate(names)
                    if shard_of(document_id("bench", name), num_shards) == shard
                ],
                np.int64,
            )
            for shard in range(num_shards)
        ]
        counted = [count_terms(rows[place] for place in places.tolist()) for places in self._places]
        statistics = merge_statistics(_statistics(part) for part in counted)
        self._shards = [BM25(part, statistics, config) for part in counted]
        self._masks = [RowMask(np.ones(len(places), np.bool_)) for places in self._places]

    def search(self, terms: Terms, k: int) -> list[tuple[int, float]]:
        """The k best of all rows with their scores, ties by row."""
        found: list[tuple[int, float]] = []
        for shard, mask, places in zip(self._shards, self._masks, self._places, strict=True):
            rows, scores = shard.search(terms, k, mask)
            found += zip(places[rows].tolist(), scores.tolist(), strict=True)
        return sorted(found, key=lambda item: (-item[1], item[0]))[:k]


def _statistics(part: TermFrequencies) -> Any:  # Any: CorpusStatistics, whose arrow columns have no types
    return part.statistics(np.ones(len(part.lengths), np.bool_))


def plain_ranking(scores: Sequence[float], k: int) -> list[tuple[int, float]]:
    """What bm25s' scores of all rows rank first, without those that match nothing."""
    listed = [(row, score) for row, score in enumerate(scores) if score > 0]
    return sorted(listed, key=lambda item: (-item[1], item[0]))[:k]


def same_ranking(ours: Sequence[tuple[int, float]], plain: Sequence[float], k: int) -> bool:
    """Whether a ranking is that of the plain scores, when scores within the tolerance count as tied."""
    expected = plain_ranking(plain, k)
    if len(ours) != len(expected):
        return False
    return all(
        max(abs(score - wanted), abs(float(plain[row]) - wanted)) <= TOLERANCE * max(1.0, wanted)
        for (row, score), (_, wanted) in zip(ours, expected, strict=True)
    )


def compare_rankings(
    collection: Collection, analyzer: Analyzer, config: LexicalIndexConfig
) -> dict[str, Any]:  # Any: JSON
    """How many questions of the collection rank otherwise than in one plain index, for each number of shards."""
    names = [document.id for document in collection.documents]
    rows = [analyzer.terms(embedded_text(document.title, (), document.text)) for document in collection.documents]
    plain = bm25s.BM25(k1=config.k1, b=config.b, method="lucene")
    plain.index(rows, show_progress=False)
    questions = [terms for query in collection.queries if (terms := analyzer.terms(query.text))]
    truth = [plain.get_scores(terms) for terms in questions]
    figures: dict[str, Any] = {"collection": collection.name, "documents": len(rows), "questions": len(questions)}
    reference: list[list[tuple[int, float]]] = []
    for num_shards in SHARDS:
        index = Sharded(names, rows, num_shards, config)
        found = [index.search(terms, K) for terms in questions]
        reference = reference or found
        wrong = sum(not same_ranking(ours, scores, K) for ours, scores in zip(found, truth, strict=True))
        figures[f"differ_from_bm25s_{num_shards}"] = wrong
        figures[f"bits_differ_from_1_shard_{num_shards}"] = sum(a != b for a, b in zip(reference, found, strict=True))
    return figures


def spliced(rows: Sequence[Terms], count: int, seed: int = 0) -> list[Terms]:
    """The rows, then new ones, each the end of one and the beginning of another."""
    rng = np.random.default_rng(seed)
    made = [list(row) for row in rows[:count]]
    while len(made) < count:
        head, tail = (rows[int(place)] for place in rng.integers(0, len(rows), 2))
        made.append(head[rng.integers(len(head)) :] + tail[: rng.integers(1, len(tail) + 1)])
    return made


def compare_speed(
    rows: Sequence[Terms], questions: Sequence[Terms], config: LexicalIndexConfig
) -> dict[str, Any]:  # Any: JSON
    """Questions a second of both, in turns; the medians."""
    frequencies = count_terms(rows)
    ours = BM25(frequencies, merge_statistics([_statistics(frequencies)]), config)
    plain = bm25s.BM25(k1=config.k1, b=config.b, method="lucene", backend="numba")
    plain.index(rows, show_progress=False)
    everything = RowMask(np.ones(len(rows), np.bool_))
    rates: dict[str, list[float]] = {"quire": [], "bm25s": []}
    for turn in range(ROUNDS + 1):
        started = time.thread_time()
        for terms in questions:
            ours.search(terms, K, everything)
        middle = time.thread_time()
        plain.retrieve(questions, k=K, show_progress=False, n_threads=1)
        ended = time.thread_time()
        if turn:  # the first compiles and warms up
            rates["quire"].append(len(questions) / (middle - started))
            rates["bm25s"].append(len(questions) / (ended - middle))
    median = {name: percentile(values, 0.5) for name, values in rates.items()}
    return {
        "chunks": len(rows),
        "questions": len(questions),
        "quire_questions_per_s": round(median["quire"], 1),
        "bm25s_questions_per_s": round(median["bm25s"], 1),
        "speed_of_bm25s": round(
            percentile([a / b for a, b in zip(rates["quire"], rates["bm25s"], strict=True)], 0.5), 3
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.lexical", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=PROJECT.parent / "shared" / "data", help="folder of the sets")
    parser.add_argument("--config", type=Path, default=PROJECT / "serve_configs" / "local" / "rag.yaml")
    parser.add_argument("--chunks", type=float, default=150_000)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON record")
    args = parser.parse_args()
    run = Run("lexical")
    config = load_config(args.config)
    lexical = config.index.lexical
    analyzer = Analyzer(lexical)
    folders = sorted(path for path in need(args.data, "the data").glob("ir-*") if path.is_dir())
    collections = [read_collection(folder) for folder in folders]
    rankings = []
    for collection in collections:
        rankings.append(compare_rankings(collection, analyzer, lexical))
        out.print(f"{collection.name}: {rankings[-1]}", markup=False)
    columns = tuple(rankings[0])
    print_table(f"questions whose first {K} differ", columns, [list(row.values()) for row in rankings])
    rows = [
        terms
        for collection in collections
        for document in collection.documents
        if (terms := analyzer.terms(embedded_text(document.title, (), document.text)))
    ]
    questions = [terms for found in collections for query in found.queries if (terms := analyzer.terms(query.text))]
    rng = np.random.default_rng(0)
    chosen = [questions[place] for place in rng.choice(len(questions), min(300, len(questions)), replace=False)]
    speed = compare_speed(spliced(rows, int(args.chunks)), chosen, lexical)
    differing = sum(value for row in rankings for name, value in row.items() if "differ" in name)
    holds = verdict(differing == 0, "one ranking, whatever the number of shards, and that of bm25s")
    holds &= verdict(speed["speed_of_bm25s"] >= 0.9, f"{speed['speed_of_bm25s']} of bm25s' questions a second: {speed}")
    run.write({"rankings": rankings, "speed": speed}, config, args.results)
    raise SystemExit(0 if holds else 1)


if __name__ == "__main__":
    main()
