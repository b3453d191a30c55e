import pytest
from apted import APTED, Config
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from rag.evaluate.parsing.tree_edit import Node, edit_distance

nodes = st.recursive(
    st.builds(Node, st.sampled_from(["tr", "td"]), st.text("ab", max_size=3)),
    lambda children: st.builds(Node, st.sampled_from(["tr", "td"]), st.just(""), st.lists(children, max_size=4)),
    max_leaves=12,
)


class ReferenceCosts(Config):  # type: ignore[misc]  # apted has no types
    valuecls = float

    def rename(self, node1: Node, node2: Node) -> float:
        return Levenshtein.normalized_distance(node1.text, node2.text) if node1.kind == node2.kind else 1.0


@settings(max_examples=150, deadline=None)
@given(first=nodes, second=nodes)
def test_the_distance_is_that_of_apted(first: Node, second: Node) -> None:
    expected = APTED(first, second, ReferenceCosts()).compute_edit_distance()
    assert edit_distance(first, second) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=50, deadline=None)
@given(first=nodes, second=nodes)
def test_the_distance_is_symmetric_and_zero_to_itself(first: Node, second: Node) -> None:
    assert edit_distance(first, second) == pytest.approx(edit_distance(second, first), abs=1e-9)
    assert edit_distance(first, first) == 0.0


def test_a_cell_that_says_half_the_same_costs_half() -> None:
    row = Node("tr", children=[Node("td", "ab"), Node("td", "c")])
    changed = Node("tr", children=[Node("td", "ax"), Node("td", "c")])
    assert edit_distance(row, changed) == 0.5
    assert edit_distance(row, changed, read_texts=False) == 0.0


def test_a_row_of_two_cells_more_costs_three() -> None:
    row = Node("tr", children=[Node("td", "a"), Node("td", "b")])
    table = Node("table", children=[row])
    longer = Node("table", children=[row, Node("tr", children=[Node("td", "c"), Node("td", "d")])])
    assert edit_distance(table, longer) == 3.0
