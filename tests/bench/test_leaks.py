from pathlib import Path

import numpy as np
import pytest

from bench.leaks import Kind, build_world, hunt
from rag.data import Principal
from rag.index.access import AccessTable


@pytest.mark.parametrize("kind", ["flat", "ivf_pq", "hnsw"])
def test_nobody_is_shown_what_they_may_not_read(tmp_path: Path, kind: Kind) -> None:
    world = build_world(tmp_path, kind, seed=3)
    checks = list(hunt(world, 250, np.random.default_rng(5)))
    assert [leak for leak, _ in checks if leak is not None] == []
    assert sum(counts["ids by dense"] for _, counts in checks) > 500
    assert sum(counts["ids by fetch"] for _, counts in checks) > 5


def test_a_leak_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = build_world(tmp_path, "flat", seed=3)
    allowed = AccessTable.allowed_rows

    def of_the_other_tenant(self: AccessTable, principal: Principal) -> object:
        return allowed(self, Principal("", "acme", principal.groups))

    monkeypatch.setattr(AccessTable, "allowed_rows", of_the_other_tenant)
    assert any(leak is not None for leak, _ in hunt(world, 60, np.random.default_rng(5)))
