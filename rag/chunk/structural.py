"""Document -> chunks along its own structure: sections first, then blocks, rows, items, lines and sentences."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rag.chunk.split import Span, split_block, split_evenly, split_sentences, trimmed
from rag.clean.injection import instruction_like
from rag.config import ChunkConfig
from rag.data import BLOCK_SEPARATOR, Block, Chunk, Document, embedded_text
from rag.ids import chunk_id
from rag.protocols import TokenCounter

_SENTENCE_KINDS = frozenset(["paragraph", "title", "heading", "caption", "figure", "header", "footer"])
_MAX_BYTES_A_TOKEN = 12  # prose has 4 to 5: a longer text than this is not even tried as one chunk
_MAX_OVERLAP_SHARE = 1 / 3  # of the budget


@dataclass(frozen=True, slots=True)
class _Placed:
    """A block with its place in the document's text."""

    block: Block
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Section:
    """What stands under one heading, up to the next one; `title` and `headings` stand above each of its chunks."""

    index: int
    title: str
    headings: tuple[str, ...]
    body: tuple[_Placed, ...]


@dataclass(frozen=True, slots=True)
class _Atom:
    """A span that is not cut again."""

    start: int
    end: int
    num_tokens: int  # without special tokens
    placed: _Placed


@dataclass(frozen=True, slots=True)
class _Draft:
    """The span of a chunk to be; its atoms, where it may have to be cut again."""

    section: _Section
    start: int
    end: int
    atoms: tuple[_Atom, ...] = ()


class StructuralChunker:
    """Fills chunks up to the budget within one section; never across sections, never inside a row, item or line
    that fits into a chunk."""

    def __init__(self, config: ChunkConfig, counter: TokenCounter) -> None:
        self._config, self._counter = config, counter
        (self._num_special,) = counter.count([""])

    def chunk(self, document: Document) -> list[Chunk]:
        """The document's chunks in order.

        A chunk's text is document.text[start:end], and its embedded text is within the budget. All text is in some
        chunk or in the heading path of one; a heading that is in no chunk's path gets a chunk.
        """
        text = document.text
        sections = self._sections(document)
        counted = self._whole_sections(text, sections)
        broken = [section for section in sections if section.index not in counted]
        for draft, num_tokens in self._fitting(text, self._pack_all(text, broken)):
            counted.setdefault(draft.section.index, []).append((draft, num_tokens))
        in_order = [pair for section in sections for pair in counted[section.index]]
        return list(_chunks(document, text, in_order))

    # ------------------------------------------------------------ sections

    def _sections(self, document: Document) -> list[_Section]:
        """The sections with something to chunk; a heading is part of the body where no path will hold it."""
        title = self._cut_title(document.metadata.title)
        placed = list(_place(document.blocks))
        groups: list[tuple[tuple[_Placed, ...], list[_Placed]]] = [((), [])]  # heading path, body
        for item in placed:
            if level := _level(item.block):
                path = tuple(above for above in groups[-1][0] if _level(above.block) < level)
                groups.append(((*path, item), []))
            else:
                groups[-1][1].append(item)
        sections: list[_Section] = []
        in_a_path: set[int] = set()  # places of headings
        first = placed[0].start if placed else -1
        for index, (path, body) in reversed(list(enumerate(groups))):
            own = path[-1] if path else None
            said_by_title = own is not None and own.start == first and own.block.text == title and len(placed) > 1
            fitted = self._fit_path(title, path) if body else ()
            in_a_path.update(heading.start for heading in fitted)
            if own and own.start not in in_a_path and not said_by_title:
                body = [own, *body]
                fitted = self._fit_path(title, path[:-1])
                in_a_path.update(heading.start for heading in fitted)
            if body:
                names = tuple(heading.block.text for heading in fitted)
                if names and names[0] == title and fitted[0].start == first:
                    names = names[1:]
                sections.append(_Section(index, title, names, tuple(body)))
        return sections[::-1]

    @property
    def _max_path_tokens(self) -> int:
        return self._config.max_tokens // 2

    def _cut_title(self, title: str) -> str:
        """The title, shortened where it would take more than half of what the path may take."""
        while title and self._is_longer(title, self._max_path_tokens // 2):
            title = title[: len(title) // 2].rstrip()
        return title

    def _fit_path(self, title: str, path: tuple[_Placed, ...]) -> tuple[_Placed, ...]:
        """The innermost headings of the path that leave half of the budget to the text."""
        while path and self._is_longer(_prefix(title, path), self._max_path_tokens):
            path = path[1:]
        return path

    def _is_longer(self, text: str, max_tokens: int) -> bool:
        # No tokenizer makes more tokens than there are bytes, so most texts need no count.
        if len(text.encode("utf-8", "replace")) + self._num_special <= max_tokens:
            return False
        return self._counter.count([text])[0] > max_tokens

    # ------------------------------------------------------------ spans

    def _whole_sections(self, text: str, sections: Sequence[_Section]) -> dict[int, list[tuple[_Draft, int]]]:
        """The sections that fit into one chunk, each with its count."""
        limit = _MAX_BYTES_A_TOKEN * self._config.max_tokens
        drafts = [
            _Draft(section, *span)
            for section in sections
            if (span := trimmed(text, section.body[0].start, section.body[-1].end)) and span[1] - span[0] <= limit
        ]
        counts = self._count_drafts(text, drafts)
        return {
            draft.section.index: [(draft, num_tokens)]
            for draft, num_tokens in zip(drafts, counts, strict=True)
            if num_tokens <= self._config.max_tokens
        }

    def _count_drafts(self, text: str, drafts: Sequence[_Draft]) -> list[int]:
        if not drafts:
            return []
        return self._counter.count(
            [embedded_text(d.section.title, d.section.headings, text[d.start : d.end]) for d in drafts]
        )

    def _pack_all(self, text: str, sections: Sequence[_Section]) -> list[_Draft]:
        """The sections cut into drafts that should fit, if tokens of neighbours add up."""
        if not sections:
            return []
        prefixes = self._counter.count([embedded_text(s.title, s.headings, "") for s in sections])
        budgets = [self._config.max_tokens - num_tokens for num_tokens in prefixes]
        spans = [(at, item, span) for at, s in enumerate(sections) for item in s.body for span in _spans_of(item)]
        atoms: list[list[_Atom]] = [[] for _ in sections]
        while spans:
            counts = self._counter.count([text[start:end] for _, _, (start, end) in spans])
            uncut: list[tuple[int, _Placed, Span]] = []
            for (at, item, (start, end)), count in zip(spans, counts, strict=True):
                num_tokens = count - self._num_special
                if num_tokens <= budgets[at] or end - start <= 1:
                    atoms[at].append(_Atom(start, end, num_tokens, item))
                else:
                    uncut += ((at, item, piece) for piece in _cut(text, start, end, num_tokens, budgets[at]))
            spans = uncut
        drafts: list[_Draft] = []
        for section, found, budget in zip(sections, atoms, budgets, strict=True):
            drafts += self._pack(section, sorted(found, key=lambda atom: atom.start), budget)
        return drafts

    def _pack(self, section: _Section, atoms: Sequence[_Atom], budget: int) -> Iterator[_Draft]:
        """Atoms in drafts, filled in order. A block that fits into a draft of its own is cut only to bring the draft
        before it up to the least size."""
        held: list[_Atom] = []
        at = 0
        while at < len(atoms):
            block_end = at
            while block_end < len(atoms) and atoms[block_end].placed is atoms[at].placed:
                block_end += 1
            used = _sum_tokens(held)
            whole = _sum_tokens(atoms[at:block_end])
            if used + whole <= budget:
                held += atoms[at:block_end]
                at = block_end
            elif (
                held and held[-1].placed is not atoms[at].placed and used >= self._config.min_tokens and whole <= budget
            ):
                yield _draft(section, held)
                held = []
            elif used + atoms[at].num_tokens <= budget:
                held.append(atoms[at])
                at += 1
            else:
                yield _draft(section, held)
                held = self._overlap(held, atoms[at], budget)
        if held:
            yield _draft(section, held)

    def _overlap(self, held: Sequence[_Atom], following: _Atom, budget: int) -> list[_Atom]:
        """The last sentences of a draft that the next one repeats, where a paragraph is cut between the two."""
        num = self._config.overlap_sentences
        if not num or following.placed.block.kind not in _SENTENCE_KINDS:
            return []
        repeated = list(held[-num:]) if len(held) > num else []
        repeated = [atom for atom in repeated if atom.placed is following.placed]
        size = _sum_tokens(repeated)
        fits = size <= budget * _MAX_OVERLAP_SHARE and size + following.num_tokens <= budget
        return repeated if fits else []

    def _fitting(self, text: str, drafts: Sequence[_Draft]) -> list[tuple[_Draft, int]]:
        """The drafts with their counts, in order; any that is too long after all is halved until it is not.

        It comes to this with tokenizers whose counts do not add up over neighbours.
        """
        done: list[tuple[_Draft, int]] = []
        waiting = list(drafts)
        while waiting:
            halved: list[_Draft] = []
            for draft, num_tokens in zip(waiting, self._count_drafts(text, waiting), strict=True):
                if num_tokens <= self._config.max_tokens or draft.end - draft.start <= 1:
                    done.append((draft, num_tokens))
                else:
                    halved += _halves(text, draft)
            waiting = halved
        return sorted(done, key=lambda pair: (pair[0].start, pair[0].end))


def _place(blocks: Sequence[Block]) -> Iterator[_Placed]:
    """The blocks that hold text, with their places in the document's text."""
    start = 0
    for block in blocks:
        if block.text.strip():
            yield _Placed(block, start, start + len(block.text))
        start += len(block.text) + len(BLOCK_SEPARATOR)


def _level(block: Block) -> int:
    """The level of a heading, 0 for every other block."""
    return max(block.level, 1) if block.kind in ("heading", "title") else 0


def _prefix(title: str, path: Sequence[_Placed]) -> str:
    return embedded_text(title, tuple(heading.block.text for heading in path), "")


def _spans_of(item: _Placed) -> Iterator[Span]:
    return ((item.start + start, item.start + end) for start, end in split_block(item.block.kind, item.block.text))


def _cut(text: str, start: int, end: int, num_tokens: int, budget: int) -> list[Span]:
    """A row, item, line or sentence that is larger than a chunk, in sentences, else in runs of words."""
    sentences = split_sentences(text, start, end)
    return sentences if len(sentences) > 1 else split_evenly(text, start, end, max(2, -(-num_tokens // max(budget, 1))))


def _sum_tokens(atoms: Sequence[_Atom]) -> int:
    return sum(atom.num_tokens for atom in atoms)


def _draft(section: _Section, atoms: Sequence[_Atom]) -> _Draft:
    return _Draft(section, atoms[0].start, atoms[-1].end, tuple(atoms))


def _halves(text: str, draft: _Draft) -> list[_Draft]:
    middle = len(draft.atoms) // 2
    if middle:
        return [_draft(draft.section, draft.atoms[:middle]), _draft(draft.section, draft.atoms[middle:])]
    return [_Draft(draft.section, start, end) for start, end in split_evenly(text, draft.start, draft.end, 2)]


def _chunks(document: Document, text: str, drafts: Sequence[tuple[_Draft, int]]) -> Iterator[Chunk]:
    occurrences: Counter[str] = Counter()
    metadata = document.metadata
    for ordinal, (draft, num_tokens) in enumerate(drafts):
        section = draft.section
        span = text[draft.start : draft.end]
        embedded = embedded_text(section.title, section.headings, span)
        occurrence = occurrences[embedded]
        occurrences[embedded] += 1
        covered = (item for item in section.body if item.start < draft.end and item.end > draft.start)
        yield Chunk(
            id=chunk_id(document.id, embedded, occurrence),
            document_id=document.id,
            ordinal=ordinal,
            section=section.index,
            text=span,
            start=draft.start,
            end=draft.end,
            headings=section.headings,
            regions=tuple(dict.fromkeys(item.block.region for item in covered if item.block.region)),
            num_tokens=num_tokens,
            metadata=metadata if metadata.title == section.title else replace(metadata, title=section.title),
            flags=("instruction_like",) if instruction_like(span) else (),
        )
