"""Training a generator: contexts with several questions teach what their examples teach one by one."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rag.data import Message, Prompt
from rag.errors import InputError
from rag.train.raft import RaftExample, RaftGroup
from rag.train.raft_trainer import RaftState, RaftTrainer, RaftTrainingOptions, encode_group, group_loss
from tests.tiny_models import tiny_language_model

_SHARED = "[1] Leave\nTwo days.\n\nQuestion: "


def _example(question: str, target: str) -> RaftExample:
    prompt = Prompt((Message("system", "Quote."), Message("user", _SHARED + question)), ())
    return RaftExample(prompt, target, "answer", "x", (1,))


GROUP = RaftGroup(
    (
        _example("How long?", '"Two days." [1] Answer: two.'),
        _example("Who?", "The documents do not answer this question."),
        _example("How many days?", '"Two days." [1]'),
    ),
    "leave",
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_language_model(tmp_path_factory.mktemp("model"))


def test_the_loss_of_a_group_is_the_loss_of_its_examples(directory: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    together = group_loss(model, encode_group(GROUP, tokenizer, 512))
    alone = [
        group_loss(model, encode_group(replace(GROUP, examples=(example,)), tokenizer, 512))
        for example in GROUP.examples
    ]
    assert together.item() == pytest.approx(sum(loss.item() for loss in alone), rel=1e-4)


def test_a_group_holds_what_its_prompts_share_once(directory: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(directory)
    group = encode_group(GROUP, tokenizer, 512)
    text = tokenizer.decode(group.token_ids)
    assert text.count("Two days.") == 3  # in the passage, and in two targets
    assert text.count("Question:") == 1
    learnt = tokenizer.decode(group.token_ids[group.targets])
    assert learnt == "".join(example.target + "<|im_end|>" for example in GROUP.examples)


def test_the_answer_behind_the_quote_weighs_more(directory: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(directory)
    group = encode_group(replace(GROUP, examples=GROUP.examples[:1]), tokenizer, 512, answer_weight=3.0)
    heavy = tokenizer.decode(group.token_ids[group.targets[group.weights == 3.0]])
    assert heavy.strip() == "two."


def test_behind_a_lead_only_what_is_left_to_say_is_learnt(directory: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(directory)
    lead = Message("assistant", '"Two days." [1]')
    begun = [
        replace(example, prompt=replace(example.prompt, messages=(*example.prompt.messages, lead)), target=target)
        for example, target in zip(GROUP.examples, ("Answer: two.", "", '"Two days." [1]'), strict=True)
    ]
    group = encode_group(replace(GROUP, examples=tuple(begun)), tokenizer, 512)
    end = "<|im_end|>"
    assert tokenizer.decode(group.token_ids[group.targets]) == f' Answer: two.{end}{end} "Two days." [1]{end}'
    assert tokenizer.decode(group.token_ids).count(f"{lead.content} Answer: two.{end}") == 1


def test_questions_that_do_not_fit_are_left_out(directory: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(directory)
    whole = encode_group(GROUP, tokenizer, 512)
    fewer = encode_group(GROUP, tokenizer, len(whole.token_ids) - 1)
    assert len(fewer.branches.unique()) == len(whole.branches.unique()) - 1
    with pytest.raises(InputError, match="leaves no room"):
        encode_group(GROUP, tokenizer, 20)


def test_training_learns_the_targets_goes_on_from_a_checkpoint_and_writes_what_it_can_read(
    directory: Path, tmp_path: Path
) -> None:
    options = RaftTrainingOptions(rank=8, learning_rate=2e-2, groups_per_step=1, epochs=30, num_workers=1)
    losses: list[float] = []
    trainer = RaftTrainer(directory, options, tmp_path / "work")
    done = trainer.train([GROUP], lambda state: losses.append(state.loss))
    assert losses[-1] < 0.97 * losses[0]  # the head of the tiny model is random, and stays
    assert (done.groups_done, done.examples_done) == (30, 90)

    trainer.save(tmp_path / "adapter", "a-model")
    again = RaftTrainer(directory, options)
    assert again.write(GROUP.examples, 4) != trainer.write(GROUP.examples, 4)
    again.load(tmp_path / "adapter")
    assert again.write(GROUP.examples, 8) == trainer.write(GROUP.examples, 8)

    resumed: list[RaftState] = []
    finished = RaftTrainer(directory, options, tmp_path / "work").train([GROUP], resumed.append)
    assert (resumed, finished) == ([], done)
    with pytest.raises(InputError, match="delete it"):
        RaftTrainer(directory, replace(options, epochs=2), tmp_path / "work").train([GROUP], resumed.append)


def test_several_workers_compute_the_step_of_one(directory: Path) -> None:
    groups = [GROUP, replace(GROUP, examples=GROUP.examples[:2])]
    options = RaftTrainingOptions(rank=4, learning_rate=1e-2, epochs=3)
    losses: dict[int, list[float]] = {1: [], 2: []}
    for num_workers, seen in losses.items():
        trainer = RaftTrainer(directory, replace(options, num_workers=num_workers))
        trainer.train(groups, lambda state, seen=seen: seen.append(state.loss))  # type: ignore[misc]  # bound now
    assert losses[1] == pytest.approx(losses[2], rel=1e-3)
