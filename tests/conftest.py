"""Tests that need what a clone does not carry are left out, and one line says so."""

from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if SHARED_DATA.is_dir():
        return
    left_out = [item for item in items if item.get_closest_marker("shared_data")]
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
        config.stash[_NOTE] = (
            f"{len(left_out)} tests left out: they read public data sets, and {SHARED_DATA} is missing"
        )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if note := config.stash.get(_NOTE, ""):
        terminalreporter.write_line(note)


_NOTE = pytest.StashKey[str]()
