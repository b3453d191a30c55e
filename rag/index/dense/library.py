"""faiss without its stubs: they show the constructors of C++, not the Python wrappers that are called here."""

from typing import Any, TypeAlias

import faiss as _faiss

faiss: Any = _faiss
FaissIndex: TypeAlias = Any  # any class of index, with the methods of its Python wrapper
