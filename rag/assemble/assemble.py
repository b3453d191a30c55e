"""Ranked chunks -> the numbered passages of a prompt, within its token budget."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rag.assemble.budget import CountTokens, cut_to_budget
from rag.assemble.dedupe import without_near_duplicates
from rag.assemble.stitch import same_section, stitch
from rag.config import AssembleConfig
from rag.data import Chunk, Passage
from rag.ids import ChunkId

_MAX_SIBLINGS = 64  # no budget of a prompt holds more children of one parent on either side


@dataclass(frozen=True, slots=True)
class Assembly:
    """The passages of a prompt, strongest first, and what did not become one."""

    passages: tuple[Passage, ...]
    num_dropped: int = 0  # ranked chunks that the token budget left out
    num_cut: int = 0  # passages that were cut at a sentence to fit the budget
    num_duplicates: int = 0  # ranked chunks that repeat a better one


@dataclass(slots=True)
class _Group:
    """One passage in the making: a stretch of one section, and what of it the budget has let in."""

    first: Chunk
    low: int  # ordinals of the stretch
    high: int
    neighbours: list[Chunk] = field(default_factory=list)  # chunks of the stretch that are not ranked themselves
    chosen: list[Chunk] = field(default_factory=list)  # the best ranked one first
    score: float = 0.0
    num_tokens: int = 0

    def reaches(self, chunk: Chunk) -> bool:
        return same_section(self.first, chunk) and self.low <= chunk.ordinal <= self.high

    def extend(self, ordinal: int) -> None:
        self.low, self.high = min(self.low, ordinal), max(self.high, ordinal)

    def admit(self, chunk: Chunk, left: int, count_tokens: CountTokens) -> int | None:
        """Takes the chunk in if the longer text fits; what is then left of the budget, None if it does not fit."""
        num_tokens = count_tokens([stitch([*self.chosen, chunk])])[0]
        if num_tokens - self.num_tokens > left:
            return None
        left -= num_tokens - self.num_tokens
        self.chosen.append(chunk)
        self.num_tokens = num_tokens
        return left


def assemble(
    ranked: Sequence[tuple[Chunk, float]],
    neighbourhood: Sequence[Chunk],
    count_tokens: CountTokens,
    config: AssembleConfig,
    k_passages: int,
) -> Assembly:
    """At most `k_passages` passages numbered from 1, strongest first, together within `config.budget_tokens`.

    `ranked` is best first. A passage is a ranked chunk, stitched to chunks of `neighbourhood` that stand beside it in
    its section, or to the others of its parent; ranked chunks in one such stretch become one passage. When tokens run
    short, neighbours are given up first, then the weakest ranked chunks; only a best chunk that is too long by itself
    is cut.
    """
    distinct = without_near_duplicates(ranked, config.max_similarity)
    num_duplicates = len(ranked) - len(distinct)
    placed = _place(distinct, neighbourhood, config, k_passages)

    kept: list[_Group] = []
    left = config.budget_tokens
    for rank, (group, chunk, score) in enumerate(placed):
        now_left = group.admit(chunk, left, count_tokens)
        if now_left is None and rank == 0:  # a weaker whole passage would be no better evidence than its beginning
            text = cut_to_budget(stitch([chunk]), config.budget_tokens, count_tokens)
            only = Passage(1, chunk, text, score)
            return Assembly((only,), num_dropped=len(placed) - 1, num_cut=1, num_duplicates=num_duplicates)
        if now_left is None:
            continue
        left = now_left
        if len(group.chosen) == 1:
            group.score = score
            kept.append(group)
    num_dropped = len(placed) - sum(len(group.chosen) for group in kept)

    for group in kept:
        left = _expand(group, left, count_tokens)
    passages = tuple(
        Passage(number, group.chosen[0], stitch(group.chosen), group.score)
        for number, group in enumerate(kept, start=1)
    )
    return Assembly(passages, num_dropped, num_duplicates=num_duplicates)


def reach_of(chunk: Chunk, config: AssembleConfig) -> int:
    """How many ordinals to either side the chunks may stand that are stitched to this one: with a parent all of it."""
    return config.neighbours if chunk.parent is None else _MAX_SIBLINGS


def _place(
    ranked: Sequence[tuple[Chunk, float]], neighbourhood: Sequence[Chunk], config: AssembleConfig, k_passages: int
) -> list[tuple[_Group, Chunk, float]]:
    """The ranked chunks, best first, each with the passage that it opens or belongs to."""
    ranked_ids = {chunk.id for chunk, _ in ranked}
    places = {(chunk.document_id, chunk.ordinal): chunk for chunk in (*neighbourhood, *(chunk for chunk, _ in ranked))}
    groups: list[_Group] = []
    placed: list[tuple[_Group, Chunk, float]] = []
    taken: set[ChunkId] = set()  # a chunk is in one passage, so that no text is shown twice
    for chunk, score in ranked:
        group = next((group for group in groups if group.reaches(chunk)), None)
        if group is None and len(groups) == k_passages:
            continue
        if group is None:
            group = _Group(chunk, chunk.ordinal, chunk.ordinal)
            groups.append(group)
        placed.append((group, chunk, score))
        taken.add(chunk.id)
        reach = reach_of(chunk, config)
        for step in (1, -1):
            for ordinal in range(chunk.ordinal + step, chunk.ordinal + step * (reach + 1), step):
                neighbour = places.get((chunk.document_id, ordinal))
                if neighbour is None or neighbour.id in taken or not same_section(chunk, neighbour):
                    break
                group.extend(ordinal)
                if neighbour.id not in ranked_ids:
                    taken.add(neighbour.id)
                    group.neighbours.append(neighbour)
    return placed


def _expand(group: _Group, left: int, count_tokens: CountTokens) -> int:
    """Lets neighbours join while they fit, nearest first and never over a gap; what is left of the budget."""
    best = group.chosen[0].ordinal
    for neighbour in sorted(group.neighbours, key=lambda chunk: (abs(chunk.ordinal - best), -chunk.ordinal)):
        if any(abs(member.ordinal - neighbour.ordinal) == 1 for member in group.chosen):
            now_left = group.admit(neighbour, left, count_tokens)
            left = left if now_left is None else now_left
    return left
