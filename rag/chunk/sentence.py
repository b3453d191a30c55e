"""Document -> chunks of whole sentences, as many as fit, with the last ones repeated."""

from collections.abc import Iterator, Sequence

from rag.chunk.section_chunker import Atom, Draft, FlagText, SectionAtoms, SectionChunker, draft_of, sum_tokens
from rag.config import ChunkConfig
from rag.protocols import TokenCounter


class SentenceChunker(SectionChunker):
    """Sentences, rows, items and statements of a section in order, whatever blocks they stand in."""

    def __init__(self, config: ChunkConfig, counter: TokenCounter, flags: FlagText) -> None:
        super().__init__(config.max_tokens, counter, flags)
        self._overlap_sentences = config.overlap_sentences

    def pack(self, text: str, parts: Sequence[SectionAtoms]) -> list[Draft]:
        return [draft_of(part.section, atoms) for part in parts for atoms in self._groups(part)]

    def _groups(self, part: SectionAtoms) -> Iterator[list[Atom]]:
        held: list[Atom] = []
        for atom in part.atoms:
            if held and sum_tokens([*held, atom]) > part.budget:
                yield held
                held = self._repeated(held, atom, part.budget)
            held.append(atom)
        if held:
            yield held

    def _repeated(self, held: Sequence[Atom], following: Atom, budget: int) -> list[Atom]:
        """As many of the last sentences as the next chunk repeats and has room for, never all of them."""
        for num in range(min(self._overlap_sentences, len(held) - 1), 0, -1):
            repeated = list(held[-num:])
            if sum_tokens([*repeated, following]) <= budget:
                return repeated
        return []
