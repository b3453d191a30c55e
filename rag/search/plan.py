"""How the dense leg of one segment is searched for one caller: decided by how many rows the caller may read.

Permissions follow topics, and most questions come from outside of the few topics that a caller may read. A plain
filtered IVF or HNSW looks around the question, where none of those rows are, and finds next to nothing. Few rows are
therefore scored one by one, which is exact and fast; more are left to the backend, which widens its search until it has
seen enough of them, and says so when it has not.
"""

from dataclasses import dataclass
from typing import Literal

from rag.config import DenseKind, PlanConfig

Strategy = Literal["nothing", "exact", "ann", "widened"]

_NEARLY_ALL = 0.98  # of the rows: a search as for all of them loses nothing


@dataclass(frozen=True, slots=True)
class DensePlan:
    """What to do, and how many times as wide as without a mask the backend has to look for as many allowed rows."""

    strategy: Strategy
    widening: float = 1.0


def plan_dense(num_rows: int, num_allowed: int, kind: DenseKind, config: PlanConfig) -> DensePlan:
    """The plan for a segment of `num_rows`, `num_allowed` of which may be found, with a structure of that kind."""
    if num_allowed == 0:
        return DensePlan("nothing")
    share = num_allowed / num_rows
    exact_share = config.exact_share_hnsw if kind == "hnsw" else config.exact_share
    if kind == "flat" or num_allowed <= config.exact_rows or share <= exact_share:
        return DensePlan("exact")
    return DensePlan("ann") if share >= _NEARLY_ALL else DensePlan("widened", 1.0 / share)
