"""Any object-detection model of transformers, as RT-DETR or DETR trained on DocLayNet; on a GPU where there is one."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from layoutparser.elements import Layout
from transformers import AutoImageProcessor, AutoModelForObjectDetection

from rag.data import BlockKind
from rag.errors import ModelError
from rag.parse.ocr.engine import Picture
from rag.parse.pdf.detectors.base import LayoutDetector, text_block

_MIN_SCORE = 0.4


class TransformersDetector(LayoutDetector):
    """A detector by the directory or hub id of its weights."""

    DETECTOR_NAME = "transformers"
    KINDS: ClassVar[Mapping[str, BlockKind]] = {
        "Text": "paragraph", "text": "paragraph", "Title": "title", "title": "title", "Section-header": "heading",
        "List-item": "list", "list": "list", "List": "list", "Table": "table", "table": "table", "Picture": "figure",
        "Figure": "figure", "figure": "figure", "Caption": "caption", "Footnote": "footnote", "Formula": "equation",
        "Page-header": "header", "Page-footer": "footer", "Code": "code", "Document Index": "list",
    }  # fmt: skip

    def __init__(self, model: str) -> None:
        if not model:
            raise ModelError("parse.detector transformers needs parse.detector_model: a directory or hub id")
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            self._processor = AutoImageProcessor.from_pretrained(model, use_fast=False)
            self._model = AutoModelForObjectDetection.from_pretrained(model).to(self._device).eval()
        except (OSError, ValueError, ImportError) as error:
            raise ModelError(f"detector {model} can't be loaded: {error}") from error

    def detect(self, image: Picture) -> Layout:
        height, width = image.shape[:2]
        inputs = self._processor(images=image, return_tensors="pt").to(self._device)
        with torch.inference_mode():
            outputs = self._model(**inputs)
        (found,) = self._processor.post_process_object_detection(
            outputs, threshold=_MIN_SCORE, target_sizes=[(height, width)]
        )
        names = self._model.config.id2label
        return Layout(
            [
                text_block(tuple(box), names[label], score)
                for box, label, score in zip(
                    found["boxes"].tolist(), found["labels"].tolist(), found["scores"].tolist(), strict=True
                )
            ]
        )
