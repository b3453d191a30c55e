"""What has to be the same for a question to get the same passages and the same prompt once more, each thing by name."""

import hashlib
import json
import os
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from rag.config import RagConfig, Section
from rag.ids import digest
from rag.models import MODELS

_SPEED = {"batch_tokens", "cache_mb", "num_threads", "device", "engine"}  # how fast a model runs, not what it is
_LIBRARIES = ("onnxruntime", "torch", "transformers", "tokenizers", "numpy")


def shaping_settings(config: RagConfig) -> dict[str, str]:
    """The settings that shape what is found and what the prompt says, as JSON by name: `{"search.k_dense": "50"}`.

    A model has its weights beside its name (`rerank.weights`), as a digest, because a directory may get others. Left
    out: how the index was made, which its version stands for, deadlines, what only decides the speed, and what comes
    after the prompt.
    """
    return {
        **_section("rewrite", config.rewrite, {"glossary", "glossary_file"}),
        "rewrite.glossary": digest(json.dumps(config.rewrite.glossary, sort_keys=True)),
        **_section("embed", config.embed, _SPEED),
        **_section("search", config.search),
        **_section("rerank", config.rerank, _SPEED),
        **_section("assemble", config.assemble),
        "generate.generator": json.dumps(config.generate.generator),  # its tokenizer counts the budget of the prompt
        "generate.model": json.dumps(config.generate.model),
        "generate.lead_quotes": json.dumps(config.generate.lead_quotes),
        "generate.reader": json.dumps(config.generate.reader),
        **_weights(config),
    }


def runtime(config: RagConfig) -> dict[str, str]:
    """What decides the last bits of a model's arithmetic in this process, beside the hardware.

    The number of threads is part of it: it decides how a matrix is cut, and with that the order of its sums. The
    default encoder and reranker give other last bits on one thread than on two in torch, and the same ones in 8 bits.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found: dict[str, str] = {}
    for name, model in (("embed", config.embed), ("rerank", config.rerank)):
        found |= {
            f"{name}.threads": str(model.num_threads or cores),
            f"{name}.device": model.device,
            f"{name}.engine": model.engine,
        }
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def differing(recorded: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    """The recorded names that have another value here, in words; a name that was not recorded is not compared."""
    return [
        f"{name} is {here.get(name, 'unknown')} here, {value} in the trace"
        for name, value in recorded.items()
        if here.get(name) != value
    ]


def _section(name: str, section: Section, left_out: set[str] | None = None) -> dict[str, str]:
    values = section.model_dump(mode="json", exclude=left_out)
    return {f"{name}.{key}": json.dumps(value, sort_keys=True) for key, value in values.items()}


def _weights(config: RagConfig) -> dict[str, str]:
    """A digest for each model that is used and can be told from another of its name; a hub's name says which it is."""
    used = {
        "embed.weights": config.embed.model if config.embed.embedder == "sentence" else "",
        "rerank.weights": config.rerank.model if config.rerank.reranker != "overlap" else "",
        "generate.reader_weights": config.generate.reader,
    }
    found = {key: MODELS[name].digest() for key, name in used.items() if name in MODELS}
    return found | {
        key: _digest_of_files(Path(name))
        for key, name in used.items()
        if name and name not in MODELS and Path(name).is_dir()
    }


def _digest_of_files(directory: Path) -> str:
    parts: list[str] = []
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            parts += [path.relative_to(directory).as_posix(), hashlib.file_digest(file, "sha256").hexdigest()]
    return digest(*parts)
