"""What goes between processes comes out as it went in."""

import pickle

import pytest

from rag.data import Box, Candidate, FirstStageScores
from rag.ids import ChunkId
from rag.parse.pdf.text_layer import Line, Vector
from rag.parse.table import TableCell
from rag.sent import Sent
from tests.rag.index.factories import make_chunk

BOX = Box(0.1, 2.0, 1 / 3, 4.0)


@pytest.mark.parametrize(
    "sent",
    [
        make_chunk("text"),
        Candidate(ChunkId("c"), 0.5, "dense"),
        FirstStageScores(0.5, 2.0),
        Line("text \ud800", BOX, 9.5, True, lead="te"),
        Vector(BOX, True, False, 3, 0.5),
        TableCell(1, 2, "x"),
    ],
)
def test_it_comes_back_equal(sent: Sent) -> None:
    assert pickle.loads(pickle.dumps(sent)) == sent
