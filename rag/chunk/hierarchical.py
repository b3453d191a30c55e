"""Document -> small chunks to search, each with the span of the larger parent that is prompted in its place."""

from collections.abc import Iterator, Sequence

from rag.chunk.section_chunker import Atom, Draft, FlagText, SectionAtoms, SectionChunker, draft_of, sum_tokens
from rag.chunk.structural import pack_blocks
from rag.config import ChunkConfig
from rag.protocols import TokenCounter


class HierarchicalChunker(SectionChunker):
    """Parents are filled as the structural chunker fills chunks; their children are runs of their sentences, rows and
    items. All text of a parent is in its children, so a prompt can put it together again."""

    whole_sections = False

    def __init__(self, config: ChunkConfig, counter: TokenCounter, flags: FlagText) -> None:
        super().__init__(min(config.child_tokens, config.max_tokens), counter, flags)
        self._parent_tokens, self._min_tokens = config.parent_tokens, config.min_tokens

    def pack(self, text: str, parts: Sequence[SectionAtoms]) -> list[Draft]:
        drafts: list[Draft] = []
        for part in parts:
            for members in pack_blocks(part.atoms, max(self._parent_tokens, part.budget), self._min_tokens, 0):
                span = members[0].start, members[-1].end
                drafts += (draft_of(part.section, atoms, span) for atoms in _children(members, part.budget))
        return drafts


def _children(atoms: Sequence[Atom], budget: int) -> Iterator[list[Atom]]:
    held: list[Atom] = []
    for atom in atoms:
        if held and sum_tokens([*held, atom]) > budget:
            yield held
            held = []
        held.append(atom)
    if held:
        yield held
