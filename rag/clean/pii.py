"""Personal data and secrets in a text, told by their form and their check digits.

Precision comes first: a part number or an error code that is masked is lost to every question. A number counts only
where a check digit or its writing says what it is; one whose writing says nothing needs a word beside it that does.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import get_args

from phonenumbers import Leniency, PhoneNumberMatcher
from stdnum import iban, luhn

from rag.config import PiiKind

KINDS: tuple[PiiKind, ...] = get_args(PiiKind)
MASKS: dict[PiiKind, str] = {
    "email": "[EMAIL]", "phone": "[PHONE]", "card": "[CARD]", "iban": "[IBAN]", "national_id": "[ID]",
    "secret": "[SECRET]",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PiiMatch:
    """One finding: text[start:end]."""

    kind: PiiKind
    start: int
    end: int


def find_pii(text: str, kinds: Collection[PiiKind], phone_region: str = "") -> list[PiiMatch]:
    """The findings of those kinds in order, none inside another; where two overlap the more certain one stays."""
    found: list[PiiMatch] = []
    for kind in _BY_CERTAINTY:
        if kind in kinds:
            for start, end in _phones(text, phone_region) if kind == "phone" else _FINDERS[kind](text):
                if all(end <= other.start or start >= other.end for other in found):
                    found.append(PiiMatch(kind, start, end))
    return sorted(found, key=lambda match: match.start)


def mask_pii(text: str, kinds: Collection[PiiKind], phone_region: str = "") -> str:
    """The text with the mask of its kind in place of every finding."""
    pieces: list[str] = []
    at = 0
    for match in find_pii(text, kinds, phone_region):
        pieces += [text[at : match.start], MASKS[match.kind]]
        at = match.end
    return "".join([*pieces, text[at:]])


# ---------------------------------------------------------------- e-mail and telephone

_EMAIL = re.compile(
    r"(?<![\w.+%-])[A-Za-z0-9][\w.+%-]{0,63}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})\.)+[A-Za-z]{2,24}(?![\w-]|\.\w)"
)
_PHONE_WORD = re.compile(r"(?i)\b(?:tel|phone|mobile|cell|fax|call|telefon|t[ée]l[ée]phone)\w*\W{0,3}\Z")
_BARE_DIGITS = re.compile(r"\d+")


def _emails(text: str) -> Iterator[tuple[int, int]]:
    if "@" in text:
        yield from (match.span() for match in _EMAIL.finditer(text))


def _phones(text: str, region: str) -> Iterator[tuple[int, int]]:
    """Valid numbers with + and a country, and where a region is given those of its form."""
    if not region and "+" not in text:
        return
    for match in PhoneNumberMatcher(text, region or None, leniency=Leniency.VALID, max_tries=len(text)):
        before = text[max(match.start - 20, 0) : match.start]
        if _BARE_DIGITS.fullmatch(match.raw_string) and not _PHONE_WORD.search(before):
            continue
        if before[-1:].isalnum() or text[match.end : match.end + 1].isalnum():
            continue
        yield match.start, match.end


# ---------------------------------------------------------------- cards and accounts

_CARD = re.compile(
    r"(?<![\w.,#/+-])(?:\d{13,19}|\d{4}([ -])\d{4}\1\d{4}\1\d{1,7}|\d{4}([ -])\d{6}\2\d{4,5})"
    r"(?![\w/-]|[.,]\d)"
)
_ISSUER = re.compile(  # prefix and length of the networks' numbers
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|3(?:0[0-5]|[68]\d)\d{11}|6(?:011|5\d\d|4[4-9]\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}"
)
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?(?![A-Za-z0-9])")


_ANY_CARD = re.compile(r"\d{4}[ -]?\d{4}[ -]?\d{4}|\d{4}[ -]\d{6}")  # in every text that holds one
_ANY_IBAN = re.compile(r"[A-Z]\d\d ?[A-Z0-9]{4}")


def _cards(text: str) -> Iterator[tuple[int, int]]:
    if not _ANY_CARD.search(text):
        return
    for match in _CARD.finditer(text):
        digits = re.sub(r"\D", "", match[0])
        if len(set(digits)) > 1 and _ISSUER.fullmatch(digits) and luhn.is_valid(digits):
            yield match.span()


def _ibans(text: str) -> Iterator[tuple[int, int]]:
    if not _ANY_IBAN.search(text):
        return
    for match in _IBAN.finditer(text):
        end = match.end()
        while end - match.start() >= 15:  # the shortest there is; words in capitals may follow it
            if iban.is_valid(text[match.start() : end]):
                yield match.start(), end
                break
            shorter = text.rfind(" ", match.start(), end)
            end = shorter if shorter > 0 else 0


# ---------------------------------------------------------------- national ids

# (numdb module of python-stdnum, form, words of which one must stand before it; none where the form itself is telling)
_NATIONAL_IDS: tuple[tuple[str, str, str], ...] = (
    ("us.ssn", r"\d{3}-\d{2}-\d{4}", r"ssn|social security|soc\.? sec"),
    ("ch.ssn", r"756\.\d{4}\.\d{4}\.\d{2}", ""),
    ("fr.nir", r"[12] ?\d{2} ?(?:0[1-9]|1[0-2]|[2-9]\d) ?\d[\dAB] ?\d{3} ?\d{3} ?\d{2}", ""),
    ("it.codicefiscale", r"[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]", ""),
    ("br.cpf", r"\d{3}\.\d{3}\.\d{3}-\d{2}", ""),
    ("kr.rrn", r"\d{6}-[1-8]\d{6}", ""),
    ("cn.ric", r"\d{6}(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dX]", ""),
    ("fi.hetu", r"\d{6}[-+A]\d{3}[0-9A-Y]", ""),
    ("be.nn", r"\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}", ""),
    ("se.personnummer", r"(?:19|20)?\d{6}[-+]\d{4}", r"personnummer|personal (?:identity )?(?:number|no)|person ?nr"),
    ("dk.cpr", r"\d{6}-\d{4}", r"cpr"),
    ("es.dni", r"\d{8}-?[A-Z]", r"dni|documento|identidad"),
    ("es.nie", r"[XYZ]-?\d{7}-?[A-Z]", r"nie|extranjero"),
    ("de.idnr", r"\d{2} ?\d{3} ?\d{3} ?\d{3}", r"steuer\W?id\w*|idnr|identifikationsnummer|tax (?:id|number|no)"),
    ("nl.bsn", r"\d{9}", r"bsn|burgerservicenummer|sofi"),
    ("pl.pesel", r"\d{11}", r"pesel"),
    ("in_.aadhaar", r"\d{4} ?\d{4} ?\d{4}", r"aadhaar"),
    ("gb.nhs", r"\d{3}[ -]?\d{3}[ -]?\d{4}", r"nhs"),
    ("ca.sin", r"\d{3}[ -]?\d{3}[ -]?\d{3}", r"\bsin\b|social insurance"),
)
_NEAR = 60  # characters before a number in which the word must stand
_TELLING_FORM = re.compile(  # in every text that holds an id which its form alone tells
    r"\d{3}\.\d{3,4}\.\d|\d{6}[-+A]\d{3}|\d\d\.\d\d\.\d\d-\d|[A-Z]{6}\d\d|\d{13}"
    r"|\d ?\d\d ?\d\d ?\d[\dAB] ?\d{3} ?\d{3}"
)


_ANY_ID = re.compile(r"(?:\d[^\d\n]?){6}")  # in every text that holds any


def _national_ids(text: str) -> Iterator[tuple[int, int]]:
    if not _ANY_ID.search(text):
        return
    by_form = _TELLING_FORM.search(text) is not None
    for name, form, words in _id_patterns():
        if not (by_form if words is None else words.search(text)):
            continue
        for match in form.finditer(text):
            near = words is None or words.search(text, max(match.start() - _NEAR, 0), match.start())
            if near and _is_valid(name)(match[0]):
                yield match.span()


@cache
def _id_patterns() -> Sequence[tuple[str, re.Pattern[str], re.Pattern[str] | None]]:
    return [
        (
            name,
            re.compile(rf"(?<![\w.,/#-])(?:{form})(?![\w/#-]|[.,]\d)"),
            re.compile(rf"(?i)(?<!\w)(?:{words})") if words else None,
        )
        for name, form, words in _NATIONAL_IDS
    ]


@cache
def _is_valid(name: str) -> Callable[[str], bool]:
    valid: Callable[[str], bool] = import_module(f"stdnum.{name}").is_valid
    return valid


# ---------------------------------------------------------------- keys and tokens

_KNOWN_SECRETS = re.compile(
    r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----[\s\S]{1,8000}?(?:-----END (?:[A-Z]+ )*PRIVATE KEY-----|\Z)"
    r"|(?<![A-Za-z0-9_])(?:"
    r"(?:AKIA|ASIA)[A-Z0-9]{16}|gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{60,255}|glpat-[\w-]{20,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|[rs]k_(?:live|test)_[A-Za-z0-9]{16,}|AIza[\w-]{35}|ya29\.[\w-]{20,}"
    r"|sk-(?:proj-|ant-)?[\w-]{32,}|SG\.[\w-]{16,}\.[\w-]{16,}|hf_[A-Za-z0-9]{30,}|pypi-[\w-]{40,}|npm_[A-Za-z0-9]{36}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{16,}"
    r")(?![A-Za-z0-9_])"
)
_ASSIGNED = re.compile(
    r"(?i)(?<![a-z])(?:password|passwd|pwd|secret|token|(?:api|access|private)[_ -]?key|credentials?)[\"'`]?"
    r"\s{0,3}(?:[:=]|is)\s{0,3}[\"'`]?(?P<value>[A-Za-z0-9+/_.~!@#$%^&*=-]{12,200})"
)
_ASSIGNED_WORDS = ("passw", "pwd", "secret", "token", "key", "credential")
_SECRET_MARKS = (  # one of them is in every text that holds a known secret
    "PRIVATE KEY", "AKIA", "ASIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "k_live_",
    "k_test_", "AIza", "ya29.", "sk-", "SG.", "hf_", "pypi-", "npm_", "eyJ",
)  # fmt: skip
_MIN_ENTROPY = 3.4  # bits a character; words and placeholders stay below, random base64 of 20 characters has about 4
_PLACEHOLDER = re.compile(r"(?i)your|example|xxx|changeme|placeholder|dummy|redacted|<|\.\.\.|\*\*\*|\$\{|\bnone\b")


def _secrets(text: str) -> Iterator[tuple[int, int]]:
    if any(mark in text for mark in _SECRET_MARKS):
        yield from (match.span() for match in _KNOWN_SECRETS.finditer(text))
    lowered = text.lower()
    if not any(word in lowered for word in _ASSIGNED_WORDS):
        return
    for match in _ASSIGNED.finditer(text):
        value = match["value"].rstrip(".")
        if _is_random(value):
            yield match.start("value"), match.start("value") + len(value)


def _is_random(value: str) -> bool:
    """Whether the value looks drawn, not written: letters and digits mixed, and few characters that come back."""
    mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    if len(value) < 12 or not mixed or _PLACEHOLDER.search(value):
        return False
    counts = Counter(value)
    entropy = -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())
    return entropy >= min(_MIN_ENTROPY, 0.9 * math.log2(len(value)))


_BY_CERTAINTY: tuple[PiiKind, ...] = ("secret", "iban", "card", "national_id", "email", "phone")
_FINDERS: dict[PiiKind, Callable[[str], Iterator[tuple[int, int]]]] = {
    "secret": _secrets,
    "iban": _ibans,
    "card": _cards,
    "national_id": _national_ids,
    "email": _emails,
}
