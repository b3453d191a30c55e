"""Recognition of text in pictures: what an engine must do, and what it gives."""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Picture: TypeAlias = npt.NDArray[np.uint8]  # (height, width, 3), RGB
Corners: TypeAlias = npt.NDArray[np.float32]  # (4, 2): x and y in pixels from the picture's top left corner


@dataclass(frozen=True, slots=True)
class RecognizedLine:
    """One line of text in a picture, whichever way it is turned."""

    text: str
    corners: Corners  # in the order of the text: above its beginning, above its end, below its end, below its beginning
    confidence: float  # mean over the line, in [0, 1]


class OcrEngine(Protocol):
    """Finds and reads the lines of text in pictures."""

    def read(self, picture: Picture) -> list[RecognizedLine]:
        """The lines of the picture, in no particular order; none where it holds no text.

        The picture may be turned by any multiple of 90 degrees and a few more: the corners say how each line lies.
        Raises ModelError where the engine or its models are missing.
        """
        ...
