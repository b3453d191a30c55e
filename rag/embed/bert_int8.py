"""BERT for plain CPUs: weights in 8 bits, activations quantized as they come, one text a forward pass.

ONNX Runtime's own export of a BERT leaves a third of the time in layer norms and padding, so the graph is written here,
operator by operator. A text alone in its pass needs no padding and no attention mask, and its numbers do not depend on
which other texts come along: a trace replays to the same bits. Texts run beside each other, one thread each.
"""

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from safetensors import SafetensorError
from safetensors.numpy import load_file

from rag.errors import ModelError

WEIGHTS = "model.safetensors"
OPSET = 17
FUSED = "com.microsoft"  # domain of ONNX Runtime's fused operators
# 7 bits of 8: without VNNI instructions two products of 8 bits each overflow the 16 that they are added in.
WEIGHT_LEVELS = 63

Head = Literal["mean", "cls", "states", "logit"]
Floats = npt.NDArray[np.float32]


# ---------------------------------------------------------------- running it


def can_run_in_int8(directory: Path) -> bool:
    """Whether the model in the directory is one that this file knows: a BERT with the exact GELU."""
    try:
        return _is_known(_read_config(directory)) and (directory / WEIGHTS).is_file()
    except (OSError, ValueError):
        return False


class Int8Bert:
    """A BERT in 8 bits. Safe to use from several threads.

    `head` is what comes out for a text: the mean of its token states, the state of its first token (both (dim,)), all
    states (tokens, dim), or the logit of a classifier with one label (1,).
    """

    def __init__(self, directory: Path, head: Head, num_threads: int) -> None:
        weights, config = _read_model(directory)
        self.dim = int(config["hidden_size"])
        self.max_positions: int | None = int(config["max_position_embeddings"])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # texts run beside each other instead
        options.log_severity_level = 3
        # ONNX Runtime's fused add and layer norm takes five times as long as the two by themselves.
        slower = ["SkipLayerNormFusion", "BiasSkipLayerNormFusion", "BiasGeluFusion"]
        self._session = onnxruntime.InferenceSession(
            _Graph(weights, config).model(head).SerializeToString(),
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=slower,
        )
        self._threads = ThreadPoolExecutor(num_threads or len(os.sched_getaffinity(0)))

    def run(self, rows: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None = None) -> list[Floats]:
        """What the head gives for each row of token ids, in order; token types are 0 where not given."""
        longest_first = sorted(
            range(len(rows)), key=lambda place: -len(rows[place])
        )  # no thread is left with a long one
        inputs = [(rows[place], types[place] if types is not None else None) for place in longest_first]
        found = dict(zip(longest_first, self._threads.map(self._run_one, inputs), strict=True))
        return [found[place] for place in range(len(rows))]

    def _run_one(self, row_and_types: tuple[Sequence[int], Sequence[int] | None]) -> Floats:
        row, types = row_and_types
        ids = np.asarray([row], dtype=np.int32)
        kinds = np.zeros_like(ids) if types is None else np.asarray([types], dtype=np.int32)
        out: Floats = self._session.run(None, {"ids": ids, "types": kinds})[0][0]
        return out


# ---------------------------------------------------------------- the graph


def _read_model(directory: Path) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:  # Any: dtypes, JSON
    """Weights and settings of the model in the directory. Raises ModelError for anything but a BERT."""
    try:
        config = _read_config(directory)
        weights = load_file(directory / WEIGHTS)
    except (OSError, ValueError, SafetensorError) as error:
        raise ModelError(f"{directory} holds no model that can run in 8 bits: {error}") from error
    if not _is_known(config):
        kind, activation = config.get("model_type"), config.get("hidden_act")
        raise ModelError(f"{directory}: a {kind} with {activation} can't run in 8 bits; expected a bert with gelu")
    return {name.removeprefix("bert."): array for name, array in weights.items()}, config


def _read_config(directory: Path) -> dict[str, Any]:  # Any: JSON
    config: dict[str, Any] = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    return config


def _is_known(config: Mapping[str, Any]) -> bool:
    positions = config.get("position_embedding_type", "absolute")
    return (config.get("model_type"), config.get("hidden_act"), positions) == ("bert", "gelu", "absolute")


class _Graph:
    """Collects the operators and constants of one model."""

    def __init__(self, weights: Mapping[str, npt.NDArray[Any]], config: Mapping[str, Any]) -> None:  # Any: JSON, dtypes
        self._weights = {name: array.astype(np.float32) for name, array in weights.items() if array.dtype.kind == "f"}
        self._config = config
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def model(self, head: Head) -> onnx.ModelProto:
        states = self._embeddings()
        last = self._config["num_hidden_layers"] - 1
        for layer in range(last + 1):
            # Of the last layer only what is read: the state of one token needs no other token's.
            asking = self._first(states) if layer == last and head in ("cls", "logit") else states
            states = self._layer(asking, states, f"encoder.layer.{layer}")
        self._head(states, head)
        ids = [helper.make_tensor_value_info(name, TensorProto.INT32, [1, "tokens"]) for name in ("ids", "types")]
        out = helper.make_tensor_value_info("out", TensorProto.FLOAT, None)
        graph = helper.make_graph(self._nodes, "bert", ids, [out], self._constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def _embeddings(self) -> str:
        names = ("word_embeddings", "position_embeddings", "token_type_embeddings")
        tables = [self._constant(self._weights[f"embeddings.{name}.weight"]) for name in names]
        norm = [self._constant(self._weights[f"embeddings.LayerNorm.{part}"]) for part in ("weight", "bias")]
        inputs = ["ids", "types", *tables, *norm]
        return self._add("EmbedLayerNormalization", inputs, FUSED, outputs=2, epsilon=self._config["layer_norm_eps"])

    def _first(self, states: str) -> str:
        """The states of the first token, as a sequence of one."""
        starts, ends, axes = (self._constant(np.asarray([value])) for value in (0, 1, 1))
        return self._add("Slice", [states, starts, ends, axes])

    def _layer(self, asking: str, states: str, name: str) -> str:
        """The states of the tokens that ask, after they attended to all."""
        sides = zip((asking, states, states), ("query", "key", "value"), strict=True)
        inputs = [self._linear(side, f"{name}.attention.self.{part}") for side, part in sides]
        heads = self._config["num_attention_heads"]
        attended = self._add("MultiHeadAttention", inputs, FUSED, num_heads=heads)
        states = self._residual(attended, asking, f"{name}.attention.output")
        inner = self._add("Gelu", [self._linear(states, f"{name}.intermediate.dense")], FUSED)
        return self._residual(inner, states, f"{name}.output")

    def _residual(self, inner: str, states: str, name: str) -> str:
        added = self._add("Add", [self._linear(inner, f"{name}.dense"), states])
        norm = [self._constant(self._weights[f"{name}.LayerNorm.{part}"]) for part in ("weight", "bias")]
        return self._add("LayerNormalization", [added, *norm], axis=-1, epsilon=self._config["layer_norm_eps"])

    def _linear(self, states: str, name: str) -> str:
        """A layer in 8 bits; each output has its own scale."""
        weight = self._weights[f"{name}.weight"].T  # (inputs, outputs)
        scales = np.maximum(np.abs(weight).max(axis=0), np.finfo(np.float32).tiny) / WEIGHT_LEVELS
        quantized = np.rint(weight / scales).astype(np.int8)
        zeros = np.zeros(len(scales), dtype=np.int8)
        inputs = [quantized, scales.astype(np.float32), zeros, self._weights[f"{name}.bias"]]
        return self._add("DynamicQuantizeMatMul", [states, *map(self._constant, inputs)], FUSED)

    def _head(self, states: str, head: Head) -> None:
        if head == "states":
            self._add("Identity", [states], out="out")
            return
        if head == "mean":
            self._add("ReduceMean", [states], out="out", axes=[1], keepdims=0)
            return
        first = self._add("Gather", [states, self._constant(np.asarray(0))], out="out" if head == "cls" else "", axis=1)
        if head == "logit":
            pooled = self._add("Tanh", [self._dense(first, "pooler.dense")])
            self._dense(pooled, "classifier", out="out")

    def _dense(self, inputs: str, name: str, out: str = "") -> str:
        parts = [self._constant(self._weights[f"{name}.{part}"]) for part in ("weight", "bias")]
        return self._add("Gemm", [inputs, *parts], out=out, transB=1)

    def _constant(self, array: npt.NDArray[Any]) -> str:  # Any: float32, int8 or int64
        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def _add(
        self,
        operator: str,
        inputs: Sequence[str],
        domain: str = "",
        *,
        outputs: int = 1,
        out: str = "",
        **attributes: Any,  # numbers and lists of them
    ) -> str:
        """Appends an operator; the name of its first output."""
        name = out or f"n{len(self._nodes)}"
        names = [name, *(f"{name}.{place}" for place in range(1, outputs))]
        self._nodes.append(helper.make_node(operator, list(inputs), names, domain=domain, **attributes))
        return name
