import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.parse.office.numbering import format_number


@pytest.mark.parametrize(
    ("number", "number_format", "written"),
    [(4, "lowerRoman", "iv"), (1994, "upperRoman", "MCMXCIV"), (28, "lowerLetter", "bb"), (3, "decimalZero", "03")],
)
def test_numbers_are_written_as_word_writes_them(number: int, number_format: str, written: str) -> None:
    assert format_number(number, number_format) == written


@given(st.sampled_from(["decimal", "lowerLetter", "upperRoman", "decimalZero"]), st.sets(st.integers(1, 300)))
def test_different_numbers_are_written_differently(number_format: str, numbers: set[int]) -> None:
    assert len({format_number(number, number_format) for number in numbers}) == len(numbers)
