"""What may come in as a question."""

import re
import unicodedata

from rag.config import LimitsConfig
from rag.errors import InputError

# Marks that reorder or hide text, and the tag characters that smuggle whole sentences past a reader's eye.
_HIDDEN = re.compile("[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")

_INJECTIONS = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass)\b.{0,30}\b(?:previous|prior|above|earlier|your|these|those|all|any|the)\b"
    r".{0,20}\b(?:instructions?|rules?|prompts?|guidelines|restrictions|permissions?|safeguards)\b"
    r"|\b(?:reveal|print|show|repeat|output|display|leak|tell me|what is|what are)\b.{0,30}"
    r"\b(?:your|the|initial|hidden)\s+(?:system\s+prompt|system\s+message|initial\s+instructions|hidden\s+instructions)\b"
    r"|\byou are now\b.{0,40}\b(?:dan|unrestricted|jailbroken|developer mode|no longer|a different)\b"
    r"|\b(?:enable|enter|activate)\b.{0,20}\b(?:developer|god|jailbreak|admin)\s+mode\b"
    r"|\b(?:act|behave|respond|pretend|answer)\b.{0,30}\bas (?:if|though)\b.{0,40}\b(?:admin|administrator|root"
    r"|unrestricted|all (?:documents|groups|permissions)|full access)\b"
    r"|<\|(?:im_start|im_end|system|user|assistant|eot_id|begin_of_text)\|>|</?passages?>|\[/?INST\]",
    re.IGNORECASE | re.DOTALL,
)


def check_question(text: str, limits: LimitsConfig) -> str:
    """The question without control and hidden characters and without white space around it.

    Raises InputError if nothing is left, or if more is left than `limits.max_question_characters`.
    """
    visible = "".join(
        character
        for character in _HIDDEN.sub("", text)
        if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cs")
    ).strip()
    if not visible:
        raise InputError("the question is empty")
    if len(visible) > limits.max_question_characters:
        raise InputError(
            f"the question has {len(visible)} characters; at most {limits.max_question_characters} are allowed"
        )
    return visible


def direct_injection(text: str) -> bool:
    """Whether the question tries to change the rules instead of asking: a plain sign, not a proof of innocence."""
    return _INJECTIONS.search(text) is not None
