"""Words of English-like text: what overlaps of a question, a passage and an answer are counted in."""

import re
import threading
from collections.abc import Iterator
from functools import lru_cache

import Stemmer

# A letter or digit that is written with spaces around its words; Han and kana stand alone, one character a word.
_L = r"[^\W_\u3040-\u30ff\u3400-\u9fff]"
_TOKEN = re.compile(
    rf"[\u3040-\u30ff\u3400-\u9fff]|{_L}+(?:(?:[_.\-]+|(?<=\d)[,:/](?=\d)|['’](?=[^\W\d_])){_L}+)*",
)
_COUNTED = re.compile(r"\d+(?:-[A-Za-z]+)+|\d{1,4}-\d{1,4}")  # "10-day", "4-8": a number beside something else
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_QUANTITY = re.compile(
    r"[\d.,:/-]+(?:st|nd|rd|th|am|pm|k|m|h|d|s|x|ms|min|gb|mb|kb|tb|kg|km|cm|mm|eur|usd|chf)?|[qh][1-4]", re.IGNORECASE
)
_NAMED_BEFORE = re.compile(r"\w\s*\Z")  # "zone A": a capital inside a sentence is a name, not an article
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:\.\d+)*")

_STOP_WORDS = """
    a about above after again against all also am an and any are aren as at be because been before being below between
    both but by can could couldn d did didn do does doesn doing don down during each else few for from further get gets
    give given had hadn has hasn have haven having he her here hers him his how i if in into is isn it its just let ll
    many may me might mine more most much must my need needs no nor not now of off on once one ones only or other our
    ours out over own please re same shall she should shouldn so some such t tell than that the their theirs them then
    there these they this those through to too under until up us ve very was wasn we were weren what when where whether
    which while who whom whose why will with won would wouldn yes you your yours
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())


def tokens(text: str) -> list[str]:
    """The words as they are written; identifiers, versions, dates and numbers stay whole ("ERR_4031", "v4.2.1")."""
    return [piece for match in _TOKEN.finditer(text) for piece in _pieces(match.group())]


def _pieces(token: str) -> Iterator[str]:
    token = re.split("['’]", token, maxsplit=1)[0]  # "employee's", "don't"
    if not re.search(r"[\d_]", token):
        yield from re.split(r"[.\-]+", token)
    elif _COUNTED.fullmatch(token):
        yield from token.split("-")
    else:
        yield token


def words(text: str) -> list[str]:
    """The words in order, lower case, thousands without their commas."""
    return [_normal(token) for token in tokens(text)]


def _normal(token: str) -> str:
    return _THOUSANDS.sub("", token.lower())


def content_words(text: str) -> list[str]:
    """The words that carry meaning, as they are written, in order."""
    return [
        piece
        for match in _TOKEN.finditer(text)
        for piece in _pieces(match.group())
        if piece.lower() not in STOP_WORDS or (piece == "A" and _NAMED_BEFORE.search(text, 0, match.start()))
    ]


def content_stems(text: str) -> frozenset[str]:
    """The stems of the words that carry meaning: "reviewed" and "reviews" are one."""
    return frozenset(stem(_normal(word)) for word in content_words(text))


def exact_terms(text: str) -> frozenset[str]:
    """The words that mean something else when one character differs: numbers, dates, versions, identifiers."""
    return frozenset(word for word in words(text) if re.search(r"[\d_]", word))


def identifiers(text: str) -> frozenset[str]:
    """The exact terms that name one thing ("err_4031", "v4.2.1"), without plain numbers, dates and quantities."""
    return frozenset(term for term in exact_terms(text) if not _QUANTITY.fullmatch(term) or _VERSION.fullmatch(term))


_stemmers = threading.local()  # a Snowball stemmer keeps state while it works: one a thread


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """The Snowball stem of a plain lower-case English word; anything else as it is."""
    if not (word.isascii() and word.isalpha()):
        return word
    if not hasattr(_stemmers, "english"):
        _stemmers.english = Stemmer.Stemmer("english")
    return str(_stemmers.english.stemWord(word))
