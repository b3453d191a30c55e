"""Text -> terms, the same way for passages and for queries."""

import re
import unicodedata
from functools import lru_cache
from threading import Lock

import Stemmer
from bm25s.stopwords import STOPWORDS_EN_PLUS

from rag.config import LexicalIndexConfig

# Scripts written without spaces (Han, kana) and Hangul, which Lucene's CJK analyzer treats alike.
_CJK = (
    "\u3005\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
)  # fmt: skip
_WORD = rf"[^\W{_CJK}]+"
_RUN = re.compile(rf"[{_CJK}]+|{_WORD}(?:(?:[.\-/:@+#&']|(?<=\d),(?=\d)){_WORD})*")
_PART = re.compile(r"[^\W_]+")
_IS_CJK = re.compile(rf"[{_CJK}]")
_IDENTIFIER_CHARACTER = re.compile(r"[\d_]")

# What typesetting puts into words: soft hyphens and joiners that no one sees, and look-alikes of - and '.
_TYPESET = {
    **dict.fromkeys((0x00AD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF), None),
    **dict.fromkeys((0x2010, 0x2011, 0x2012, 0x2013, 0x2212), "-"),
    **dict.fromkeys((0x2018, 0x2019, 0x02BC), "'"),
}

_CACHED_RUNS = 1 << 17  # different words seen; a few tens of megabytes at most


class Analyzer:
    """Turns text into the terms of the lexical index.

    Plain words are case-folded and stemmed; stop words and single letters are left out. A run that holds a digit or
    an underscore (`ERR_4031`, `TR-88-B`, `v4.2.1`, `foo.bar_baz`, `10.0.0.1`) is kept whole, and its parts are terms
    too, so that it is found by its whole and by its pieces. Runs of Chinese, Japanese and Korean characters become
    bigrams.
    """

    def __init__(self, config: LexicalIndexConfig) -> None:
        self._stop_words = frozenset(STOPWORDS_EN_PLUS) if config.stop_words == "english" else frozenset()
        self._stemmer = Stemmer.Stemmer("english", 0) if config.stemmer == "english" else None
        self._stemmer_lock = Lock()  # a Stemmer keeps state between calls, and searches run on several threads
        self._terms_of_run = lru_cache(maxsize=_CACHED_RUNS)(self._analyze_run)

    def terms(self, text: str) -> list[str]:
        """The terms in the order of the text, with repetitions; empty where there is nothing to index."""
        terms: list[str] = []
        for run in _RUN.findall(_fold(text)):
            terms.extend(self._terms_of_run(run))
        return terms

    def _analyze_run(self, run: str) -> tuple[str, ...]:
        if _IS_CJK.match(run):
            return tuple(run[i : i + 2] for i in range(len(run) - 1)) or (run,)
        run = run.removesuffix("'s")
        if run.replace("'", "").isalpha():
            return self._word(run) if len(run) > 1 else ()
        parts = _PART.findall(run)
        terms = [run] if parts != [run] and _IDENTIFIER_CHARACTER.search(run) else []
        for part in parts:
            terms.extend(self._word(part) if part.isalpha() else (part,))
        return tuple(terms)

    def _word(self, word: str) -> tuple[str, ...]:
        if word in self._stop_words:
            return ()
        if self._stemmer is None:
            return (word,)
        with self._stemmer_lock:
            return (self._stemmer.stemWord(word),)


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKC", text).translate(_TYPESET).casefold()
    return unicodedata.normalize("NFKC", folded)
