"""PP-OCRv6 through RapidOCR: lines are found once, whichever way they lie, and read in the direction that says most."""

import importlib.util
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import cv2
import numpy as np
import numpy.typing as npt

from rag.errors import ModelError
from rag.parse.ocr.engine import Corners, Picture, RecognizedLine

if TYPE_CHECKING:
    from rapidocr import RapidOCR

# Which corner of a box, named clockwise from the top left, is above the beginning of text that runs so.
_FIRST_CORNER = {"right": 0, "down": 1, "left": 2, "up": 3}
Direction = Literal["right", "down", "left", "up"]

_DETECTION_SIDE = 1600  # pixels: larger pictures are shrunk to find lines; the lines are read from the whole picture
_MIN_DETECTION_SIDE = 320  # a picture whose shorter side has fewer is enlarged
_ELONGATED = 1.5  # a box so much longer than wide shows which way its text runs
_SAMPLE = 8  # longest lines that are read to learn which way up the picture is
_SURE = 0.9  # mean confidence of the sample above which the other way up is not tried
_MIN_CONFIDENCE = 0.5


class RapidOcr:
    """The engine with the models that the `rapidocr` wheel carries: Latin letters, Chinese and Japanese."""

    def __init__(self, num_threads: int = 1) -> None:
        self._num_threads = num_threads

    def read(self, picture: Picture) -> list[RecognizedLine]:
        """The lines of the picture; those read with less confidence than 0.5 are left out as no text."""
        boxes = self._detect(picture)
        if not boxes:
            return []
        tall = [_is_tall(box) for box in boxes]
        lengths = [_length(box) for box in boxes]
        sideways = sum(length for length, is_tall in zip(lengths, tall, strict=True) if is_tall) > 0.5 * sum(lengths)
        along = [box for box, is_tall in zip(boxes, tall, strict=True) if is_tall == sideways or _is_square(box)]
        across = [box for box, is_tall in zip(boxes, tall, strict=True) if is_tall != sideways and not _is_square(box)]
        lines = self._read_best(picture, along, ("up", "down") if sideways else ("right", "left"))
        for box in across:  # text in a margin or beside a figure: each may run either way
            lines += self._read_best(picture, [box], ("right", "left") if sideways else ("up", "down"))
        return [line for line in lines if line.text.strip() and line.confidence >= _MIN_CONFIDENCE]

    def _read_best(
        self, picture: Picture, boxes: Sequence[Corners], directions: tuple[Direction, Direction]
    ) -> list[RecognizedLine]:
        """The lines of the boxes, all in the one of the two directions in which the longest of them say most."""
        if not boxes:
            return []
        longest = sorted(boxes, key=_length, reverse=True)[:_SAMPLE]
        first = self._recognize(picture, longest, directions[0])
        chosen, sample = directions[0], first
        if _confidence(first) < _SURE:
            second = self._recognize(picture, longest, directions[1])
            if _confidence(second) > _confidence(first):
                chosen, sample = directions[1], second
        taken = set(map(id, longest))
        return sample + self._recognize(picture, [box for box in boxes if id(box) not in taken], chosen)

    def _detect(self, picture: Picture) -> list[Corners]:
        """The four corners of every line, clockwise from the top left one of the picture."""
        # RapidOCR takes arrays as BGR, as OpenCV gives them.
        found = self._engine(np.ascontiguousarray(picture[:, :, ::-1]), use_det=True, use_cls=False, use_rec=False)
        return [] if found.boxes is None else [np.asarray(box, np.float32) for box in found.boxes]

    def _recognize(self, picture: Picture, boxes: Sequence[Corners], direction: Direction) -> list[RecognizedLine]:
        if not boxes:
            return []
        turned = [np.roll(box, -_FIRST_CORNER[direction], axis=0) for box in boxes]
        read = self._engine.recognize_txt([_cut_out(picture, corners)[:, :, ::-1] for corners in turned])
        return [
            RecognizedLine(text, corners, float(score))
            for text, score, corners in zip(read.txts, read.scores, turned, strict=True)
        ]

    @cached_property
    def _engine(self) -> "RapidOCR":
        if importlib.util.find_spec("rapidocr") is None:
            raise ModelError("parse.ocr is rapidocr, and the package rapidocr is not installed")
        from rapidocr import RapidOCR

        return RapidOCR(
            params={
                "Global.log_level": "error",
                "Global.use_cls": False,
                "Global.max_side_len": _DETECTION_SIDE,
                "Det.limit_side_len": _MIN_DETECTION_SIDE,
                # One line at a time: filled up to the longest of a batch, lines cost more than a batch saves.
                "Rec.rec_batch_num": 1,
                "EngineConfig.onnxruntime.intra_op_num_threads": self._num_threads,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            }
        )


def _confidence(lines: Sequence[RecognizedLine]) -> float:
    """The mean confidence, weighted by length: one short word read well says little."""
    weights = [1 + len(line.text) for line in lines]
    return sum(line.confidence * weight for line, weight in zip(lines, weights, strict=True)) / sum(weights)


def _sides(box: Corners) -> tuple[float, float]:
    """Mean lengths of the box's sides that run across and down the picture."""
    across = (np.linalg.norm(box[1] - box[0]) + np.linalg.norm(box[2] - box[3])) / 2
    down = (np.linalg.norm(box[3] - box[0]) + np.linalg.norm(box[2] - box[1])) / 2
    return float(across), float(down)


def _length(box: Corners) -> float:
    return max(_sides(box))


def _is_tall(box: Corners) -> bool:
    across, down = _sides(box)
    return down >= _ELONGATED * across


def _is_square(box: Corners) -> bool:
    across, down = _sides(box)
    return max(across, down) < _ELONGATED * min(across, down)


def _cut_out(picture: Picture, corners: Corners) -> Picture:
    """The line alone, straightened, running to the right."""
    width, height = (max(round(side), 2) for side in _sides(corners))
    target: npt.NDArray[np.float32] = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    warp = cv2.getPerspectiveTransform(corners, target)
    cut = cv2.warpPerspective(picture, warp, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(cut, np.uint8)
