"""Contexts that teach to quote, cite and refuse."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from rag.config import LexicalIndexConfig
from rag.embed.hashing import HashingEmbedder
from rag.generate.attribution import AnswerStream
from rag.generate.prompt import ANSWER_LABEL, REFUSAL
from rag.train.labelled import LabelledQuestion
from rag.train.raft import (
    PassageRanker,
    RaftBuilder,
    RaftGroup,
    RaftOptions,
    kinds,
    quoting_target,
    sample_documents,
    supporting_sentence,
    window,
)
from rag.train.raft_scores import score, scored_answer
from rag.train.raft_variants import detokenised, hijack, other_value, table

TOWNS = ("Aarau", "Baden", "Chur", "Davos", "Egg", "Flims", "Goms", "Horw", "Ilanz", "Jona")


def _passage(town: str, number: int) -> str:
    return (
        f"{town} lies between two lakes and is known for its old bridge. The market hall of {town} was opened in "
        f"{1800 + number} and holds {20 + number} stalls. Trains to {town} leave every {5 + number} minutes from the "
        f"northern platform. The mayor of {town} is elected for {2 + number} years by all who live there."
    )


def _questions() -> list[LabelledQuestion]:
    found = []
    for number, town in enumerate(TOWNS):
        passage = _passage(town, number)
        asked = {
            f"When was the market hall of {town} opened?": f"{1800 + number}",
            f"How often do trains to {town} leave?": f"every {5 + number} minutes",
            f"How long does the mayor of {town} serve?": f"{2 + number} years",
        }
        found += [LabelledQuestion(q, passage, answer, town, "towns", town) for q, answer in asked.items()]
        found.append(LabelledQuestion(f"Who built the bridge of {town}?", passage, "", town, "towns", town))
    return found


def _groups(options: RaftOptions, embed: bool = True) -> list[RaftGroup]:
    embedder = HashingEmbedder() if embed else None
    return list(RaftBuilder(_questions(), embedder, LexicalIndexConfig(), options).groups(len(TOWNS)))


GROUPS = _groups(RaftOptions(passage_words=(60, 80), conflict_share=0.5, table_share=0.3, several_share=0.5))


def test_a_target_is_what_the_check_lets_through_and_shows_with_its_answer() -> None:
    for group in GROUPS:
        for example in group.examples:
            if not example.golden:
                assert example.target == REFUSAL
                continue
            scored = scored_answer(example, example.target)
            assert scored.answered
            assert scored.holds_gold
            assert scored.short_right
            assert scored.cited == frozenset(example.golden)
            assert REFUSAL not in scored.text


def test_every_kind_of_example_comes_up() -> None:
    found = kinds(GROUPS)
    assert set(found) == {"answer", "several", "conflict", "table", "unanswerable", "absent"}
    assert any(group.hijacked for group in GROUPS)


def test_the_prompts_of_a_group_differ_in_the_question_alone() -> None:
    for group in GROUPS:
        shown = {example.prompt.messages[-1].content.rpartition("Question: ")[0] for example in group.examples}
        assert len(shown) == 1
        assert len({example.prompt.messages[:-1] for example in group.examples}) == 1


def test_what_is_refused_is_not_in_the_passages() -> None:
    answers = {question.question: question.answer for question in _questions()}
    for group in GROUPS:
        for example in group.examples:
            if example.kind == "absent":
                question = example.prompt.messages[-1].content.rpartition("Question: ")[2]
                assert all(answers[question] not in passage.text for passage in example.prompt.passages)


def test_the_newest_of_two_versions_is_the_answer_and_both_are_cited() -> None:
    conflicts = [example for group in GROUPS for example in group.examples if example.kind == "conflict"]
    for example in conflicts:
        newer, older = (example.prompt.passages[number - 1] for number in example.golden)
        assert newer.chunk.metadata.updated_at > older.chunk.metadata.updated_at  # type: ignore[operator]
        assert example.answer in newer.text
        assert example.answer not in older.text


def test_distractors_are_what_retrieval_returns() -> None:
    ranker = PassageRanker([_passage(town, n) for n, town in enumerate(TOWNS)], HashingEmbedder(), LexicalIndexConfig())
    assert ranker.rank("market hall of Chur", 3)[0] == _passage("Chur", 2)
    assert len(ranker.rank("market hall of Chur", 3)) == 3
    lexical = PassageRanker([_passage(town, n) for n, town in enumerate(TOWNS)], None, LexicalIndexConfig())
    assert lexical.rank("market hall of Chur", 3)[0] == _passage("Chur", 2)


def test_the_same_seed_gives_the_same_contexts() -> None:
    options = RaftOptions(seed=3)
    assert _groups(options, embed=False) == _groups(options, embed=False)
    assert _groups(options, embed=False) != _groups(replace(options, seed=4), embed=False)


def test_whole_documents_are_sampled_and_sources_get_the_same_share() -> None:
    many = _questions()
    other = [replace(question, source="villages", document=f"v{question.document}") for question in many[:8]]
    kept = sample_documents([*many, *other], 4)
    assert len({question.passage for question in kept}) >= 2
    assert {question.source for question in kept} == {"towns", "villages"}
    for document in {question.document for question in kept}:
        assert {q for q in kept if q.document == document} == {q for q in [*many, *other] if q.document == document}


# ---------------------------------------------------------------- the parts


@pytest.mark.parametrize(
    ("quotes", "answer", "target"),
    [
        ([("Badges last one day.", 2)], "one day", '"Badges last one day." [2] Answer: one day.'),
        ([('He said "no" [3] to\n all.', 1)], "no", "\"He said 'no' (3) to all.\" [1] Answer: no."),
        ([("Badges last one day.", 2)], "Badges last one day", '"Badges last one day." [2]'),
        (
            [("It is five euros.", 1), ("It was four euros.", 3)],
            "five euros.",
            '"It is five euros." [1] "It was four euros." [3] Answer: five euros.',
        ),
    ],
)
def test_targets_quote_first_and_answer_where_the_answer_is_shorter(
    quotes: Sequence[tuple[str, int]], answer: str, target: str
) -> None:
    assert quoting_target(quotes, answer) == target


def test_the_sentence_that_holds_the_answer_supports_it() -> None:
    text = "Badges are blue. A badge lasts one day. Too short?"
    assert supporting_sentence(text, "one day") == "A badge lasts one day."
    assert supporting_sentence(text, "two days") is None
    text = "One day passed. A badge lasts one day."
    assert supporting_sentence(text, "ne day") == "One day passed."
    assert supporting_sentence(text, "ne day", "How long is a badge valid?") == "A badge lasts one day."
    assert supporting_sentence("word " * 60 + "one day", "one day") is None


def test_a_window_is_whole_sentences_around_what_is_wanted() -> None:
    text = " ".join(f"This is sentence number {n} of the text." for n in range(9))
    wanted = "This is sentence number 5 of the text."
    for seed in range(5):
        cut = window(text, wanted, 25, random.Random(seed))
        assert wanted in cut
        assert cut in text
        assert len(cut.split()) <= 25
    assert window(text, "", 10, random.Random(0)).startswith("This is sentence number 0")


def test_another_version_has_another_number() -> None:
    assert other_value("Fee: 12 CHF. Pay 12 CHF.", "12 CHF", random.Random(1)) != ("Fee: 12 CHF. Pay 12 CHF.", "12 CHF")
    changed = other_value("Fee: 12 CHF.", "12 CHF", random.Random(1))
    assert changed is not None
    assert changed[1] in changed[0]
    assert other_value("Fee: twelve.", "twelve", random.Random(1)) is None


def test_a_table_answers_its_questions() -> None:
    made = table(random.Random(2))
    for _, quote, answer in made.questions:
        assert quote in made.text
        assert answer in quote


def test_orders_vary() -> None:
    draw = random.Random(0)
    assert len({hijack(draw) for _ in range(50)}) > 30


def test_the_spaces_of_tokenisers_go() -> None:
    assert detokenised("In 1908 , the first five - day week ( USA ) .") == "In 1908, the first five-day week (USA)."
    assert detokenised("the country 's share , 39 %") == "the country's share, 39%"
    assert detokenised("Left as it is - really.") == "Left as it is - really."


# ---------------------------------------------------------------- scores


def test_right_answers_score_one_and_refusing_everything_does_not() -> None:
    examples = [example for group in GROUPS for example in group.examples]
    best = score(examples, [example.target for example in examples])
    assert (best.answered, best.holds_gold, best.short_right, best.refused) == (1.0, 1.0, 1.0, 1.0)
    assert (best.citation_precision, best.citation_recall, best.num_looping) == (1.0, 1.0, 0)
    silent = score(examples, [REFUSAL] * len(examples))
    assert (silent.answered, silent.holds_gold, silent.refused) == (0.0, 0.0, 1.0)
    assert silent.num_answerable + silent.num_unanswerable == len(examples)


def test_an_answer_is_scored_as_it_would_be_served() -> None:
    example = next(e for group in GROUPS for e in group.examples if e.kind == "answer" and ANSWER_LABEL in e.target)
    invented = scored_answer(example, f'"Bears eat honey in the woods." [1] {ANSWER_LABEL} {example.answer}.')
    assert not invented.answered
    stream = AnswerStream(example.prompt.passages, 0.6)
    stream.feed(example.target)
    stream.close()
    assert scored_answer(example, example.target).text == stream.text
