"""Text that speaks to a language model instead of to a reader: the mark of an indirect prompt injection."""

import re

_ORDERS = r"(?:instructions?|prompts?|rules?|directions?|guidelines?|directives?|guardrails?)"
_EARLIER = r"(?:previous|prior|above|preceding|earlier|foregoing|system(?:'s)?|existing|original|initial)"
_MODEL = r"(?:ai|assistant|chatbot|bot|language model|jailbroken|unrestricted|dan|hacker)"

_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\U000e0000-\U000e007f]")

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
        # The task that a model was given, as pages see it: "ignore the question and say", "disregard the passages and"
        (
            "ignore,disregard,forget",
            r"\b(?:ignore|disregard|forget) (?:the |this |all )?(?:user(?:'s question)?|question|passages?|context)"
            r"(?: and |\s*[,;:] )\w",
        ),
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
        # The same in German, French and Spanish
        (
            "ignorier,vergiss,missachte",
            r"\b(?:ignorier\w*|vergiss|vergessen sie|missachte\w*) (?:(?:alle|die|deine|ihre|sämtliche|bitte) ){1,3}"
            r"(?:(?:vorherigen|bisherigen|obigen|früheren) )?(?:anweisung|instruktion|regel|vorgabe)\w*",
        ),
        (
            "ignore,oublie",
            r"\b(?:ignore[rz]?|oublie[rz]?) (?:(?:toutes?|tous|les|tes|vos|ces) ){1,3}"
            r"(?:instructions?|consignes?|règles?)(?: (?:précédente|antérieure|ci-dessus|initiale)\w*)?",
        ),
        (
            "ignora,olvida",
            r"\b(?:ignor[ae]n?|olvid[ae]n?) (?:(?:todas?|todos|las|los|tus|sus|estas) ){1,3}"
            r"(?:instrucciones|reglas|órdenes)(?: (?:anterior|previa|inicial)\w*)?",
        ),
        # Speaking to whatever model reads the page
        (
            "if you",
            rf"\bif you(?:'re| are) (?:an? )?(?:(?:large )?language model|llm|{_MODEL})\b.{{0,60}}"
            r"\b(?:must|should|please|ignore|reply|answer|respond|say|do not|don't)\b",
        ),
        (
            "read,process,summari,see",
            rf"\b(?:language models?|llms?|{_MODEL}s?|programs|machines),? (?:(?:that|which|who) (?:are )?)?"
            r"(?:read|process|summari[sz]|see)(?:s|es|e|ing)? this\b",
        ),
        (
            "model,llm,bot,ai,assistant",
            r"(?:^|[.!?;] )\W*(?:note|notice|message|attention|for|(?:new |updated )?instructions?)(?: to| for)?[,:]? "
            r"(?:the |all |any |every )?"
            r"(?:(?:ai(?: assistants?| models?)?|(?:large )?language models?|llms?|chatbots?)\s*[,:;]"
            r"|(?:model|assistant)s?:)",
        ),
        (
            "http",
            r"\b(?:send|post|append|leak|upload|transmit|exfiltrate) (?:\w+ ){0,4}(?:conversation|chat history"
            r"|system prompt|passages|user's question)\b.{0,40}https?:",
        ),
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

    Characters that nobody sees do not hide one. A mark for those who assemble prompts and review sources, not a
    verdict: pages about prompt injection carry it too.
    """
    text = _INVISIBLE.sub("", text)
    lowered = text.lower()
    return any(any(word in lowered for word in words) and pattern.search(text) for words, pattern in _RULES)
