"""Document -> chunks along its own structure: sections first, then blocks, rows, items, statements and sentences."""

from collections.abc import Iterator, Sequence

from rag.chunk.section_chunker import Atom, Draft, FlagText, SectionAtoms, SectionChunker, draft_of, sum_tokens
from rag.config import ChunkConfig
from rag.protocols import TokenCounter

_SENTENCE_KINDS = frozenset(["paragraph", "title", "heading", "caption", "figure", "header", "footer"])
_MAX_OVERLAP_SHARE = 1 / 3  # of the budget


class StructuralChunker(SectionChunker):
    """Fills chunks up to the budget within one section; never across sections, never inside a row, item or statement
    that fits into a chunk."""

    def __init__(self, config: ChunkConfig, counter: TokenCounter, flags: FlagText) -> None:
        super().__init__(config.max_tokens, counter, flags)
        self._min_tokens, self._overlap_sentences = config.min_tokens, config.overlap_sentences

    def pack(self, text: str, parts: Sequence[SectionAtoms]) -> list[Draft]:
        return [
            draft_of(part.section, atoms)
            for part in parts
            for atoms in pack_blocks(part.atoms, part.budget, self._min_tokens, self._overlap_sentences)
        ]


def pack_blocks(atoms: Sequence[Atom], budget: int, min_tokens: int, overlap_sentences: int) -> Iterator[list[Atom]]:
    """The atoms of one section in groups within the budget, filled in order.

    A block that fits into a group of its own is cut only to bring the group before it up to `min_tokens`. Where a
    paragraph is cut, the next group repeats the last sentences.
    """
    held: list[Atom] = []
    at = 0
    while at < len(atoms):
        block_end = at
        while block_end < len(atoms) and atoms[block_end].placed is atoms[at].placed:
            block_end += 1
        block = atoms[at:block_end]
        if sum_tokens([*held, *block]) <= budget:
            held += block
            at = block_end
        elif (
            held
            and held[-1].placed is not atoms[at].placed
            and sum_tokens(held) >= min_tokens
            and sum_tokens(block) <= budget
        ):
            yield held
            held = []
        elif not held or sum_tokens([*held, atoms[at]]) <= budget:
            held.append(atoms[at])
            at += 1
        else:
            yield held
            held = _overlap(held, atoms[at], budget, overlap_sentences)
    if held:
        yield held


def _overlap(held: Sequence[Atom], following: Atom, budget: int, num: int) -> list[Atom]:
    """The last sentences of a group that the next one repeats, where a paragraph is cut between the two."""
    if not num or following.placed.block.kind not in _SENTENCE_KINDS:
        return []
    repeated = list(held[-num:]) if len(held) > num else []
    repeated = [atom for atom in repeated if atom.placed is following.placed]
    size = sum_tokens(repeated)
    fits = size <= budget * _MAX_OVERLAP_SHARE and size + following.num_tokens <= budget
    return repeated if fits else []
