"""A store that is empty, and its first version; a module with another number of shards or documents has its own.

The index waits for the disk after every file; no test can see the difference, and hundreds of small ones would.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag.config import IndexConfig, RagConfig
from rag.index.manifest import Manifest
from rag.index.store import IndexStore
from tests.rag.index.factories import commit, make_config, unit_vectors
from tests.rag.index.two_versions import OLD


@pytest.fixture(autouse=True, scope="package")
def no_waiting_for_the_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def config(tmp_path: Path) -> RagConfig:
    return make_config(tmp_path, IndexConfig(num_shards=2))


@pytest.fixture
def store(config: RagConfig) -> IndexStore:
    return IndexStore(config.index_root)


@pytest.fixture
def first(store: IndexStore, config: RagConfig) -> Manifest:
    return commit(store, OLD, unit_vectors(9), config)
