import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import asdict

import pytest

from rag.evaluate.parsing.headings import mhs
from rag.evaluate.parsing.reading_order import nid
from rag.evaluate.parsing.scores import ParseScores, mean_scores, score_markdown
from rag.evaluate.parsing.tables import teds
from tests.conftest import SHARED_DATA

PUBLISHED = SHARED_DATA / "parse-dpbench"
EXACT_ENGINES = ("docling", "marker", "markitdown", "mineru", "opendataloader", "opendataloader-hybrid")
SAMPLE = 200  # of 600 pages; bench/parse.py does all of them


def markdown_by_id(name: str) -> dict[str, str]:
    with gzip.open(PUBLISHED / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return {record["id"]: record["markdown"] for record in map(json.loads, file)}


def published_scores() -> Iterator[tuple[str, str, dict[str, float | None]]]:
    lines = (PUBLISHED / "published_scores_per_doc.tsv").read_text(encoding="utf-8").splitlines()
    columns = lines[0].split("\t")
    for line in lines[1:]:
        row = dict(zip(columns, line.split("\t"), strict=True))
        measures = {name: float(row[name]) if row[name] else None for name in columns[3:]}
        yield row["engine"], row["id"], measures


@pytest.mark.shared_data
def test_the_published_scores_of_six_engines_come_out_to_the_last_digit() -> None:
    truths = markdown_by_id("ground_truth")
    predictions = {engine: markdown_by_id(f"predictions/{engine}") for engine in EXACT_ENGINES}
    published = [row for row in published_scores() if row[0] in EXACT_ENGINES]
    assert len(published) == 600
    for engine, name, expected in random.Random(0).sample(published, SAMPLE):
        scores = score_markdown(truths[name], predictions[engine].get(name, ""))
        found = {**asdict(scores), "overall": scores.overall}
        for measure, value in expected.items():
            assert (found[measure] is None) == (value is None), (engine, name, measure)
            if value is not None:
                assert found[measure] == pytest.approx(value, abs=1e-9), (engine, name, measure)


def test_what_the_truth_does_not_have_is_not_measured() -> None:
    scores = score_markdown("Only words.", "# Only\n\n| a |\n|---|\n| 1 |")
    assert scores.teds is scores.mhs is None
    assert scores.overall == scores.nid


def test_an_empty_output_scores_zero_on_all_that_the_truth_has() -> None:
    scores = score_markdown("# One\n\nText\n\n| a |\n|---|\n| 1 |", "")
    assert scores == ParseScores(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def test_text_that_is_equal_but_for_white_space_scores_one() -> None:
    assert nid("a  b\nc", "a b c ") == 1.0
    assert nid("", "a") is None


def test_a_cell_that_spans_differs_from_one_that_does_not() -> None:
    wide = "<table><tr><td colspan='2'>a</td></tr></table>"
    narrow = "<table><tr><td>a</td></tr></table>"
    assert teds(wide, narrow) == pytest.approx(1 - 1 / 3)


def test_header_cells_row_groups_and_inline_breaks_do_not_count() -> None:
    grouped = "<table><thead><tr><th>a<br>b</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table>"
    plain = "<table><tr><td>a b</td></tr><tr><td>1</td></tr></table>"
    assert teds(grouped, plain) == 1.0


def test_a_table_too_many_costs_its_nodes() -> None:
    table = "<table><tr><td>1</td></tr></table>"
    assert teds(table, table * 2) == 0.5


def test_heading_levels_do_not_count_and_missing_headings_do() -> None:
    assert mhs("# One\ntext\n## Two\nmore", "## One\ntext\n## Two\nmore") == 1.0
    assert mhs("# One\ntext\n# Two\nmore", "# One\ntext") == pytest.approx(1 - 2 / 5)
    assert mhs("# One", "One") == 0.0
    assert mhs("One", "# One") is None


def test_the_mean_leaves_out_documents_that_do_not_have_a_measure() -> None:
    with_tables = ParseScores(1.0, 1.0, 0.5, 0.5, None, None)
    without = ParseScores(0.0, 0.0, None, None, None, None)
    assert mean_scores([with_tables, without]) == ParseScores(0.5, 0.5, 0.5, 0.5, None, None)
