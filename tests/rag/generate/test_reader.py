"""A reader gives a span for each stretch, whatever else is read, and says when there was nothing to read."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from rag.config import RerankConfig
from rag.data import NO_SPAN, Reading
from rag.errors import ModelError
from rag.generate.reader import MAX_TOKENS, SpanReader, best_span
from rag.models import SPAN_HEAD
from tests.tiny_models import tiny_encoder

CONFIG = RerankConfig(device="cpu", num_threads=1)
TEXT = "you have days of leave a year. the manager will report on travel."
READING = Reading("policy", TEXT, ((0, 30), (31, len(TEXT))))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tiny_encoder(tmp_path_factory.mktemp("reader"))
    drawn = np.random.default_rng(0)
    head = {"weight": drawn.normal(size=(2, 32)).astype(np.float32), "bias": np.zeros(2, np.float32)}
    save_file(head, folder / SPAN_HEAD)
    return folder


def test_each_stretch_has_its_own_best_words(directory: Path) -> None:
    ((first, second),) = SpanReader(directory, CONFIG).read("who will travel", [READING])
    assert 0 <= first.start < first.end <= 30 < second.start < second.end <= len(TEXT)
    assert TEXT[first.start : first.end] == TEXT[first.start : first.end].strip()


def test_a_passage_reads_the_same_alone_and_among_others(directory: Path) -> None:
    reader = SpanReader(directory, CONFIG)
    other = Reading("", "this is the office.", ((0, 19),))
    alone = reader.read("who will travel", [READING])
    assert reader.read("who will travel", [other, READING, other])[1] == alone[0]
    assert reader.read("who", []) == []


def test_the_engines_agree(directory: Path) -> None:
    (exact,) = SpanReader(directory, CONFIG.model_copy(update={"engine": "torch"})).read("who will travel", [READING])
    (fast,) = SpanReader(directory, CONFIG.model_copy(update={"engine": "int8"})).read("who will travel", [READING])
    assert [span.score for span in fast] == pytest.approx([span.score for span in exact], abs=1.5)


def test_what_the_window_cuts_off_scores_as_nothing_and_a_long_question_is_cut(directory: Path) -> None:
    text = "leave " * MAX_TOKENS + "office"
    reader = SpanReader(directory, CONFIG)
    ((first, last),) = reader.read("the " * 400, [Reading("", text, ((0, 11), (len(text) - 6, len(text))))])
    assert first.score > NO_SPAN
    assert (last.start, last.end, last.score) == (len(text) - 6, len(text) - 6, NO_SPAN)


def test_the_best_span_begins_before_it_ends_and_is_not_too_long() -> None:
    logits = np.asarray([[0.0, 9.0], [3.0, 0.0], [-1.0, 1.0], [0.0, 5.0]], np.float32)
    assert best_span(logits, 4) == (0, 0, 9.0)
    assert best_span(logits[1:], 3) == (0, 2, 8.0)
    assert best_span(logits[1:], 2) == (2, 2, 5.0)


def test_a_directory_without_a_head_is_no_reader(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="holds no reader"):
        SpanReader(tiny_encoder(tmp_path), CONFIG)
