"""Document -> windows of a fixed number of tokens that overlap by a fixed number, wherever sentences end."""

import re
from collections.abc import Iterator, Sequence

from rag.chunk.pieces import Piece, pieces_of
from rag.chunk.section_chunker import Atom, Draft, FlagText, SectionAtoms, SectionChunker, draft_of, sum_tokens
from rag.chunk.sections import Placed
from rag.config import ChunkConfig
from rag.protocols import TokenCounter

_WORDS = re.compile(r"\S+(?:\s+\S+){0,3}")  # a step of four words: counts are per step, and a window ends within one


class WindowChunker(SectionChunker):
    """Windows over each section, as long as the budget lets them be; rows, items and statements stay whole."""

    whole_sections = False

    def __init__(self, config: ChunkConfig, counter: TokenCounter, flags: FlagText) -> None:
        super().__init__(config.max_tokens, counter, flags)
        self._overlap_tokens = config.overlap_tokens

    def cut_block(self, placed: Placed) -> list[Piece]:
        block = placed.block
        if block.kind in ("table", "list", "code"):
            return pieces_of(block)
        return [Piece(match.start(), match.end()) for match in _WORDS.finditer(block.text)]

    def pack(self, text: str, parts: Sequence[SectionAtoms]) -> list[Draft]:
        return [draft_of(part.section, atoms) for part in parts for atoms in self._windows(part)]

    def _windows(self, part: SectionAtoms) -> Iterator[Sequence[Atom]]:
        start = end = 0
        while end < len(part.atoms):
            before = end
            while end < len(part.atoms) and (end == before or sum_tokens(part.atoms[start : end + 1]) <= part.budget):
                end += 1
            yield part.atoms[start:end]
            start = self._overlap_start(part, start + 1, end)

    def _overlap_start(self, part: SectionAtoms, first: int, end: int) -> int:
        """Where the next window begins, from `first` on: as far back as the overlap reaches and the next atom fits."""
        start = end
        while first < start and end < len(part.atoms):
            repeated = part.atoms[start - 1 : end]
            if sum_tokens(repeated) > self._overlap_tokens or sum_tokens([*repeated, part.atoms[end]]) > part.budget:
                break
            start -= 1
        return start
