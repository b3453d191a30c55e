"""Index lag: how long after a source changed its new content could be found."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rag.data import SourceObject


def modified_at(source: SourceObject) -> float | None:
    """When the source's file was changed last, in seconds since 1970; None where it can't be looked up from here."""
    try:
        return Path(source.path).stat().st_mtime
    except OSError:
        return None


def lag_note(changed_at: Sequence[float], now: float | None = None) -> dict[str, float]:
    """What the history keeps of a publication: median, 95th percentile and maximum lag of the changed sources, in
    seconds. Empty where none changed."""
    if not changed_at:
        return {}
    lags = (time.time() if now is None else now) - np.asarray(changed_at)
    names = {"lag_p50_s": 50, "lag_p95_s": 95, "lag_max_s": 100}
    return {name: round(float(np.percentile(lags, q)), 3) for name, q in names.items()} | {"changed": len(changed_at)}
