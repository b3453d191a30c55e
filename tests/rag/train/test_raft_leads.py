"""Training examples begin as served answers begin."""

from dataclasses import replace

import pytest

from rag.generate.prompt import REFUSAL
from rag.rerank.overlap import OverlapReranker
from rag.train.raft import RaftExample
from rag.train.raft_leads import LeadWriter, target_behind
from rag.train.raft_scores import scored_answer
from tests.rag.train.test_raft import GROUPS

LED = tuple(LeadWriter(OverlapReranker(), 3.0, 3).begin_all(GROUPS))


def test_lead_and_target_together_are_the_right_answer() -> None:
    examples = [example for group in LED for example in group.examples]
    answered = [example for group in GROUPS for example in group.examples if example.golden]
    assert [example.answer for example in examples] == [example.answer for example in answered]
    assert any(example.target.startswith("Answer:") for example in examples)
    for example in examples:
        assert example.prompt.lead
        scored = scored_answer(example, f"{example.prompt.lead} {example.target}")
        assert scored.holds_gold
        assert scored.short_right
        assert scored.cited >= set(example.golden)
        assert REFUSAL not in scored.text


def test_progress_counts_groups() -> None:
    seen: list[tuple[int, int]] = []
    list(LeadWriter(OverlapReranker(), 3.0, 1).begin_all(GROUPS[:2], lambda done, total: seen.append((done, total))))
    assert seen == [(1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("lead", "target"),
    [
        ('"The hall was opened in 1804 and is old." [2]', "Answer: 1804."),
        ('"The hall was opened in 1804 and is old." [1]', '"It was opened in 1804 by all." [2] Answer: 1804.'),
        ('"Trains leave." [2] "It was opened in 1804 by all." [2]', "Answer: 1804."),
        ("", "as it was"),
    ],
)
def test_what_the_lead_does_not_say_is_left_to_say(lead: str, target: str) -> None:
    example = RaftExample(
        GROUPS[0].examples[0].prompt, "as it was", "answer", "1804", (2,), (("It was opened in 1804 by all.", 2),)
    )
    assert target_behind(lead, example) == target


def test_every_missing_one_of_several_quotes_is_left_to_say() -> None:
    quotes = (("Two days in May.", 1), ("Three days in June.", 2))
    example = RaftExample(GROUPS[0].examples[0].prompt, "", "several", "Two days; three days", (1, 2), quotes)
    behind = target_behind('"Two days in May." [1]', example)
    assert behind == '"Three days in June." [2] Answer: Two days; three days.'
    assert target_behind('"Two days in May." [1]', replace(example, answer="Two days in May. Three days in June.")) == (
        '"Three days in June." [2]'
    )
