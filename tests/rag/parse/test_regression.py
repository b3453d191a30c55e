"""No hard document may be parsed worse than it was. `python -m bench.parse --write-baseline` stores what it is now."""

import pytest

from bench.parse_regression import DOCUMENTS, build_measured_parser, measure, read_baseline, read_cases
from rag.protocols import Parser
from tests.conftest import SHARED_DATA

ROUNDING = 1e-6

pytestmark = pytest.mark.shared_data


@pytest.fixture(scope="module")
def parser() -> Parser:
    return build_measured_parser(SHARED_DATA)


@pytest.mark.parametrize("set_name", DOCUMENTS)
def test_no_score_of_a_hard_document_falls(set_name: str, parser: Parser) -> None:
    stored = {name: scores for name, scores in read_baseline().items() if name.startswith(f"{set_name}/")}
    fallen = []
    for case in read_cases(SHARED_DATA, set_name):
        expected = stored.pop(f"{case.set_name}/{case.name}")
        found = measure(case, parser)
        fallen += [
            f"{case.name}: {name} {found.get(name)}, was {score}"
            for name, score in expected.items()
            if found.get(name, 0.0) < score - ROUNDING
        ]
    assert not fallen
    assert not stored, "measured and stored are not the same documents"
