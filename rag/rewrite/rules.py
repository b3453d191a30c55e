"""Rewriting without a model: spelling of quotes and spaces, and acronyms spelled out."""

import re
from collections.abc import Mapping

from rag.config import RewriteConfig
from rag.data import Query
from rag.rewrite.words import STOP_WORDS

_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "‚": "'", "`": "'"})
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")


def rewrite_by_rules(text: str, config: RewriteConfig) -> Query:
    """The text as a query: normalised, with glossary acronyms spelled out beside them.

    `rewrites` names the rules that changed something: "normalised", "glossary".
    """
    rewrites: list[str] = []
    normalised = normalise(text)
    if normalised != text:
        rewrites.append("normalised")
    expanded = expand_acronyms(normalised, config.glossary)
    if expanded != normalised:
        rewrites.append("glossary")
    return Query(text=expanded, original=text, rewrites=tuple(rewrites))


def normalise(text: str) -> str:
    """The text with straight quotes, single spaces and no invisible characters."""
    return " ".join(_INVISIBLE.sub("", text).translate(_QUOTES).split())


def expand_acronyms(text: str, glossary: Mapping[str, str]) -> str:
    """The text with each known acronym's meaning behind its first use: "PTO" -> "PTO (paid time off)".

    Acronyms are whole words in the glossary's own case, or in a plural ("SLAs"). Nobody types capitals in a question
    that is all lower case, so there case is ignored, except for acronyms that are also common words ("IT", "US").
    """
    lower_case = text == text.lower()
    known: dict[str, tuple[str, str]] = {}  # as it is looked up -> (acronym, meaning)
    for acronym, meaning in glossary.items():
        if acronym and meaning.lower() not in text.lower():
            if not lower_case:
                known[acronym] = (acronym, meaning)
            elif acronym.lower() not in STOP_WORDS:
                known[acronym.lower()] = (acronym, meaning)
    if not known:
        return text
    longest_first = "|".join(re.escape(name) for name in sorted(known, key=lambda name: (-len(name), name)))
    spelled_out: set[str] = set()

    def expand(match: re.Match[str]) -> str:
        acronym, meaning = known[match.group(1)]
        if acronym in spelled_out:
            return match.group()
        spelled_out.add(acronym)
        return f"{match.group()} ({meaning})"

    return re.sub(rf"(?<!\w)({longest_first})(?:'?s)?(?!\w)", expand, text)
