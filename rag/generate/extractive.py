"""A generator without a model: it answers with sentences of the passages."""

from collections.abc import AsyncIterator

from rag.data import Passage, Prompt
from rag.generate.prompt import REFUSAL, question_of
from rag.generate.sentences import sentences
from rag.rewrite.words import content_stems

_MIN_WORDS = 3  # fewer content words than this are a heading, not an answer


class ExtractiveGenerator:
    """Answers with the sentences that share most content words with the question, each followed by its " [n]".

    Deterministic and cheap: for tests, and for places without a language model.
    """

    def __init__(self, max_sentences: int = 2) -> None:
        self._max_sentences = max_sentences

    async def generate(self, prompt: Prompt) -> AsyncIterator[str]:
        """One piece a sentence, strongest passage first; the refusal where no sentence shares a word."""
        for piece in quote_passages(prompt, self._max_sentences) or [REFUSAL]:
            yield piece


def quote_passages(prompt: Prompt, max_sentences: int = 2) -> list[str]:
    """The prompt's sentences that share most with its question, each with " [n]"; empty where none shares a word."""
    pieces: list[str] = []
    for number, sentence in best_sentences(question_of(prompt), prompt.passages, max_sentences):
        body = sentence.rstrip(".!?。！？…")
        pieces.append(f"{' ' if pieces else ''}{body} [{number}]{sentence[len(body) :] or '.'}")
    return pieces


def best_sentences(question: str, passages: tuple[Passage, ...], limit: int) -> list[tuple[int, str]]:
    """(passage number, sentence) of the sentences that share most with the question, in order of the passages.

    Ties go to the better passage, then to the earlier sentence. A sentence that shares less than half of what the best
    one shares is left out.
    """
    asked = content_stems(question)
    scored: list[tuple[int, int, int, str]] = []
    for passage in passages:
        for place, sentence in enumerate(sentences(passage.text)):
            stems = content_stems(sentence)
            shared = len(stems & asked)
            if shared and len(stems) >= _MIN_WORDS:
                scored.append((-shared, passage.number, place, " ".join(sentence.split())))
    best = sorted(scored)[:limit]
    worth = [item for item in best if 2 * item[0] <= best[0][0]]
    return [(number, sentence) for _, number, _, sentence in sorted(worth, key=lambda item: item[1:3])]
