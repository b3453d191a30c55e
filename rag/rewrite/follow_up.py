"""Follow-up questions made stand-alone: by the language model where its answer can be trusted, else by a rule."""

import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import replace

from rag.config import RewriteConfig
from rag.data import Message, Prompt, Query, Question, Turn
from rag.errors import RagError
from rag.guard.access import permission_scope
from rag.protocols import Generator
from rag.rewrite.rules import normalise, rewrite_by_rules
from rag.rewrite.words import content_stems, content_words, exact_terms, stem

logger = logging.getLogger(__name__)

BY_MODEL = "follow_up_model"  # in `Query.rewrites`: the words are a language model's, so they can't be made again
MIN_STAND_ALONE_WORDS = 6  # content words that make the model unnecessary
MIN_OWN_WORDS = 3  # content words that make words of earlier turns harmful
_MAX_TURN_CHARACTERS = 300  # of an earlier message, in the prompt
_MAX_LINE_CHARACTERS = 600  # of what the model writes, before it is stopped

_CUE = re.compile(
    r"^(?:and|but|or|so|then|also)\b|^(?:why|how|where|when|who|which|how so|why not)\W*$|\b(?:what|how) about\b"
    r"|\b(?:it|its|they|them|their|theirs|those|he|she|him|his|her|hers|ones|same|former|latter|else|instead)\b"
    r"|\b(?:this|these)\b(?!\s+(?:year|month|week|quarter)s?\b)|\bthere\W*$"
    # "that" points back at the end, after a preposition or a verb, and before "one"; elsewhere it opens a clause.
    r"|\bthat\b(?=\W*$|\s+ones?\b)|\b(?:about|after|before|by|do|does|for|from|in|is|of|on|to|was|with)\s+that\b",
    re.IGNORECASE,
)
_LABEL = re.compile(r"^\W*(?:(?:rewritten|stand-?alone|new|full|last)\s+)*question\s*:\s*", re.IGNORECASE)

_RULES = (
    "Rewrite the last question so that it can be understood without the conversation. "
    "Use only words of the conversation. Write the question and nothing else."
)
_EXAMPLES = (
    (
        "User: How many desks are in the Lisbon office?\nAssistant: There are 40 desks.\nLast question: And in Porto?",
        "How many desks are in the Porto office?",
    ),
    (
        "User: Which team owns the billing service?\nAssistant: The Payments team.\nLast question: Who leads it?",
        "Who leads the team that owns the billing service?",
    ),
)


class QuestionRewriter:
    """Rules for every question, and the model for one that leans on what was said before.

    Names in `Query.rewrites`, beside those of the rules: "stand_alone" (there is history, and it is not needed),
    "follow_up_model" (the model's words), "follow_up_words" (words of earlier questions, added).
    """

    def __init__(self, config: RewriteConfig, generator: Generator | None = None) -> None:
        self._config = config
        self._generator = generator

    async def rewrite(self, question: Question) -> Query:
        """A stand-alone query. A model that fails or strays is answered by the rule of `rewrite_without_model`."""
        turns = self._turns(question)
        if not turns or self._generator is None or not self._config.follow_ups or is_stand_alone(question.text):
            return self.rewrite_without_model(question)
        try:
            scope = permission_scope(question.principal)
            prompt = replace(follow_up_prompt(question.text, turns), scope=scope)
            line = await _first_line(self._generator.generate(prompt))
        except RagError as error:
            logger.warning("rewrite: the model failed, using words of the history: %s", type(error).__name__)
            return self.rewrite_without_model(question)
        rewritten = clean_line(line)
        if not is_faithful(rewritten, question.text, turns):
            logger.info("rewrite: the model strayed, using words of the history")
            return self.rewrite_without_model(question)
        return self._query(rewritten, question.text, BY_MODEL)

    def rewrite_without_model(self, question: Question) -> Query:
        """The query of rules alone: also what a caller uses when the model is late."""
        turns = self._turns(question)
        if not turns:
            return rewrite_by_rules(question.text, self._config)
        if is_stand_alone(question.text):
            return self._query(question.text, question.text, "stand_alone")
        borrowed = earlier_words(question.text, turns)
        if not borrowed:
            return rewrite_by_rules(question.text, self._config)
        return self._query(f"{question.text} ({' '.join(borrowed)})", question.text, "follow_up_words")

    def _turns(self, question: Question) -> tuple[Turn, ...]:
        limit = self._config.max_history_turns
        return question.history[-limit:] if limit else ()

    def _query(self, text: str, original: str, rule: str) -> Query:
        ruled = rewrite_by_rules(text, self._config)
        return Query(text=ruled.text, original=original, rewrites=(rule, *ruled.rewrites))


def leans_on_history(text: str) -> bool:
    """Whether the question holds a word that points back: a pronoun, "what about", a leading "and"."""
    return _CUE.search(normalise(text)) is not None


def is_stand_alone(text: str) -> bool:
    """Whether the question can be searched for as it is: nothing points back, and it says enough."""
    return not leans_on_history(text) and len(content_words(text)) >= MIN_STAND_ALONE_WORDS


def earlier_words(text: str, turns: Sequence[Turn]) -> list[str]:
    """The content words of the latest user turns that the question does not hold itself, in their order.

    Turns are read back from the latest until one that does not lean on another. None where the question points at
    nothing and has words enough of its own: words of another topic would only pull the search away.
    """
    if not leans_on_history(text) and len(content_words(text)) >= MIN_OWN_WORDS:
        return []
    borrowed: list[list[str]] = []
    seen = {stem(word.lower()) for word in content_words(text)}
    for turn in reversed([turn for turn in turns if turn.role == "user"]):
        fresh = []
        for word in content_words(turn.content):
            if (key := stem(word.lower())) not in seen:
                seen.add(key)
                fresh.append(word)
        borrowed.insert(0, fresh)
        if fresh and not leans_on_history(turn.content):
            break
    return [word for words_of_turn in borrowed for word in words_of_turn]


def follow_up_prompt(text: str, turns: Sequence[Turn]) -> Prompt:
    """A prompt that asks for the stand-alone form of the question, with two examples."""
    messages = [Message("system", _RULES)]
    for conversation, rewritten in _EXAMPLES:
        messages += [Message("user", conversation), Message("assistant", rewritten)]
    said = [
        f"{'User' if turn.role == 'user' else 'Assistant'}: {normalise(turn.content)[:_MAX_TURN_CHARACTERS]}"
        for turn in turns
    ]
    messages.append(Message("user", "\n".join([*said, f"Last question: {normalise(text)}"])))
    return Prompt(messages=tuple(messages), passages=())


def clean_line(line: str) -> str:
    """The model's line without a label, and without quotes around it."""
    return normalise(_LABEL.sub("", line)).strip("\"' ")


def is_faithful(rewritten: str, text: str, turns: Sequence[Turn]) -> bool:
    """Whether the rewritten question asks what was asked.

    It keeps more than half of the question's content words and all of its numbers and identifiers, adds none of these
    that were not said, takes at least two thirds of its words from the conversation, points back at nothing, and is at
    most three times as long as the question or the one before, whichever is longer.
    """
    conversation = " ".join([text, *(turn.content for turn in turns)])
    asked, meant, said = content_stems(text), content_stems(rewritten), content_stems(conversation)
    last = next((turn.content for turn in reversed(turns) if turn.role == "user"), "")
    return (
        bool(meant)
        and "\n" not in rewritten
        and len(rewritten) <= 3 * max(len(text), len(last))
        and (rewritten.endswith("?") or bool(meant & asked))
        and (not asked or 2 * len(meant & asked) > len(asked))
        and 3 * len(meant & said) >= 2 * len(meant)
        and exact_terms(text) <= exact_terms(rewritten) <= exact_terms(conversation)
        and not leans_on_history(rewritten)
    )


async def _first_line(pieces: AsyncIterator[str]) -> str:
    text = ""
    try:
        async for piece in pieces:
            text += piece
            if "\n" in text.lstrip() or len(text) > _MAX_LINE_CHARACTERS:
                break
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()
    return text.strip().partition("\n")[0]
