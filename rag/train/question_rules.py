"""Questions without a model: headings turned into questions, sentences turned around, and keyword queries.

They are plentiful, cheap and on the subject, and plainer than what people ask. A draft names the rule that made it.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rag.data import Chunk
from rag.evaluate.golden import plain_text
from rag.generate.sentences import sentences
from rag.rewrite.words import STOP_WORDS, content_words, stem

_VERBS_TEXT = """
    access add apply approve archive ask assign attach attend avoid back become begin bill book bring build buy
    call cancel change check choose clean clear close complete configure connect contact convert create debug
    decide declare define delete deploy develop disable download edit email enable end enroll ensure enter escalate
    evaluate export file fill find finish fix follow format get give handle hire host import improve include
    install invite join keep launch learn leave log make manage mark measure merge migrate monitor move name open
    order organize pay plan post prepare prevent print process protect provide publish pull purchase push raise
    read rebuild receive record recover reduce register release remove rename renew repair replace report request
    reserve reset resolve respond restart restore return review rotate run save schedule search secure select send
    set setup share ship sign start stop store submit switch take test track train transfer translate travel
    troubleshoot turn unlock update upgrade upload use verify view visit work write
"""
_VERBS = tuple(_VERBS_TEXT.split())
_GENERIC_TEXT = """
    overview introduction summary background general notes note resources links references contents process steps
    example examples details information purpose scope about other misc miscellaneous faq questions more tips
    context definitions appendix conclusion related history goals contact contacts
"""
_GENERIC = frozenset(_GENERIC_TEXT.split())
_QUESTION_WORDS_TEXT = """
    who what when where why how which can do does did is are am should must may will would could has have whose
    whom
"""
_QUESTION_WORDS = frozenset(_QUESTION_WORDS_TEXT.split())

_NUMBERING = re.compile(r"^\s*(?:step\s+\d+\s*[:.)-]?|\(?\d+(?:\.\d+)*[.):]?|[a-z][.)])\s+", re.IGNORECASE)
_LIST_MARKER = re.compile(r"^(?:\s*(?:[-*•>]+|\d{1,3}[.)]|\[[ x]\])\s+)+")
_TO = re.compile(r"^(?:In order )?[Tt]o (\w+ [^,;:.]{3,90}), ")
_IF_YOU = re.compile(r"^(If|When) you(?:'re| are|'ve| have)? ([^,;:.]{6,90}), ")
_YOU = re.compile(
    r"^You (can(?:not|'t)?|may|must|should|need to|have to|will) (?:also |always |only )?(\w+ [^,;:.]{4,90})"
)
_THEY = re.compile(
    r"^((?:All |Every |Each )?(?:[\w/'-]+ ){0,3}[\w/'-]+s) (can|may|must|should|need to|have to) (?:also |always )?"
    r"(\w+ [^,;:.]{4,90})"
)
_IS = re.compile(r"^((?:The |An? )?(?:[\w/'().-]+ ){0,4}[\w/'().-]+) (is|are) (?:an?|the|our|one of) \w")
_PRONOUNS_TEXT = """
    it its this that these those they them he she there here we you i one such which
"""
_PRONOUNS = frozenset(_PRONOUNS_TEXT.split())
_ARTICLES = frozenset(("a", "an", "the"))
_POINTS_ELSEWHERE = re.compile(r"\b(?:it|this|these|those|that|them|their|following|here|above|below)\b", re.IGNORECASE)
_PERSON = {"you": "I", "your": "my", "yours": "mine", "yourself": "myself", "you're": "I'm", "you've": "I've"}

_MAX_HEADING_WORDS, _MAX_CLAUSE_WORDS = 9, 14
_NUM_SENTENCES = 8  # from the beginning of a chunk that are turned around
_NUM_KEY_WORDS = 4
_MIN_ANSWER_WORDS = 4


@dataclass(frozen=True, slots=True)
class QuestionDraft:
    """A question that was made of a chunk, before any filter."""

    question: str
    answer: str  # words of the chunk
    chunk: Chunk
    source: str  # "rules" or "llm"
    rule: str
    heading: str = ""  # that it was made of, as it stands above the chunk


def rule_drafts(chunk: Chunk, document_frequency: Mapping[str, int], num_chunks: int) -> list[QuestionDraft]:
    """Every question that the rules make of the chunk; none where it has no sentence that could answer.

    `document_frequency` counts, for each stem, the chunks that hold it, out of `num_chunks`: the key words of a chunk
    are those that it has often and others do not have.
    """
    said = answer_sentences(chunk)
    if not said:
        return []
    path = [name for name in (chunk.metadata.title, *chunk.headings) if name]
    drafts = [
        QuestionDraft(question, said[0], chunk, "rules", rule, path[-1])
        for rule, question in (_heading_questions(path) if path else ())
    ]
    if key_words := _key_words(chunk, document_frequency, num_chunks):
        drafts.append(QuestionDraft(" ".join(key_words), said[0], chunk, "rules", "key_words"))
    for sentence in said[:_NUM_SENTENCES]:
        drafts += [
            QuestionDraft(question, sentence, chunk, "rules", rule)
            for rule, question in _sentence_questions(sentence)
            if not _POINTS_ELSEWHERE.search(question) and question.count("(") == question.count(")")
        ]
    return drafts


def answer_sentences(chunk: Chunk) -> list[str]:
    """The sentences of a chunk that say something, single-spaced and without list markers, each a span of its text."""
    found = (_LIST_MARKER.sub("", " ".join(sentence.split())) for sentence in sentences(chunk.text))
    return [
        sentence
        for sentence in found
        if not sentence.endswith(("?", ":")) and len(content_words(plain_text(sentence))) >= _MIN_ANSWER_WORDS
    ]


# ---------------------------------------------------------------- headings


def _heading_questions(path: list[str]) -> Iterator[tuple[str, str]]:
    """(rule, question) of the last name of a heading path."""
    heading = clean_heading(path[-1])
    words = heading.split()
    if not words or len(words) > _MAX_HEADING_WORDS:
        return
    first, title = words[0].lower(), clean_heading(path[0])
    generic = all(word.lower().strip("&,") in _GENERIC | STOP_WORDS for word in words)
    if heading.lower().startswith("how to ") and len(words) > 2:
        yield "heading_how", f"How do I {_as_me(' '.join(words[2:]))}?"
    elif heading.endswith("?") or (first in _QUESTION_WORDS and len(words) > 2):
        yield "heading_question", heading.rstrip("?") + "?"
    elif first in _VERBS and len(words) > 1:
        yield "heading_how", f"How do I {_as_me(_lower_first(heading))}?"
    elif first in _GERUNDS and len(words) > 1:
        yield "heading_how", f"How do I {_as_me(' '.join([_GERUNDS[first], *words[1:]]))}?"
    elif not generic:
        yield "heading_what", f"What {'are' if _is_plural(words[-1]) else 'is'} {_lower_first(heading)}?"
    if len(path) > 1 and title.lower() != heading.lower():
        yield "heading_query", f"{title} {heading}".lower()


def clean_heading(name: str) -> str:
    """The heading as words: no numbering, mark-up or closing colon."""
    return _NUMBERING.sub("", plain_text(name)).strip().rstrip(":.").strip()


def _gerund(verb: str) -> str:
    if verb.endswith("e") and not verb.endswith("ee"):
        return verb[:-1] + "ing"
    doubled = len(verb) <= 4 and re.search(r"[^aeiou][aeiou][bdgklmnprt]$", verb)
    return verb + (verb[-1] if doubled else "") + "ing"


_GERUNDS = {_gerund(verb): verb for verb in _VERBS}


def _is_plural(word: str) -> bool:
    return word.lower().endswith("s") and not word.lower().endswith(("ss", "us", "is")) and not word.isupper()


def _lower_first(text: str) -> str:
    """The text with a small first letter, unless it begins with an acronym or with a name: "Google Calendar"."""
    first, *rest = text.split()
    acronym = first == "I" or any(character.isupper() or character.isdigit() for character in first[1:])
    named = bool(rest) and rest[0][:1].isupper() and first.lower() not in _ARTICLES
    return text if acronym or named else text[:1].lower() + text[1:]


# ---------------------------------------------------------------- sentences


def _sentence_questions(sentence: str) -> Iterator[tuple[str, str]]:
    said = plain_text(sentence)
    if (found := _TO.match(said)) and found[1].split()[0].lower() in _VERBS:
        yield "sentence_how", f"How do I {_as_me(found[1])}?"
    elif found := _IF_YOU.match(said):
        being = re.match(r"^\w+ you(?:'re| are)", said) is not None
        having = re.match(r"^\w+ you(?:'ve| have)", said) is not None
        verb = "am " if being else "have " if having else ""
        yield "sentence_if", f"What should I do {found[1].lower()} I {verb}{_as_me(found[2])}?"
    elif found := _YOU.match(said):
        yield "sentence_may", f"{_asked(found[1])} I {_infinitive(found[1])}{_as_me(_clause(found[2]))}?"
    elif (found := _THEY.match(said)) and found[1].split()[0].lower() not in _PRONOUNS:
        yield (
            "sentence_may",
            f"{_asked(found[2])} {_lower_first(found[1])} {_infinitive(found[2])}{_as_me(_clause(found[3]))}?",
        )
    elif (found := _IS.match(said)) and found[1].split()[0].lower() not in _PRONOUNS:
        yield "sentence_what", f"What {found[2]} {_lower_first(found[1])}?"


def _asked(modal: str) -> str:
    match modal:
        case "can" | "can't" | "cannot" | "may":
            return "Can"
        case "will":
            return "Will"
        case "should":
            return "Should"
        case _:
            return "Do"


def _infinitive(modal: str) -> str:
    return "have to " if modal in ("must", "need to", "have to") else ""


def _clause(text: str) -> str:
    return " ".join(text.split()[:_MAX_CLAUSE_WORDS])


def _as_me(text: str) -> str:
    """The words as the reader would say them: "your badge" -> "my badge"."""
    return " ".join(_PERSON.get(word.lower(), word) for word in text.split()[:_MAX_CLAUSE_WORDS])


# ---------------------------------------------------------------- key words


def _key_words(chunk: Chunk, document_frequency: Mapping[str, int], num_chunks: int) -> list[str]:
    """The words of the chunk with the largest share of its text against that of others, in the order of the text."""
    text = plain_text(chunk.text)
    found: dict[str, str] = {}
    counts: dict[str, int] = {}
    for word in content_words(text):
        name = stem(word.lower())
        found.setdefault(name, word.lower())
        counts[name] = counts.get(name, 0) + 1
    worth = {
        name: (1.0 + math.log(count)) * math.log((1 + num_chunks) / (1 + document_frequency.get(name, 0)))
        for name, count in counts.items()
        if 3 <= len(found[name]) <= 24 and "/" not in found[name]
    }
    best = sorted(worth, key=lambda name: (-worth[name], name))[:_NUM_KEY_WORDS]
    return [word for name, word in found.items() if name in best] if len(best) == _NUM_KEY_WORDS else []
