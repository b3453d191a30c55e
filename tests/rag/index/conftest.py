"""The index waits for the disk after every file; no test can see the difference, and hundreds of small ones would."""

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="package")
def no_waiting_for_the_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield
