"""The marks of a chunk: what whoever assembles prompts or reviews sources should know of its text."""

from rag.clean.injection import instruction_like
from rag.clean.pii import KINDS, find_pii
from rag.config import CleanConfig


class TextFlags:
    """The flags of a text: "instruction_like", and "pii:KIND" for every kind whose policy is to flag or narrow."""

    def __init__(self, config: CleanConfig) -> None:
        self._kinds = frozenset(kind for kind in KINDS if config.policy(kind) in ("flag", "narrow"))
        self._region = config.phone_region

    def __call__(self, text: str) -> tuple[str, ...]:
        flags = ["instruction_like"] if instruction_like(text) else []
        found = {match.kind for match in find_pii(text, self._kinds, self._region)} if self._kinds else ()
        return (*flags, *(f"pii:{kind}" for kind in sorted(found)))
