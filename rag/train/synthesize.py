"""Questions that chunks answer, for training and evaluation: drafted, filtered, and kept when they find their chunk.

drafts (rules, a language model) -> filters on the words -> round trip: the question is searched among all chunks, and
kept when its own comes back among the first k -> near duplicates, by the encoder's cosine, whose vectors are there
already. Every draft is kept, or counted under what dropped it.

Source of the round trip: Alberti et al., ACL 2019; Promptagator, Dai et al., ICLR 2023.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, Literal, Protocol

import numpy as np

from rag.data import Chunk, Vectors, embedded_text
from rag.ids import ChunkId, digest
from rag.protocols import Embedder
from rag.rewrite.words import content_stems, exact_terms, words
from rag.train.question_prompt import EXAMPLE_QUESTIONS, PROMPT_VERSION, question_prompt, read_question
from rag.train.question_rules import QuestionDraft, answer_sentences, rule_drafts
from rag.train.writers import Writer

Source = Literal["rules", "llm", "both"]

_PROMPTS_AT_ONCE = 64
_MIN_CHUNK_WORDS = 12
_CONTENTS_HEADING = re.compile(r"^(?:table of )?contents$|^on this page$|^index$", re.IGNORECASE)
_CONTENTS_LINE = re.compile(r"(?:\.{3,}|…|\s{2,}|\t)\s*\d{1,4}\s*$|^\s*(?:[-*]|\d+[.)])?\s*\[[^\]]*\]\([^)]*\)\s*$")
_MAX_CONTENTS_SHARE = 0.5  # of a chunk's lines

_SELF_REFERENCE = re.compile(
    r"\b(?:passage|paragraph|sentence|text|document|excerpt|article|author|above|topic|mentioned|described)s?\b",
    re.IGNORECASE,
)
_DANGLING = re.compile(
    r"^(?:what|who|how|why|when|where|which)"
    r"(?:'s| (?:is|are|was|were|do|does|did|can|should|must|will|would|has|have))?"
    r" (?:it|its|this|that|these|those|they|them|he|she|his|her|their|the following)\b",
    re.IGNORECASE,
)
_KEYWORD_RULES = frozenset(["heading_query", "key_words"])  # what people type into a search box; no "?" at the end
_MIN_WORDS, _MAX_WORDS = 4, 30
_MIN_KEYWORDS = 2
_MIN_SHARED = 0.6  # of a question's content words, that its chunk must hold
_MIN_SHARED_WORDS = 2
_MAX_COPIED = 0.85  # likeness of the words of a question and its answer, for what a model wrote


@dataclass(frozen=True, slots=True)
class SynthesisOptions:
    """What is made, and how strictly it is filtered."""

    source: Source = "rules"
    max_chunks: int = 1_000
    questions_per_chunk: int = 3  # of each source
    k_round_trip: int = 5  # the question's own chunk has to be among so many
    max_similarity: float = 0.95  # cosine: a question nearer than this to one that is kept is dropped
    seed: int = 0


@dataclass(frozen=True, slots=True)
class SyntheticQuestion:
    """A question with the chunk that answers it, as one row of a training set."""

    question: str
    answer: str  # words of the chunk
    positive: str  # the chunk's embedded text
    positive_masked: str  # the same without the heading that the question was made of
    chunk_id: str
    document_id: str
    uri: str
    tenant: str
    groups: tuple[str, ...]  # who may read the chunk: a row is as confidential as what it was made of
    source: str
    rule: str
    model: str  # "" for rules
    prompt_version: str  # "" for rules
    rank: int  # of the chunk in the round trip, from 1


@dataclass(slots=True)
class SynthesisReport:
    """What became of chunks and drafts: the counts add up."""

    chunks_seen: int = 0
    chunks_skipped: Counter[str] = field(default_factory=Counter)  # by reason
    drafted: Counter[str] = field(default_factory=Counter)  # by source
    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)  # by (source, filter)
    kept: Counter[str] = field(default_factory=Counter)  # by source
    kept_by_rule: Counter[str] = field(default_factory=Counter)

    @property
    def chunks_used(self) -> int:
        return self.chunks_seen - sum(self.chunks_skipped.values())

    def rows(self) -> list[tuple[str, int, int]]:
        """(what, rules, llm): drafted, dropped by each filter in the order of the filters, kept."""
        filters = [name for name in FILTERS if any(self.dropped[source, name] for source in ("rules", "llm"))]
        return [
            ("drafted", self.drafted["rules"], self.drafted["llm"]),
            *((name, self.dropped["rules", name], self.dropped["llm", name]) for name in filters),
            ("kept", self.kept["rules"], self.kept["llm"]),
        ]

    def to_json(self) -> dict[str, Any]:  # Any: JSON
        return {
            "chunks_seen": self.chunks_seen,
            "chunks_skipped": dict(self.chunks_skipped),
            "chunks_used": self.chunks_used,
            "drafted": dict(self.drafted),
            "dropped": {f"{source}: {name}": count for (source, name), count in sorted(self.dropped.items())},
            "kept": dict(self.kept),
            "kept_by_rule": dict(self.kept_by_rule),
        }


class ChunkSearch(Protocol):
    """Searches all chunks for questions of one tenant: the whole version, not what one asker may read."""

    def find(self, questions: Sequence[str], vectors: Vectors, tenant: str, k: int) -> list[list[ChunkId]]:
        """For each question, with its vector, the best k chunks of the tenant, best first."""
        ...


# ---------------------------------------------------------------- chunks


def pick_chunks(chunks: Iterable[Chunk], options: SynthesisOptions, report: SynthesisReport) -> list[Chunk]:
    """The first `max_chunks` that can be asked about, of chunks in the order of `sample_key`; counted in the report."""
    picked: list[Chunk] = []
    for chunk in chunks:
        if len(picked) >= options.max_chunks:
            break
        report.chunks_seen += 1
        if reason := skip_reason(chunk):
            report.chunks_skipped[reason] += 1
        else:
            picked.append(chunk)
    return picked


def sample_key(chunk_id: ChunkId, seed: int) -> str:
    """The place of a chunk in a random order that does not depend on which others there are: a grown corpus keeps most
    of its sample."""
    return digest("synthesize", str(seed), chunk_id, size_bytes=8)


def skip_reason(chunk: Chunk) -> str:
    """Why nothing is asked about the chunk; "" where something is."""
    if "instruction_like" in chunk.flags:
        return "instruction_like"
    if not chunk.metadata.access.groups:
        return "no_readers"
    if _is_contents(chunk):
        return "contents"
    if len(words(chunk.text)) < _MIN_CHUNK_WORDS:
        return "short"
    return "" if answer_sentences(chunk) else "no_sentence"


def _is_contents(chunk: Chunk) -> bool:
    """Whether the chunk lists what stands elsewhere: by its heading, or by lines that are links or end in pages."""
    heading = (chunk.headings or (chunk.metadata.title,))[-1].strip()
    lines = [line for line in chunk.text.splitlines() if line.strip()]
    listed = sum(_CONTENTS_LINE.search(line) is not None for line in lines)
    return _CONTENTS_HEADING.match(heading) is not None or (
        len(lines) > 2 and listed > _MAX_CONTENTS_SHARE * len(lines)
    )


# ---------------------------------------------------------------- drafts


def draft_by_rules(chunks: Sequence[Chunk], options: SynthesisOptions) -> Iterator[QuestionDraft]:
    """At most `questions_per_chunk` drafts a chunk, drawn by the seed.

    One of each rule comes before a second of any, and so does one keyword query.
    """
    frequency = Counter(name for chunk in chunks for name in content_stems(chunk.text))
    for chunk in chunks:
        drafts = sorted(rule_drafts(chunk, frequency, len(chunks)), key=lambda draft: _draw(draft, options.seed))
        turn: Counter[str] = Counter()
        turns: list[int] = []
        for draft in drafts:
            kind = "keywords" if draft.rule in _KEYWORD_RULES else draft.rule
            turns.append(turn[kind])
            turn[kind] += 1
        order = sorted(range(len(drafts)), key=lambda place: (turns[place], place))
        yield from (drafts[place] for place in order[: options.questions_per_chunk])


def draft_by_model(
    chunks: Sequence[Chunk],
    writer: Writer,
    options: SynthesisOptions,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[QuestionDraft]:
    """A draft for each of `questions_per_chunk` whole sentences of a chunk, drawn by the seed: the sentence is its
    answer. `progress` is told how many of how many are written."""
    wanted = [(chunk, sentence) for chunk in chunks for sentence in _drawn_sentences(chunk, options)]
    replies: list[str] = []
    for start in range(0, len(wanted), _PROMPTS_AT_ONCE):
        replies += writer.write([question_prompt(*pair) for pair in wanted[start : start + _PROMPTS_AT_ONCE]])
        progress(len(replies), len(wanted))
    return [
        QuestionDraft(read_question(reply), sentence, chunk, "llm", "llm")
        for (chunk, sentence), reply in zip(wanted, replies, strict=True)
    ]


def _drawn_sentences(chunk: Chunk, options: SynthesisOptions) -> list[str]:
    whole = dict.fromkeys(sentence for sentence in answer_sentences(chunk) if sentence.endswith((".", "!")))
    drawn = sorted(whole, key=lambda sentence: digest(str(options.seed), chunk.id, sentence))
    return drawn[: options.questions_per_chunk]


def _draw(draft: QuestionDraft, seed: int) -> str:
    return digest(str(seed), draft.chunk.id, draft.rule, draft.question)


# ---------------------------------------------------------------- filters


def _malformed(draft: QuestionDraft) -> bool:
    count = len(words(draft.question))
    if draft.rule in _KEYWORD_RULES:
        return not _MIN_KEYWORDS <= count <= _MAX_WORDS
    # "What is onboarding?" is what people ask; of a model, three words are a question that it did not finish.
    shortest = _MIN_WORDS if draft.source == "llm" else _MIN_WORDS - 1
    return not draft.question.endswith("?") or not shortest <= count <= _MAX_WORDS


def _copied_prompt(draft: QuestionDraft) -> bool:
    asked = words(draft.question)
    return draft.source == "llm" and any(_likeness(asked, words(example)) > 0.8 for example in EXAMPLE_QUESTIONS)


def _off_topic(draft: QuestionDraft) -> bool:
    asked, held = content_stems(draft.question), content_stems(draft.chunk.embedded_text)
    shared = asked & held
    if not exact_terms(draft.question) <= exact_terms(draft.chunk.embedded_text):
        return True  # a number or identifier that the chunk does not know
    return len(shared) < min(_MIN_SHARED_WORDS, max(len(asked), 1)) or len(shared) < _MIN_SHARED * len(asked)


def _off_answer(draft: QuestionDraft) -> bool:
    return draft.source == "llm" and not content_stems(draft.question) & content_stems(draft.answer)


def _copied_answer(draft: QuestionDraft) -> bool:
    return draft.source == "llm" and _likeness(words(draft.question), words(draft.answer)) > _MAX_COPIED


def _not_in_chunk(draft: QuestionDraft) -> bool:
    return draft.answer not in " ".join(draft.chunk.text.split())


_CHECKS: Mapping[str, Callable[[QuestionDraft], bool]] = {
    "malformed": _malformed,
    "self_reference": lambda draft: draft.source == "llm" and _SELF_REFERENCE.search(draft.question) is not None,
    "dangling": lambda draft: _DANGLING.search(draft.question) is not None,
    "copied_prompt": _copied_prompt,
    "off_topic": _off_topic,
    "off_answer": _off_answer,
    "copied_answer": _copied_answer,
    "answer_not_in_chunk": _not_in_chunk,
}
FILTERS = (*_CHECKS, "duplicate", "not_found", "near_duplicate")


def failed_check(draft: QuestionDraft) -> str:
    """The first filter on the words that the draft does not pass; "" where it passes all.

    - self_reference: speaks of the passage, which nobody who asks has seen; dangling: asks about "it"
    - copied_prompt: an example of the prompt; copied_answer: its own answer with a question mark
    - off_topic: too few of its words are the chunk's; off_answer: none is its answer's
    """
    return next((name for name, fails in _CHECKS.items() if fails(draft)), "")


def _likeness(first: Sequence[str], second: Sequence[str]) -> float:
    return SequenceMatcher(None, first, second, autojunk=False).ratio()


def near_duplicates(vectors: Vectors, groups: Sequence[str], max_similarity: float) -> list[bool]:
    """Which rows are nearer than `max_similarity` to an earlier row that is not one itself, within their group."""
    sizes = Counter(groups)
    kept = {group: np.empty((size, vectors.shape[1]), np.float32) for group, size in sizes.items()}
    num_kept: Counter[str] = Counter()
    dropped = []
    for vector, group in zip(vectors, groups, strict=True):
        others = kept[group][: num_kept[group]]
        dropped.append(bool(len(others)) and float(np.max(others @ vector)) > max_similarity)
        if not dropped[-1]:
            kept[group][num_kept[group]] = vector
            num_kept[group] += 1
    return dropped


# ---------------------------------------------------------------- the whole


def keep_good(
    drafts: Iterable[QuestionDraft],
    embedder: Embedder,
    search: ChunkSearch,
    options: SynthesisOptions,
    report: SynthesisReport,
    model: str = "",
) -> list[SyntheticQuestion]:
    """The drafts that pass every filter, in order, as rows; the others are counted in the report."""
    distinct = list(_passing(drafts, report))
    if not distinct:
        return []
    vectors = embedder.embed_queries([draft.question for draft in distinct])
    tenants = [draft.chunk.metadata.access.tenant for draft in distinct]
    ranks = _round_trip(distinct, vectors, tenants, search, options.k_round_trip)
    found = [(place, rank) for place, rank in enumerate(ranks) if rank is not None]
    report.dropped.update((draft.source, "not_found") for draft, rank in zip(distinct, ranks, strict=True) if not rank)

    places = [place for place, _ in found]
    repeated = near_duplicates(vectors[places], [tenants[place] for place in places], options.max_similarity)
    rows = []
    for (place, rank), is_repeated in zip(found, repeated, strict=True):
        draft = distinct[place]
        if is_repeated:
            report.dropped[draft.source, "near_duplicate"] += 1
            continue
        report.kept[draft.source] += 1
        report.kept_by_rule[draft.rule] += 1
        rows.append(_row(draft, rank, model))
    return rows


def _passing(drafts: Iterable[QuestionDraft], report: SynthesisReport) -> Iterator[QuestionDraft]:
    """The drafts that pass the filters on their words, each question once a tenant."""
    seen: set[tuple[str, str]] = set()
    for draft in drafts:
        report.drafted[draft.source] += 1
        key = (draft.chunk.metadata.access.tenant, " ".join(words(draft.question)))
        failed = failed_check(draft) or ("duplicate" if key in seen else "")
        if failed:
            report.dropped[draft.source, failed] += 1
        else:
            seen.add(key)
            yield draft


def _round_trip(
    drafts: Sequence[QuestionDraft], vectors: Vectors, tenants: Sequence[str], search: ChunkSearch, k: int
) -> list[int | None]:
    """The rank, from 1, at which each question finds its own chunk; None where it is not among the first k."""
    ranks: list[int | None] = [None] * len(drafts)
    for tenant in sorted(set(tenants)):
        places = [place for place, owner in enumerate(tenants) if owner == tenant]
        found = search.find([drafts[place].question for place in places], vectors[places], tenant, k)
        for place, ranking in zip(places, found, strict=True):
            wanted = drafts[place].chunk.id
            ranks[place] = ranking.index(wanted) + 1 if wanted in ranking[:k] else None
    return ranks


def _row(draft: QuestionDraft, rank: int, model: str) -> SyntheticQuestion:
    chunk = draft.chunk
    by_model = draft.source == "llm"
    return SyntheticQuestion(
        question=draft.question,
        answer=draft.answer,
        positive=chunk.embedded_text,
        positive_masked=_without_heading(chunk) if draft.heading else chunk.embedded_text,
        chunk_id=chunk.id,
        document_id=chunk.document_id,
        uri=chunk.metadata.uri,
        tenant=chunk.metadata.access.tenant,
        groups=chunk.metadata.access.groups,
        source=draft.source,
        rule=draft.rule,
        model=model if by_model else "",
        prompt_version=PROMPT_VERSION if by_model else "",
        rank=rank,
    )


def _without_heading(chunk: Chunk) -> str:
    """The embedded text without its innermost heading: a question made of it must not be answered by repeating it."""
    if chunk.headings:
        return embedded_text(chunk.metadata.title, chunk.headings[:-1], chunk.text, chunk.context)
    return chunk.text
