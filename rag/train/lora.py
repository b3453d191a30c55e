"""A low-rank adapter over an encoder: made or gone on with, and written to a folder in PEFT's format.

Source: Hu et al., ICLR 2022.
"""

import json
from pathlib import Path
from typing import Literal

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from rag.errors import ModelError

Task = Literal["SEQ_CLS", "FEATURE_EXTRACTION"]  # PEFT's names: a head with one logit, token states

TARGET_MODULES = ("query", "key", "value", "dense")
WEIGHTS, SETTINGS = "adapter_model.safetensors", "adapter_config.json"


def adapted(bare: torch.nn.Module, task: Task, rank: int, alpha: int, start: Path | None = None) -> PeftModel:
    """The model with a new adapter, or with the one in `start` to go on from; a head is trained whole. Raises
    ModelError."""
    if start is not None:
        if not (start / SETTINGS).is_file():
            raise ModelError(f"{start} holds no adapter: {SETTINGS} is missing")
        try:
            return PeftModel.from_pretrained(bare, start, is_trainable=True)
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:
            raise ModelError(f"the adapter in {start} is not one of this encoder: {error}") from error
    settings = LoraConfig(
        task_type=task,
        r=rank,
        lora_alpha=alpha,
        lora_dropout=0.0,
        target_modules=list(TARGET_MODULES),
        modules_to_save=["classifier"] if task == "SEQ_CLS" else None,
    )
    try:
        return get_peft_model(bare, settings)
    except ValueError as error:
        raise ModelError(f"the encoder has no layers named {', '.join(TARGET_MODULES)}: {error}") from error


def trained(model: torch.nn.Module) -> list[torch.nn.Parameter]:
    """The parameters that training changes."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def save_adapter(model: PeftModel, directory: Path, base_name: str) -> None:
    """Write the adapter in float16, as one of the model of that name."""
    model.save_pretrained(directory, save_embedding_layers=False)
    (directory / "README.md").unlink(missing_ok=True)  # PEFT's own is an empty form
    path = directory / SETTINGS
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["base_model_name_or_path"] = base_name  # not the folder of this machine
    settings["target_modules"] = sorted(settings["target_modules"])
    settings["modules_to_save"] = sorted(set(settings["modules_to_save"] or ()))
    path.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    weights = {name: tensor.half().contiguous() for name, tensor in load_file(directory / WEIGHTS).items()}
    save_file(weights, directory / WEIGHTS, metadata={"format": "pt"})
