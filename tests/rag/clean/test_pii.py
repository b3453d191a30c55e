from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.clean.pii import KINDS, MASKS, find_pii, mask_pii
from rag.config import PiiKind

FOUND: list[tuple[PiiKind, str, str]] = [
    ("email", "Write to ann.lee+hr@mail.corp-x.co.uk, please.", "ann.lee+hr@mail.corp-x.co.uk"),
    ("email", "<bob@example.org>", "bob@example.org"),
    ("phone", "Call +41 44 668 18 00.", "+41 44 668 18 00"),
    ("phone", "Mobile: +1 (650) 253-0000", "+1 (650) 253-0000"),
    ("card", "card 4111 1111 1111 1111, exp 12/27", "4111 1111 1111 1111"),
    ("card", "3782-822463-10005", "3782-822463-10005"),
    ("card", "paid with 5555555555554444", "5555555555554444"),
    ("iban", "IBAN DE89 3704 0044 0532 0130 00 BIC COBADEFF", "DE89 3704 0044 0532 0130 00"),
    ("iban", "to CH9300762011623852957.", "CH9300762011623852957"),
    ("national_id", "SSN: 536-90-4399", "536-90-4399"),
    ("national_id", "AHV 756.9217.0769.85", "756.9217.0769.85"),
    ("national_id", "codice RSSMRA85T10A562S", "RSSMRA85T10A562S"),
    ("national_id", "CPF 390.533.447-05", "390.533.447-05"),
    ("national_id", "Her BSN is 111222333", "111222333"),
    ("secret", "aws AKIAIOSFODNN7QXMPL2F here", "AKIAIOSFODNN7QXMPL2F"),
    ("secret", "password = 'h7Gq2!mZx9Lw4Rt'", "h7Gq2!mZx9Lw4Rt"),
    ("secret", "export DB_API_KEY=9f8Zk2mQw7Lx0Vb3Ty6N", "9f8Zk2mQw7Lx0Vb3Ty6N"),
    ("secret", "ghp_" + "a1B2c3D4e5" * 4, "ghp_" + "a1B2c3D4e5" * 4),
]
NOT_FOUND = [
    "ERR_4031 and part 4711-0815-22, SKU 1234567890123, build 2024.11.30.1",
    "ISBN 978-3-16-148410-0, EAN 4006381333931, serial SN-0042-9918-2231",
    "card 4111 1111 1111 1112 and order 4111111111111111111111",
    "IBAN DE89 3704 0044 0532 0130 01",
    "room 536-90-4399 of the warehouse",
    "the measured values are 123456789, 987654321 and 111222333",
    "ext. 7700, 12 000 rpm, 1 500 000 EUR, 2024-11-30 10:15",
    "git commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "password: correct-horse-battery-staple; token: your_token_here_12345",
    "user@localhost and @channel and name@ home",
    "torque 12.5 +0.5/-0.2 Nm at M8x1.25-6H",
    "https://example.org/files/5555555555554444/view",
]


@pytest.mark.parametrize(("kind", "text", "found"), FOUND)
def test_what_form_and_check_digits_tell_is_found_exactly(kind: PiiKind, text: str, found: str) -> None:
    assert [(match.kind, text[match.start : match.end]) for match in find_pii(text, KINDS)] == [(kind, found)]
    assert mask_pii(text, KINDS) == text.replace(found, MASKS[kind])


@pytest.mark.parametrize("text", NOT_FOUND)
def test_part_numbers_codes_and_measures_are_left_alone(text: str) -> None:
    assert find_pii(text, KINDS) == []
    assert mask_pii(text, KINDS) == text


def test_national_numbers_need_a_region_and_bare_digits_a_word() -> None:
    text = "Call (650) 253-0000 or tel. 6502530000, not 6502530001."
    assert find_pii(text, ["phone"]) == []
    assert mask_pii(text, ["phone"], "US") == "Call [PHONE] or tel. [PHONE], not 6502530001."


def test_only_the_kinds_asked_for_are_looked_for() -> None:
    text = "ann@example.org, +41 44 668 18 00"
    assert mask_pii(text, ["email"]) == "[EMAIL], +41 44 668 18 00"
    assert find_pii(text, []) == []


pieces = st.lists(st.one_of(st.sampled_from([text for _, text, _ in FOUND]), st.text(max_size=20)), max_size=6)


@settings(deadline=None, max_examples=60)
@given(texts=pieces)
def test_findings_are_in_order_do_not_overlap_and_are_gone_when_masked(texts: list[str]) -> None:
    text = "\n".join(texts)
    found = find_pii(text, KINDS)
    assert all(before.end <= after.start for before, after in pairwise(found))
    masked = mask_pii(text, KINDS)
    assert all(text[match.start : match.end] not in masked for match in found if match.kind != "national_id")
