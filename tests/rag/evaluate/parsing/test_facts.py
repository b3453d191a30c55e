import pytest

from rag.evaluate.parsing.equations import equations_of, plain_equation
from rag.evaluate.parsing.facts import fact_of
from rag.evaluate.parsing.grids import grids_of

TABLE = """
<table>
<tr><th rowspan="2">Task</th><th colspan="2">Score</th></tr>
<tr><th>Easy</th><th>Hard</th></tr>
<tr><td>Counting</td><td>0.9</td><td>0.4</td></tr>
</table>
"""


def holds(markdown: str, **record: object) -> bool:
    return fact_of(record).holds(markdown)


def test_a_string_occurs_whatever_its_emphasis_quotes_and_line_ends() -> None:
    assert holds("It said\n**“yes – maybe”**.", type="present", text='said "yes - maybe"')
    assert not holds("It said no.", type="present", text="said yes")


def test_as_many_characters_may_differ_as_the_fact_allows() -> None:
    assert holds("the quick brovvn fox", type="present", text="the quick brown fox", max_diffs=2)
    assert not holds("the quick brovvn fox", type="present", text="the quick brown fox")


def test_an_absent_string_may_stand_outside_the_last_characters() -> None:
    text = "Page 199 of the annals. " + "And then a long story follows. " * 4
    assert holds(text, type="absent", text="199", last_n=20)
    assert not holds(text + "199", type="absent", text="199", last_n=20)
    assert not holds(text, type="absent", text="199")


def test_order_asks_for_both_and_for_their_places() -> None:
    assert holds("first, then second", type="order", before="first", after="second")
    assert not holds("second, then first", type="order", before="first", after="second")
    assert not holds("first", type="order", before="first", after="second")
    assert holds("frist, then second", type="order", before="first,", after="second", max_diffs=2)


@pytest.mark.parametrize(
    ("cell", "side", "text", "expected"),
    [
        ("0.4", "left", "0.9", True),
        ("0.4", "left", "Counting", False),
        ("0.4", "left_heading", "Counting", True),
        ("0.4", "up", "Hard", True),
        ("0.4", "top_heading", "Score", True),
        ("0.9", "top_heading", "Hard", False),
        ("Counting", "up", "Task", True),
        ("Counting", "right", "0.9", True),
    ],
)
def test_a_cell_has_neighbours_and_headings_across_spans(cell: str, side: str, text: str, expected: bool) -> None:
    assert holds(TABLE, type="table", cell=cell, **{side: text}) == expected


def test_pipe_tables_are_grids_too() -> None:
    (grid,) = grids_of("| a | b |\n|---|---|\n| 1 | 2 |")
    assert grid.text(1, 1) == "2"
    assert grid.texts_beside(1, 1, -1, 0) == ["b"]


def test_a_formula_is_found_in_whichever_way_it_is_written() -> None:
    assert holds(r"So $$ e^{i\pi} + 1 = 0 $$ holds.", type="math", math=r"e^{i \pi}+1=0")
    assert holds(r"\(a^2 + b^2 = c^2\)", type="math", math="a^{2}+b^{2}=c^{2}")
    assert holds(r"$\nabla\times E = 0$", type="math", math=r"\nabla \times \mathbf{E}=0")
    assert not holds("a^2 + b^2 = c^2", type="math", math="a^{2}+b^{2}=c^{2}")
    assert not holds("$a^2 + b^2 = d^2$", type="math", math="a^{2}+b^{2}=c^{2}")


def test_formulas_stand_between_their_delimiters() -> None:
    assert equations_of(r"$x$ and \[y\] and $$z$$ for 5$ or 6 $") == ["x", "y", "z"]
    assert plain_equation(r"\left( \frac{a}{b} \right)^{\prime}") == r"(\fracab)'"


def test_the_baseline_wants_text_and_no_endless_repetition() -> None:
    assert holds("Some text.", type="baseline")
    assert not holds("", type="baseline")
    assert not holds("ha " * 100, type="baseline")
    assert holds("12", type="baseline", max_length=10)
    assert not holds("a page full of text", type="baseline", max_length=10)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown kind"):
        fact_of({"type": "smell"})
