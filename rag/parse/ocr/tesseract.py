"""Tesseract as a program: the page is turned upright by its own orientation detection, then read."""

import csv
import io
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pymupdf

from rag.errors import ModelError
from rag.parse.ocr.engine import Corners, Picture, RecognizedLine

_PROGRAM = "tesseract"
_ROTATE = re.compile(r"^Rotate: (\d+)$", re.MULTILINE)
_ORIENTATION_CONFIDENCE = re.compile(r"^Orientation confidence: ([\d.]+)$", re.MULTILINE)
_MIN_ORIENTATION_CONFIDENCE = 1.5  # a page of few words gives no reliable answer, and is read as it stands
_WORD = "5"  # the level of a row of Tesseract's table that holds a word
_TIMEOUT_S = 300


class TesseractOcr:
    """The engine that the system's `tesseract` is, with the languages that it has data for."""

    def __init__(self, languages: Sequence[str], dpi: int) -> None:
        self._languages, self._dpi = "+".join(languages), dpi

    def read(self, picture: Picture) -> list[RecognizedLine]:
        """The lines of the picture. Raises ModelError where the program or a language's data is missing."""
        turns = self._turns_to_upright(picture)
        upright = np.ascontiguousarray(np.rot90(picture, -turns))  # rot90 turns counterclockwise
        table = self._run(upright, "-l", self._languages, "--psm", "3", "tsv")
        rows = csv.DictReader(io.StringIO(table), delimiter="\t", quoting=csv.QUOTE_NONE)
        words: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
        for row in rows:
            if row["level"] == _WORD and row["text"].strip():
                words[row["block_num"], row["par_num"], row["line_num"]].append(row)
        height, width = upright.shape[:2]
        return [_line(line, turns, width, height) for line in words.values()]

    def _turns_to_upright(self, picture: Picture) -> int:
        """How many quarter turns clockwise make the picture upright."""
        try:
            said = self._run(picture, "-l", "osd", "--psm", "0")
        except subprocess.CalledProcessError:  # too few characters to tell
            return 0
        confidence = _ORIENTATION_CONFIDENCE.search(said)
        rotate = _ROTATE.search(said)
        if rotate is None or confidence is None or float(confidence[1]) < _MIN_ORIENTATION_CONFIDENCE:
            return 0
        return int(rotate[1]) // 90 % 4

    def _run(self, picture: Picture, *arguments: str) -> str:
        if shutil.which(_PROGRAM) is None:
            raise ModelError("parse.ocr is tesseract, and there is no program `tesseract`; install tesseract-ocr")
        height, width = picture.shape[:2]
        ppm: bytes = pymupdf.Pixmap(pymupdf.csRGB, width, height, picture.tobytes(), False).tobytes("ppm")
        done = subprocess.run(
            [_PROGRAM, "stdin", "stdout", "--dpi", str(self._dpi), *arguments],
            input=ppm, capture_output=True, check=False, timeout=_TIMEOUT_S,
        )  # fmt: skip
        message = done.stderr.decode("utf-8", "replace")
        if "Failed loading language" in message or "Error opening data file" in message:
            raise ModelError(
                f"parse.ocr_languages: tesseract has no data for one of {self._languages}: {message.strip()}"
            )
        done.check_returncode()
        return done.stdout.decode("utf-8", "replace")


def _line(words: Sequence[dict[str, str]], turns: int, width: int, height: int) -> RecognizedLine:
    left = min(int(word["left"]) for word in words)
    top = min(int(word["top"]) for word in words)
    right = max(int(word["left"]) + int(word["width"]) for word in words)
    bottom = max(int(word["top"]) + int(word["height"]) for word in words)
    corners = np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float32)
    weights = [len(word["text"]) for word in words]
    confidence = sum(float(word["conf"]) * weight for word, weight in zip(words, weights, strict=True)) / sum(weights)
    text = " ".join(word["text"] for word in words)
    return RecognizedLine(text, _turned_back(corners, turns, width, height), confidence / 100)


def _turned_back(corners: Corners, turns: int, width: int, height: int) -> Corners:
    """Corners in a picture that was turned clockwise so many quarters, of that width and height, in the one before."""
    for _ in range(turns):
        x, y = corners[:, 0], corners[:, 1]
        corners = np.stack([y, width - x], axis=1)
        width, height = height, width
    return corners
