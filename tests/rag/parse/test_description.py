from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from rag.data import Access, DocumentMetadata
from rag.parse.description import MAX_TITLE_CHARACTERS, metadata_hash, parse_date
from tests.rag.parse.parsing import parse


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (date(2024, 2, 29), datetime(2024, 2, 29, tzinfo=UTC)),
        (datetime(2024, 2, 29, 12), datetime(2024, 2, 29, 12, tzinfo=UTC)),
        ("2024-02-29T12:00:00+02:00", datetime(2024, 2, 29, 10, tzinfo=UTC)),
        ("2024-02-29", datetime(2024, 2, 29, tzinfo=UTC)),
        ("Thu, 29 Feb 2024 12:00:00 GMT", datetime(2024, 2, 29, 12, tzinfo=UTC)),
        ("D:20240229120000-05'30'", datetime(2024, 2, 29, 17, 30, tzinfo=UTC)),
        ("D:20240229120000Z", datetime(2024, 2, 29, 12, tzinfo=UTC)),
        ("D:2024", datetime(2024, 1, 1, tzinfo=UTC)),
        ("D:20249999", None),
        ("soon", None),
        ("", None),
        (None, None),
        (2024, None),
        ("0001-01-01T00:00:00+10:00", None),
    ],
)
def test_dates_become_utc_or_nothing(value: object, expected: datetime | None) -> None:
    assert parse_date(value) == expected


def test_a_long_title_is_cut_at_a_word() -> None:
    title = parse(f"# {'word ' * 100}\n\ntext\n").metadata.title
    assert len(title) <= MAX_TITLE_CHARACTERS
    assert title.endswith("word…")


def test_the_metadata_hash_changes_with_every_field() -> None:
    base = DocumentMetadata("u", "t", Access("x", ("a", "b")))
    changed = [
        replace(base, access=Access("y", ("a", "b"))),
        replace(base, access=Access("x", ("a",))),
        replace(base, access=Access("x", ("a b",))),
        replace(base, title="T"),
        replace(base, owner="o"),
        replace(base, updated_at=datetime(2024, 1, 1, tzinfo=UTC)),
        replace(base, authority="policy"),
        replace(base, language="de"),
    ]
    assert len({metadata_hash(metadata) for metadata in [base, *changed]}) == len(changed) + 1
    assert metadata_hash(base) == metadata_hash(replace(base))
