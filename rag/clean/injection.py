"""Text that speaks to a language model instead of to a reader: the mark of an indirect prompt injection."""

import re

_ORDERS = r"(?:instructions?|prompts?|rules?|directions?|guidelines?|directives?|guardrails?)"
_EARLIER = r"(?:previous|prior|above|preceding|earlier|foregoing|system(?:'s)?|existing|original|initial)"
_MODEL = r"(?:ai|assistant|chatbot|bot|language model|jailbroken|unrestricted|dan|hacker)"

# Each pattern with words of which one is in all that it matches: most text holds none, and is done with there.
_RULES = tuple(
    (words.split(","), re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE | re.MULTILINE))
    for words, pattern in (
        # "Ignore all previous instructions", "disregard the above", "forget everything you were told"
        (
            "ignore,disregard,forget,override,bypass",
            rf"\b(?:ignore|disregard|forget|override|bypass) (?:(?:all|any|every|the|your|of|my|these|those) ){{0,3}}"
            rf"{_EARLIER} (?:\w+ ){{0,2}}?{_ORDERS}\b",
        ),
        (
            "ignore,disregard,forget",
            r"\b(?:ignore|disregard|forget) (?:all |everything )?(?:of )?(?:the |that is |what is )?(?:above|before)"
            r"\s*(?:[.,;:!]|\band\b|$)",
        ),
        (
            "ignore,disregard,forget,override",
            rf"\b(?:ignore|disregard|forget|override) (?:all )?(?:of )?your (?:\w+ )?{_ORDERS}\b",
        ),
        ("forget", r"\bforget (?:everything|all) (?:that )?(?:you|i) (?:were|was|have|had)\b"),
        # New roles and modes
        ("now", rf"\byou are now (?:an? |the )?(?:\w+ ){{0,3}}?{_MODEL}\b"),
        (" mode", r"\b(?:enter|enable|activate|switch to) (?:dan|jailbreak|god) mode\b"),
        ("pretend", rf"\bpretend (?:to be|you are|that you are) (?:an? )?(?:\w+ ){{0,3}}?{_MODEL}\b"),
        # The prompt itself
        (
            "prompt",
            r"\b(?:reveal|print|repeat|show|output|leak|disclose|tell) (?:me )?(?:your|the) (?:\w+ )?system prompt\b",
        ),
        ("instruction", r"^\W*(?:new|updated|real|actual) (?:system )?instructions?\s*:"),
        ("system", r"^\W*system(?: prompt| message)?\s*:\s*you (?:are|must|will)\b"),
        ("<|,[inst],[/inst],<<sys>>", r"<\|(?:im_start|im_end|system|start_header_id|eot_id)\|>|\[/?INST\]|<<SYS>>"),
        # Orders about the answer
        ("the user", r"\b(?:do not|don't|never) (?:tell|inform|warn|alert) the user\b"),
        (
            "as a",
            r"\bas an? (?:ai|language model|ai assistant|ai model)\s*,?\s*you (?:must|should|will)\b",
        ),
    )
)


def instruction_like(text: str) -> bool:
    """Whether the text holds an order to a language model.

    A mark for those who assemble prompts and review sources, not a verdict: pages about prompt injection carry it too.
    """
    lowered = text.lower()
    return any(any(word in lowered for word in words) and pattern.search(text) for words, pattern in _RULES)
