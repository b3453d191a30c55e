"""Trains a generator's adapter on contexts with several questions: LoRA over a causal language model.

A context and its questions are one sequence: first the tokens that all its prompts begin with, then for each question
the rest of its prompt and its target, as a branch that sees the shared tokens and itself, at the positions that it
would have alone. The loss is that of the same examples one by one, and the passages are read once. Nothing is padded,
and logits are computed for the tokens of targets only.

Source of LoRA: Hu et al., ICLR 2022.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from rag.embed.forward import quiet_loading
from rag.errors import InputError, ModelError
from rag.generate.precision import fast_dtype
from rag.generate.prompt import ANSWER_LABEL
from rag.train.raft import RaftExample, RaftGroup
from rag.train.writers import prompt_token_ids, write_greedily

logger = logging.getLogger(__name__)

ADAPTER, SETTINGS, CHECKPOINT = "adapter_model.safetensors", "adapter_config.json", "checkpoint.pt"


@dataclass(frozen=True, slots=True)
class RaftTrainingOptions:
    """How the adapter is trained."""

    rank: int = 16
    alpha: int = 32
    learning_rate: float = 1e-3  # decays linearly to 0 over the run
    warmup_share: float = 0.05  # of the run, until the full learning rate
    weight_decay: float = 0.0
    max_gradient_norm: float = 1.0
    groups_per_step: int = 2
    epochs: int = 1
    max_minutes: float = 60.0  # the schedule ends here, however far it has come
    checkpoint_minutes: float = 5.0
    max_tokens: int = 2_048  # of a group; questions that do not fit are left out
    answer_weight: float = 2.0  # of the tokens behind "Answer:", of which a target has few
    num_workers: int = 0  # threads, each with a group of its own; 0: one a core on a CPU, one on a GPU
    seed: int = 0


@dataclass(frozen=True, slots=True)
class EncodedGroup:
    """A group as one sequence."""

    token_ids: torch.Tensor  # int64 (length,)
    positions: torch.Tensor  # int64 (length,)
    branches: torch.Tensor  # int64 (length,); -1: shared
    targets: torch.Tensor  # int64 (num_targets,): places of the tokens to learn
    weights: torch.Tensor  # float32 (num_targets,)

    def mask(self, dtype: torch.dtype) -> torch.Tensor:
        """What may be seen, to be added to attention scores: (1, 1, length, length)."""
        length = len(self.token_ids)
        earlier = torch.ones(length, length, dtype=torch.bool).tril()
        visible = (self.branches[None, :] == -1) | (self.branches[None, :] == self.branches[:, None])
        blocked = torch.full((length, length), torch.finfo(dtype).min, dtype=dtype)
        return blocked.masked_fill(earlier & visible, 0.0)[None, None]


@dataclass(frozen=True, slots=True)
class RaftState:
    """Where a run is."""

    groups_done: int
    num_groups: int
    examples_done: int
    tokens_done: int
    seconds: float
    loss: float  # of the last step, a token


def encode_group(group: RaftGroup, tokenizer: Any, max_tokens: int, answer_weight: float = 1.0) -> EncodedGroup:
    """The group as one sequence of at most `max_tokens`. Raises InputError when not one example fits.

    `tokenizer` is one of transformers, with a chat template.
    """
    rendered = [(prompt_token_ids(example.prompt, tokenizer), example) for example in group.examples]
    shared = _common_prefix([ids[:-1] for ids, _ in rendered])
    token_ids, positions, branches = list(shared), list(range(len(shared))), [-1] * len(shared)
    targets: list[int] = []
    weights: list[float] = []
    for branch, (prompt_ids, example) in enumerate(rendered):
        rest = prompt_ids[len(shared) :]
        behind = " " if example.prompt.lead and example.target else ""
        target_ids, target_weights = _target(behind + example.target, tokenizer, answer_weight)
        if len(token_ids) + len(rest) + len(target_ids) > max_tokens:
            continue
        targets += range(len(token_ids) + len(rest), len(token_ids) + len(rest) + len(target_ids))
        weights += target_weights
        token_ids += [*rest, *target_ids]
        positions += range(len(shared), len(shared) + len(rest) + len(target_ids))
        branches += [branch] * (len(rest) + len(target_ids))
    if not targets:
        raise InputError(f"a context of {len(shared)} tokens leaves no room for a question within {max_tokens}")
    as_tensor = torch.tensor
    return EncodedGroup(
        as_tensor(token_ids),
        as_tensor(positions),
        as_tensor(branches),
        as_tensor(targets),
        as_tensor(weights, dtype=torch.float32),
    )


def group_loss(model: Any, group: EncodedGroup) -> torch.Tensor:
    """The weighted sum of the cross-entropies of the group's target tokens, as a scalar."""
    parameter = next(model.parameters())
    moved = group.token_ids.to(parameter.device)
    # Only the logits that predict a target: a vocabulary is the widest matrix of a small model.
    logits = model(
        input_ids=moved[None],
        attention_mask=group.mask(parameter.dtype).to(parameter.device),
        position_ids=group.positions.to(parameter.device)[None],
        logits_to_keep=(group.targets - 1).to(parameter.device),
        use_cache=False,
    ).logits[0]
    losses = torch.nn.functional.cross_entropy(logits.float(), moved[group.targets], reduction="none")
    return (losses * group.weights.to(losses.device)).sum()


class RaftTrainer:
    """Trains an adapter of a causal language model, with checkpoints from which it goes on."""

    def __init__(self, model_directory: Path, options: RaftTrainingOptions, work: Path | None = None) -> None:
        self._options, self._work = options, work
        cuda = torch.cuda.is_available()
        dtype = torch.bfloat16 if cuda else torch.float32  # a CPU without the instructions emulates bfloat16
        torch.manual_seed(options.seed)
        try:
            with quiet_loading():
                self.tokenizer = AutoTokenizer.from_pretrained(str(model_directory), local_files_only=True)
                bare = AutoModelForCausalLM.from_pretrained(
                    str(model_directory), local_files_only=True, dtype=dtype, attn_implementation="sdpa"
                )
        except (OSError, ValueError) as error:
            raise ModelError(f"{model_directory}: not a causal language model: {error}") from error
        settings = LoraConfig(
            r=options.rank, lora_alpha=options.alpha, target_modules="all-linear", task_type="CAUSAL_LM"
        )
        self.model = get_peft_model(bare.to("cuda" if cuda else "cpu"), settings)
        self._num_workers = options.num_workers or (1 if cuda else len(os.sched_getaffinity(0)))
        # A CPU with the instructions reads twice the tokens with its matrix products in bfloat16; the adapter and its
        # gradients stay in float32.
        self._mixed = not cuda and fast_dtype() == "bfloat16"

    def train(self, groups: Sequence[RaftGroup], progress: Callable[[RaftState], None]) -> RaftState:
        """Train on the groups in order, `epochs` times or until the time is up; the last state. Raises InputError."""
        options = self._options
        encoded = self._encoded(groups)
        schedule = encoded * options.epochs
        parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(parameters, lr=options.learning_rate, weight_decay=options.weight_decay)
        state = self._resume(optimizer, len(schedule))
        started, saved = time.monotonic() - state.seconds, time.monotonic()
        self.model.train()
        with ThreadPoolExecutor(self._num_workers, initializer=_one_thread, initargs=(self._num_workers,)) as workers:
            while state.groups_done < len(schedule) and state.seconds < 60 * options.max_minutes:
                share = max(state.groups_done / len(schedule), state.seconds / (60 * options.max_minutes))
                optimizer.param_groups[0]["lr"] = options.learning_rate * _learning_share(share, options.warmup_share)
                step = schedule[state.groups_done : state.groups_done + options.groups_per_step]
                losses = list(workers.map(lambda group: self._gradients(group, parameters), step))
                total = sum(float(group.weights.sum()) for group in step)
                for place, parameter in enumerate(parameters):
                    parameter.grad = sum(gradients[place] for _, gradients in losses) / total
                torch.nn.utils.clip_grad_norm_(parameters, options.max_gradient_norm)
                optimizer.step()
                state = RaftState(
                    groups_done=state.groups_done + len(step),
                    num_groups=len(schedule),
                    examples_done=state.examples_done + sum(int(g.branches.unique().numel()) - 1 for g in step),
                    tokens_done=state.tokens_done + sum(len(group.token_ids) for group in step),
                    seconds=time.monotonic() - started,
                    loss=sum(loss for loss, _ in losses) / total,
                )
                progress(state)
                if time.monotonic() - saved > 60 * options.checkpoint_minutes:
                    saved = time.monotonic()
                    self._checkpoint(optimizer, state)
        self._checkpoint(optimizer, state)
        self.model.eval()
        return state

    def save(self, folder: Path, base: str) -> None:
        """Write the adapter in PEFT's format, its weights in float16; `base` is the registry name of the model."""
        folder.mkdir(parents=True, exist_ok=True)
        weights = {
            name: value.to(torch.float16).contiguous().cpu()
            for name, value in get_peft_model_state_dict(self.model).items()
        }
        save_file(weights, folder / ADAPTER)
        settings = self.model.peft_config["default"].to_dict()
        settings.update(base_model_name_or_path=base, inference_mode=True, revision=None)
        settings = {key: sorted(value) if isinstance(value, set) else value for key, value in settings.items()}
        (folder / SETTINGS).write_text(json.dumps(settings, indent=1, default=str) + "\n", encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Take over the weights that `save` wrote. Raises InputError."""
        if not (folder / ADAPTER).is_file():
            raise InputError(f"{folder}: no {ADAPTER} there")
        set_peft_model_state_dict(self.model, load_file(folder / ADAPTER))

    def write(self, examples: Sequence[RaftExample], max_tokens: int, batch_tokens: int = 4_096) -> list[str]:
        """The answer to each prompt, in order: its beginning, where it has one, and what the model writes, greedily."""
        self.model.eval()
        prompts = [example.prompt for example in examples]
        texts = write_greedily(self.model, self.tokenizer, prompts, max_tokens, batch_tokens)
        return [f"{prompt.lead} {text.strip()}".strip() for prompt, text in zip(prompts, texts, strict=True)]

    def _encoded(self, groups: Sequence[RaftGroup]) -> list[EncodedGroup]:
        """The groups that fit the model; a context that is too long is left out, and counted in the log."""
        encoded, too_long = [], ""
        for group in groups:
            try:
                encoded.append(
                    encode_group(group, self.tokenizer, self._options.max_tokens, self._options.answer_weight)
                )
            except InputError as error:
                too_long = str(error)
        if not encoded:
            raise InputError(too_long or "no contexts to train on")
        if too_long:
            logger.warning("%d of %d contexts left out: %s", len(groups) - len(encoded), len(groups), too_long)
        return encoded

    def _gradients(
        self, group: EncodedGroup, parameters: Sequence[torch.nn.Parameter]
    ) -> tuple[float, tuple[torch.Tensor, ...]]:
        """The group's loss and its gradients, without writing to the parameters: groups of one step run at once."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self._mixed):
            loss = group_loss(self.model, group)
        return float(loss.detach()), torch.autograd.grad(loss, list(parameters))

    def _checkpoint(self, optimizer: torch.optim.Optimizer, state: RaftState) -> None:
        if self._work is None:
            return
        self._work.mkdir(parents=True, exist_ok=True)
        kept = {
            "state": asdict(state),
            "adapter": get_peft_model_state_dict(self.model),
            "optimizer": optimizer.state_dict(),
        }
        temporary = self._work / f".{CHECKPOINT}"
        torch.save(kept, temporary)
        temporary.replace(self._work / CHECKPOINT)
        logger.info("checkpoint after %d of %d groups", state.groups_done, state.num_groups)

    def _resume(self, optimizer: torch.optim.Optimizer, num_groups: int) -> RaftState:
        fresh = RaftState(0, num_groups, 0, 0, 0.0, 0.0)
        if self._work is None or not (self._work / CHECKPOINT).is_file():
            return fresh
        kept = torch.load(self._work / CHECKPOINT, weights_only=True)
        state = RaftState(**kept["state"])
        if state.num_groups != num_groups:
            raise InputError(
                f"{self._work / CHECKPOINT} is of a run over {state.num_groups} groups, this one has {num_groups}; "
                f"delete it or give another folder"
            )
        set_peft_model_state_dict(self.model, kept["adapter"])
        optimizer.load_state_dict(kept["optimizer"])
        return state


def _learning_share(done: float, warmup: float) -> float:
    """The share of the full learning rate at a share of the run: up to 1 at `warmup`, then down to 0."""
    rising = (done + 0.01) / warmup if warmup > 0 else 1.0
    return min(rising, 1.0) * max(0.0, 1.0 - done)


def _one_thread(num_workers: int) -> None:
    """Several workers share the cores: each computes on one thread, and waits for no other."""
    if num_workers > 1:
        torch.set_num_threads(1)


def _target(text: str, tokenizer: Any, answer_weight: float) -> tuple[list[int], list[float]]:
    """The tokens of a target with the end of the turn, and the weight of each."""
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    answer = text.find(ANSWER_LABEL)
    weights = [
        answer_weight if 0 <= answer < start and start >= answer + len(ANSWER_LABEL) else 1.0
        for start, _ in encoded["offset_mapping"]
    ]
    return [*encoded["input_ids"], tokenizer.eos_token_id], [*weights, 1.0]


def _common_prefix(rows: Sequence[Sequence[int]]) -> list[int]:
    columns = zip(*rows, strict=False)
    return [column[0] for column in takewhile(lambda column: len(set(column)) == 1, columns)]
