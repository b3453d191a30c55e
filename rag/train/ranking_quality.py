"""How well questions rank their own passage among the others, while a model is trained."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean


@dataclass(frozen=True, slots=True)
class RankingQuality:
    """How well the positives rank among their candidates; a tie counts against them."""

    mrr: float
    hit_at_1: float

    def to_json(self) -> dict[str, float]:
        return {"mrr": round(self.mrr, 4), "hit_at_1": round(self.hit_at_1, 4)}


def ranking_quality(scores: Sequence[Sequence[float]]) -> RankingQuality:
    """The quality of rankings by these scores, the positive's in place 0 of each."""
    ranks = [1 + sum(score >= row[0] for score in row[1:]) for row in scores]
    return RankingQuality(mrr=fmean(1 / rank for rank in ranks), hit_at_1=fmean(rank == 1 for rank in ranks))
