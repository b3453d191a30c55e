"""Document -> chunks that end where the subject changes: where neighbouring sentences are less alike than usual."""

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from rag.chunk.section_chunker import Atom, Draft, FlagText, SectionAtoms, SectionChunker, draft_of, sum_tokens
from rag.config import ChunkConfig
from rag.data import Vectors
from rag.protocols import Embedder, TokenCounter

_UNITS = ("table", "code", "list")  # blocks of which the encoder sees the whole, as one
_NEIGHBOURS = 1  # sentences on either side that are read with one: a single one says too little


class SemanticChunker(SectionChunker):
    """Sentences of a section go together until the next ones are about something else, or the budget is used up.

    Each sentence is embedded with its neighbours; a chunk ends where the similarity of two adjacent windows falls more
    than `semantic_drop` standard deviations below the mean of the section, if the chunk has its least size by then.
    Sections of two units or fewer are not cut for their subject.
    """

    whole_sections = False

    def __init__(self, config: ChunkConfig, counter: TokenCounter, flags: FlagText, embedder: Embedder) -> None:
        super().__init__(config.max_tokens, counter, flags)
        self._min_tokens, self._drop, self._embedder = config.min_tokens, config.semantic_drop, embedder

    def pack(self, text: str, parts: Sequence[SectionAtoms]) -> list[Draft]:
        units = [list(_units(part.atoms)) for part in parts]
        windows = [_window(text, found, at) for found in units for at in range(len(found))]
        vectors = self._embedder.embed_passages(windows) if windows else np.empty((0, 0), np.float32)
        drafts: list[Draft] = []
        start = 0
        for part, found in zip(parts, units, strict=True):
            ends = self._subject_ends(vectors[start : start + len(found)])
            drafts += (draft_of(part.section, atoms) for atoms in self._groups(part, found, ends))
            start += len(found)
        return drafts

    def _subject_ends(self, vectors: Vectors) -> frozenset[int]:
        """The units, by place, behind which the subject changes."""
        if len(vectors) < 3:
            return frozenset()
        similarities = np.einsum("ij,ij->i", vectors[:-1], vectors[1:])
        limit = float(similarities.mean() - self._drop * similarities.std())
        return frozenset(np.flatnonzero(similarities < limit).tolist())

    def _groups(
        self, part: SectionAtoms, units: Sequence[Sequence[Atom]], ends: frozenset[int]
    ) -> Iterator[list[Atom]]:
        held: list[Atom] = []
        for place, unit in enumerate(units):
            whole = sum_tokens(unit) <= part.budget
            if held and whole and sum_tokens([*held, *unit]) > part.budget and sum_tokens(held) >= self._min_tokens:
                yield held
                held = []
            for atom in unit:
                if held and sum_tokens([*held, atom]) > part.budget:
                    yield held
                    held = []
                held.append(atom)
            if place in ends and sum_tokens(held) >= self._min_tokens:
                yield held
                held = []
        if held:
            yield held


def _units(atoms: Sequence[Atom]) -> Iterator[list[Atom]]:
    """The atoms as the encoder sees them: sentence by sentence, but a table, list or code as one."""
    for _, group in groupby(atoms, key=lambda atom: id(atom.placed)):
        block = list(group)
        if block[0].placed.block.kind in _UNITS:
            yield block
        else:
            yield from ([atom] for atom in block)


def _window(text: str, units: Sequence[Sequence[Atom]], at: int) -> str:
    """The unit with its neighbours, as one text."""
    near = units[max(at - _NEIGHBOURS, 0) : at + _NEIGHBOURS + 1]
    return text[near[0][0].start : near[-1][-1].end]
