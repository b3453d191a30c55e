"""Three documents, and the version after them in which one was written anew."""

from rag.config import RagConfig
from rag.ids import document_id
from rag.index.manifest import Manifest
from rag.index.store import IndexStore
from tests.rag.index.factories import TENANT, commit, make_chunk, unit_vectors

OLD = [make_chunk(f"page {n} of {uri}", uri=uri, ordinal=n) for uri in ("a", "b", "c") for n in range(3)]
A = document_id(TENANT, "a")
NEW_A = [make_chunk("rewritten", uri="a")]
KEPT = [chunk for chunk in OLD if chunk.document_id != A]


def second_version(store: IndexStore, config: RagConfig, first: Manifest) -> Manifest:
    return commit(store, NEW_A, unit_vectors(1, seed=1), config, parent=first.version, removed=[A], kept=KEPT)
