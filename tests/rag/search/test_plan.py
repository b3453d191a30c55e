import pytest

from rag.config import PlanConfig
from rag.search.plan import DensePlan, plan_dense

CONFIG = PlanConfig(exact_rows=100, exact_share=0.1, exact_share_hnsw=0.3)


@pytest.mark.parametrize(
    ("num_allowed", "plan"),
    [
        (0, DensePlan("nothing")),
        (1, DensePlan("exact")),
        (1_000, DensePlan("exact")),
        (1_250, DensePlan("widened", 8.0)),
        (5_000, DensePlan("widened", 2.0)),
        (9_900, DensePlan("ann")),
        (10_000, DensePlan("ann")),
    ],
)
def test_few_rows_are_scored_one_by_one_and_the_search_widens_with_what_is_masked(
    num_allowed: int, plan: DensePlan
) -> None:
    assert plan_dense(10_000, num_allowed, "ivf_flat", CONFIG) == plan


def test_a_few_rows_are_few_whatever_share_they_are() -> None:
    assert plan_dense(120, 100, "ivf_pq", CONFIG).strategy == "exact"
    assert plan_dense(120, 101, "ivf_pq", CONFIG).strategy == "widened"


def test_without_an_ann_structure_everything_is_exact() -> None:
    assert {plan_dense(10_000, count, "flat", CONFIG).strategy for count in (1, 5_000, 10_000)} == {"exact"}


def test_beside_a_graph_more_rows_are_few() -> None:
    assert plan_dense(10_000, 3_000, "ivf_flat", CONFIG).strategy == "widened"
    assert plan_dense(10_000, 3_000, "hnsw", CONFIG).strategy == "exact"
    assert plan_dense(10_000, 3_001, "hnsw", CONFIG).strategy == "widened"
