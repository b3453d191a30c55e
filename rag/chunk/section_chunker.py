"""What all chunkers share: sections, pieces with their token counts, and chunks made of the spans that a chunker
chose. A chunker says which pieces of a section go together."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from rag.chunk.pieces import Piece, cut_piece, pieces_of
from rag.chunk.sections import Placed, Section, find_sections
from rag.chunk.split import Span, split_evenly, trimmed
from rag.chunk.tokens import TokenBudget
from rag.data import Chunk, Document, embedded_text
from rag.ids import chunk_id
from rag.protocols import TokenCounter

FlagText = Callable[[str], tuple[str, ...]]

_MAX_BYTES_A_TOKEN = 12  # prose has 4 to 5: a longer text than this is not even tried as one chunk
_MAX_CONTEXT_SHARE = 0.5  # of the budget that is left beside title and path


@dataclass(frozen=True, slots=True)
class Atom:
    """A span that is not cut again, and what stands above it where it begins a chunk."""

    start: int
    end: int
    num_tokens: int  # without special tokens
    placed: Placed
    context: str = ""
    context_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Draft:
    """The span of a chunk to be; its atoms, where it may have to be cut again."""

    section: Section
    start: int
    end: int
    context: str = ""
    atoms: tuple[Atom, ...] = ()
    parent: Span | None = None


@dataclass(frozen=True, slots=True)
class SectionAtoms:
    """A section taken apart, and the tokens that a chunk of it may hold beside title and path."""

    section: Section
    atoms: tuple[Atom, ...]
    budget: int


class SectionChunker(ABC):
    """A chunker whose chunks never reach over a heading: so an edit in one section keeps the chunks of the others."""

    whole_sections = True  # a section that fits into one chunk is one

    def __init__(self, max_tokens: int, counter: TokenCounter, flags: FlagText) -> None:
        self._flags = flags
        self.budget = TokenBudget(counter, max_tokens)

    @abstractmethod
    def pack(self, text: str, parts: Sequence[SectionAtoms]) -> list[Draft]:
        """The sections' atoms as drafts in order, together covering them all."""

    def cut_block(self, placed: Placed) -> list[Piece]:
        """The pieces of a block that are atoms if they fit into a chunk."""
        return pieces_of(placed.block)

    def chunk(self, document: Document) -> list[Chunk]:
        """The document's chunks in order.

        A chunk's text is document.text[start:end], and its embedded text is within the budget. All text is in some
        chunk or in the heading path of one; a heading that is in no chunk's path gets a chunk.
        """
        text = document.text
        sections = find_sections(document, self.budget)
        counted = self._whole(text, sections) if self.whole_sections else {}
        parts = self._take_apart(text, [section for section in sections if section.index not in counted])
        for draft, num_tokens in self._fitting(text, self.pack(text, parts)):
            counted.setdefault(draft.section.index, []).append((draft, num_tokens))
        in_order = [pair for section in sections for pair in counted[section.index]]
        return list(self._chunks(document, text, in_order))

    def _whole(self, text: str, sections: Sequence[Section]) -> dict[int, list[tuple[Draft, int]]]:
        """The sections that fit into one chunk, each with its count."""
        limit = _MAX_BYTES_A_TOKEN * self.budget.max_tokens
        drafts = [
            Draft(section, *span)
            for section in sections
            if (span := trimmed(text, section.body[0].start, section.body[-1].end)) and span[1] - span[0] <= limit
        ]
        return {
            draft.section.index: [(draft, num_tokens)]
            for draft, num_tokens in zip(drafts, self._count(text, drafts), strict=True)
            if num_tokens <= self.budget.max_tokens
        }

    def _count(self, text: str, drafts: Sequence[Draft]) -> list[int]:
        return self.budget.count([_embedded(text, draft) for draft in drafts])

    def _take_apart(self, text: str, sections: Sequence[Section]) -> list[SectionAtoms]:
        """The sections' atoms, each small enough for a chunk of its own."""
        prefixes = self.budget.count([embedded_text(s.title, s.headings, "") for s in sections])
        budgets = [self.budget.max_tokens - num_tokens for num_tokens in prefixes]
        waiting = [
            (at, item, piece) for at, s in enumerate(sections) for item in s.body for piece in self.cut_block(item)
        ]
        contexts = list(dict.fromkeys(piece.context for _, _, piece in waiting if piece.context))
        tokens_of = {"": 0} | dict(zip(contexts, self.budget.count(contexts), strict=True))
        found: list[list[Atom]] = [[] for _ in sections]
        while waiting:
            counts = self.budget.count([text[i.start + p.start : i.start + p.end] for _, i, p in waiting])
            uncut: list[tuple[int, Placed, Piece]] = []
            for (at, item, piece), count in zip(waiting, counts, strict=True):
                num_tokens = count - self.budget.num_special
                context, context_tokens = self._context(piece.context, budgets[at], tokens_of)
                if num_tokens <= budgets[at] - context_tokens or piece.end - piece.start <= 1:
                    start, end = item.start + piece.start, item.start + piece.end
                    found[at].append(Atom(start, end, num_tokens, item, context, context_tokens))
                else:
                    num_pieces = -(-num_tokens // max(budgets[at] - context_tokens, 1))
                    uncut += ((at, item, smaller) for smaller in cut_piece(item.block, piece, num_pieces))
            waiting = uncut
        return [
            SectionAtoms(section, tuple(sorted(atoms, key=lambda atom: atom.start)), budget)
            for section, atoms, budget in zip(sections, found, budgets, strict=True)
        ]

    def _context(self, context: str, budget: int, tokens_of: dict[str, int]) -> tuple[str, int]:
        """As much of the beginning of the context, by lines, as leaves room for the text, and its tokens."""
        while context:
            if context not in tokens_of:
                (tokens_of[context],) = self.budget.count([context])
            if tokens_of[context] <= budget * _MAX_CONTEXT_SHARE:
                return context, tokens_of[context]
            context = context.rpartition("\n")[0]
        return "", 0

    def _fitting(self, text: str, drafts: Sequence[Draft]) -> list[tuple[Draft, int]]:
        """The drafts with their counts, in order; any that is too long after all is halved until it is not.

        It comes to this with tokenizers whose counts do not add up over neighbours.
        """
        done: list[tuple[Draft, int]] = []
        waiting = list(drafts)
        while waiting:
            halved: list[Draft] = []
            for draft, num_tokens in zip(waiting, self._count(text, waiting), strict=True):
                if num_tokens <= self.budget.max_tokens or (draft.end - draft.start <= 1 and not draft.context):
                    done.append((draft, num_tokens))
                else:
                    halved += _halves(text, draft)
            waiting = halved
        return sorted(done, key=lambda pair: (pair[0].start, pair[0].end))

    def _chunks(self, document: Document, text: str, drafts: Sequence[tuple[Draft, int]]) -> Iterator[Chunk]:
        occurrences: Counter[str] = Counter()
        metadata = document.metadata
        for ordinal, (draft, num_tokens) in enumerate(drafts):
            section = draft.section
            embedded = _embedded(text, draft)
            occurrence = occurrences[embedded]
            occurrences[embedded] += 1
            covered = (item for item in section.body if item.start < draft.end and item.end > draft.start)
            yield Chunk(
                id=chunk_id(document.id, embedded, occurrence),
                document_id=document.id,
                ordinal=ordinal,
                section=section.index,
                text=text[draft.start : draft.end],
                start=draft.start,
                end=draft.end,
                headings=section.headings,
                regions=tuple(dict.fromkeys(item.block.region for item in covered if item.block.region)),
                num_tokens=num_tokens,
                metadata=metadata if metadata.title == section.title else replace(metadata, title=section.title),
                flags=(*self._flags(text[draft.start : draft.end]), *document.flags),
                context=draft.context,
                parent=draft.parent,
            )


def draft_of(section: Section, atoms: Sequence[Atom], parent: Span | None = None) -> Draft:
    """The draft that the atoms make, with what stands above the first of them."""
    return Draft(section, atoms[0].start, atoms[-1].end, atoms[0].context, tuple(atoms), parent)


def sum_tokens(atoms: Sequence[Atom]) -> int:
    """The tokens of the atoms in one draft, which begins with what stands above the first of them."""
    return atoms[0].context_tokens + sum(atom.num_tokens for atom in atoms) if atoms else 0


def _embedded(text: str, draft: Draft) -> str:
    return embedded_text(draft.section.title, draft.section.headings, text[draft.start : draft.end], draft.context)


def _halves(text: str, draft: Draft) -> list[Draft]:
    middle = len(draft.atoms) // 2
    if middle:
        return [draft_of(draft.section, half, draft.parent) for half in (draft.atoms[:middle], draft.atoms[middle:])]
    if draft.context:  # rather the text whole than what stands above it
        return [replace(draft, context=draft.context.rpartition("\n")[0])]
    pieces = split_evenly(text, draft.start, draft.end, 2)
    return [Draft(draft.section, start, end, parent=draft.parent) for start, end in pieces]
