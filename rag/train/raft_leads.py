"""Examples as the service puts them: the answer begun with the reranker's quotes, what is left to say as the target."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from rag.generate.lead import quotable_sentences, with_lead
from rag.generate.prompt import question_of, quotable, quotes_in
from rag.protocols import Reranker
from rag.train.raft import RaftExample, RaftGroup, behind_quotes


class LeadWriter:
    """Begins the answers of examples with at most `max_quotes` sentences, as `rag.pipeline` begins an answer."""

    def __init__(self, reranker: Reranker, identifier_weight: float, max_quotes: int) -> None:
        self._reranker, self._identifier_weight, self._max_quotes = reranker, identifier_weight, max_quotes

    def begin_all(
        self, groups: Sequence[RaftGroup], progress: Callable[[int, int], None] = lambda done, total: None
    ) -> Iterator[RaftGroup]:
        """The groups with the answers of their examples begun; groups without answers are left out.

        So are refusals: where answers are begun, whether to answer is decided before the model is asked. A model of a
        hundred million parameters that was taught to refuse behind quotes refused a seventh of what they answer.
        """
        for done, group in enumerate(groups, start=1):
            if answers := tuple(self.begin(example) for example in group.examples if example.golden):
                yield replace(group, examples=answers)
            progress(done, len(groups))

    def begin(self, example: RaftExample) -> RaftExample:
        """The example with its answer begun; as it is where no sentence of its passages can be quoted."""
        question, found = question_of(example.prompt), quotable_sentences(example.prompt.passages)
        scores = self._reranker.score(question, [sentence.shown for sentence in found])
        prompt = with_lead(example.prompt, question, found, scores, self._identifier_weight, self._max_quotes)
        return replace(example, prompt=prompt, target=target_behind(prompt.lead, example))


def target_behind(lead: str, example: RaftExample) -> str:
    """What is left to say behind quotes: those of the example that are missing, and its answer; "" where they say all.

    A golden passage's quote that holds the answer is as good as the example's own.
    """
    if not lead:
        return example.target
    said = quotes_in(lead)
    answer = quotable(example.answer)
    held = len(example.quotes) == 1 and any(number in example.golden and answer in text for text, number in said)
    missing = () if held else tuple(quote for quote in example.quotes if quotable(quote[0]) not in lead)
    return behind_quotes(said, missing, example.answer)
