"""A question and its answer as one sentence that claims the answer."""

import re

_WH_PHRASE = re.compile(
    r"\b(?:(?:in|on|at|to|for|from|by|of|with)\s+)?"
    r"(?:how (?:many|much|long|far|old|often)|what (?:year|date|percentage|percent|type|kind|city|country|name)"
    r"|which \w+|whom|whose|who|what|which|when|where|why|how)\b",
    re.IGNORECASE,
)
_AUXILIARY = re.compile(
    r"^\s*(?:is|are|was|were|did|does|do|has|have|had|can|could|will|would|should|must|may)\s+", re.I
)
_MAX_ANSWER_WORDS = 12  # a longer one is a sentence of its own


def statement(question: str, answer: str) -> str:
    """The question with its answer in the place of what it asks for: a clumsy sentence that claims the answer.

    "When did Lee die?", "1870" -> "Lee die 1870."; "Who founded it?", "Ann" -> "Ann founded it."
    """
    asked = question.strip().rstrip("?").strip()
    found = _WH_PHRASE.search(asked)
    if found is None or len(answer.split()) > _MAX_ANSWER_WORDS:
        said = answer if len(answer.split()) > _MAX_ANSWER_WORDS else f"{_AUXILIARY.sub('', asked)} {answer}"
    else:
        before, after = asked[: found.start()].strip(), asked[found.end() :].strip()
        rest = _AUXILIARY.sub("", after)
        # "Who founded it": the answer is the subject. "When did Lee die": the rest comes first.
        said = f"{before} {rest} {answer}" if rest != after else f"{before} {answer} {after}"
    said = " ".join(said.split()).rstrip(".")
    return f"{said[:1].upper()}{said[1:]}."
