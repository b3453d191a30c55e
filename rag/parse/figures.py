"""Pictures inside documents -> figure blocks, found by their caption and by the text in them."""

import io
from collections.abc import Iterator

import numpy as np
import pymupdf
from PIL import Image, ImageOps, ImageSequence, UnidentifiedImageError

from rag.data import Block, Box, Region
from rag.ids import digest
from rag.parse.ocr.engine import Picture, RecognizedLine
from rag.parse.ocr.page import OcrReader, page_text
from rag.parse.pdf.reading_order import group_rows, order_regions

_MIN_SIDE = 80  # pixels, of a picture that may hold text worth finding
_MAX_ASPECT = 12  # a longer one is a rule or an ornament
_MAX_PIXELS = 25_000_000  # a larger picture is shrunk
_MIN_CONFIDENCE = 0.7  # of a line in a figure: photographs are full of almost-letters
_DEFAULT_DPI = 150.0  # where a picture does not say, or says what can't be


class FigureReader:
    """Reads the figures of one document: each picture once, and only the first so many different ones."""

    def __init__(self, ocr: OcrReader | None, max_figures: int) -> None:
        self._ocr, self._max_figures = ocr, max_figures
        self._seen: set[str] = set()
        self.texts: dict[str, str] = {}  # by the digest of the pixels: the same logo stands on every page

    @property
    def is_reading(self) -> bool:
        """Whether the text in a picture is still looked for."""
        return self._ocr is not None and len(self.texts) < self._max_figures

    def read(self, content: bytes, caption: str = "", region: Region | None = None) -> Block | None:
        """The figure's caption or alternative text, and the text in it; None for one that says nothing.

        Pictures that are small, too long, seen before or in a format that can't be drawn here count as decoration.
        """
        name = digest(content)
        if name in self._seen:
            return None
        self._seen.add(name)
        try:
            picture, _ = next(decode_frames(content))
        except (ValueError, StopIteration):
            return figure_block(caption, "", region)
        return self.read_picture(picture, caption, region)

    def read_picture(self, picture: Picture, caption: str = "", region: Region | None = None) -> Block | None:
        """The same for a picture that is decoded already. One that was read before says the same again."""
        height, width = picture.shape[:2]
        text = ""
        if self._ocr is not None and is_worth_reading(width, height) and (picture != picture[0, 0]).any():
            name = digest(str(picture.shape), picture.tobytes())
            if name not in self.texts and self.is_reading:
                self.texts[name] = _text_of(self._ocr.engine.read(picture))
            text = self.texts.get(name, "")
        return figure_block(caption, text, region)


def is_worth_reading(width: float, height: float) -> bool:
    """Whether a picture of so many pixels may hold text that someone will look for."""
    short, long = sorted((width, height))
    return short >= _MIN_SIDE and long <= _MAX_ASPECT * short


def figure_block(caption: str, text: str, region: Region | None) -> Block | None:
    """The figure that a text query can find; None where there is nothing to find it by."""
    parts = [" ".join(caption.split()), text]
    said = "\n".join(part for part in parts if part)
    return Block("figure", said, region=region) if said else None


def decode_frames(content: bytes) -> Iterator[tuple[Picture, float]]:
    """Each frame upright and in RGB, with its dots per inch. An animation has one, a TIFF one a page.

    Raises ValueError for bytes that are no picture, are damaged, or would unpack to too much.
    """
    try:
        with Image.open(io.BytesIO(content)) as image:
            animated = image.format != "TIFF"
            for frame in ImageSequence.Iterator(image):
                yield _pixels(frame), _dpi(frame)
                if animated:
                    return
    except (UnidentifiedImageError, OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"not readable as a picture: {error}") from error


def _pixels(frame: Image.Image) -> Picture:
    upright = ImageOps.exif_transpose(frame)
    if upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info:
        shown = Image.new("RGBA", upright.size, "white")  # what is clear looks like the page behind it
        shown.alpha_composite(upright.convert("RGBA"))
        upright = shown
    if upright.mode.startswith("I;16"):
        upright = upright.point(lambda value: value / 256).convert("L")
    rgb = upright.convert("RGB")
    if rgb.width * rgb.height > _MAX_PIXELS:
        share = (_MAX_PIXELS / (rgb.width * rgb.height)) ** 0.5
        rgb = rgb.resize((max(int(rgb.width * share), 1), max(int(rgb.height * share), 1)))
    return np.asarray(rgb, np.uint8)


def _dpi(frame: Image.Image) -> float:
    stated = frame.info.get("dpi", (_DEFAULT_DPI, _DEFAULT_DPI))[0]
    return float(stated) if 72 <= float(stated) <= 1200 else _DEFAULT_DPI


def _text_of(lines: list[RecognizedLine]) -> str:
    sure = [line for line in lines if line.confidence >= _MIN_CONFIDENCE and _is_word(line.text)]
    if not sure:
        return ""
    right = max(float(line.corners[:, 0].max()) for line in sure)
    bottom = max(float(line.corners[:, 1].max()) for line in sure)
    read = page_text(sure, 1, Box(0.0, 0.0, right, bottom), 1.0, pymupdf.Matrix(1, 1))
    rows = (row.text for region in order_regions(read.lines) for row in group_rows(region))
    return "\n".join([*rows, *(line.text for line in read.turned)])


def _is_word(text: str) -> bool:
    """Whether somebody may look for it: the numbers along an axis are none."""
    return sum(map(str.isalnum, text)) >= 2 and any(map(str.isalpha, text))
