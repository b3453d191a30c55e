import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.config import AccessRule, SourcesConfig
from rag.data import Access, ErrorRow, SourceObject
from rag.errors import ConfigError, InputError
from rag.read.sources import glob_to_regex, list_sources

CONFIG = SourcesConfig(default_tenant="acme", default_groups=("staff",))


def write(root: Path, uri: str, text: str = "# Title\n\nText.\n") -> Path:
    path = root / uri
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def listed(root: Path, config: SourcesConfig = CONFIG) -> list[str]:
    return [found.uri for found in list_sources(root, config) if isinstance(found, SourceObject)]


def errors(root: Path, config: SourcesConfig = CONFIG) -> list[ErrorRow]:
    return [found for found in list_sources(root, config) if isinstance(found, ErrorRow)]


def test_objects_come_in_the_order_of_their_uris(tmp_path: Path) -> None:
    for uri in ("b.md", "a/z.md", "a.md", "a/b/c.txt", "a-b.html"):
        write(tmp_path, uri)
    assert listed(tmp_path) == sorted(["b.md", "a/z.md", "a.md", "a/b/c.txt", "a-b.html"])


def test_one_file_is_listed_under_its_name(tmp_path: Path) -> None:
    assert listed(write(tmp_path, "deep/in/guide.md")) == ["guide.md"]


def test_a_missing_root_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        list(list_sources(tmp_path / "nowhere", CONFIG))


def test_hidden_files_and_folders_are_left_out(tmp_path: Path) -> None:
    for uri in (".git/config.md", ".hidden.md", "shown.md"):
        write(tmp_path, uri)
    assert listed(tmp_path) == ["shown.md"]
    assert errors(tmp_path) == []


def test_an_unsupported_type_is_skipped_with_a_reason(tmp_path: Path) -> None:
    write(tmp_path, "film.MP4")
    write(tmp_path, "plan.XLS")
    film, plan = errors(tmp_path)
    assert (film.uri, film.stage, film.error) == ("film.MP4", "list", "Unsupported")
    assert ".mp4" in film.message
    assert (plan.uri, plan.error) == ("plan.XLS", "Unsupported")
    assert "save the file as XLSX" in plan.message


def test_a_cycle_of_links_ends_and_is_named(tmp_path: Path) -> None:
    write(tmp_path, "a/x.md")
    (tmp_path / "a" / "up").symlink_to(tmp_path, target_is_directory=True)
    assert listed(tmp_path) == ["a/x.md"]
    (row,) = errors(tmp_path)
    assert (row.uri, row.error) == ("a/up", "Unsupported")


def test_a_folder_behind_a_link_keeps_its_real_uri(tmp_path: Path) -> None:
    # The link sorts first; a rule for the real folder must still be the one that counts.
    write(tmp_path, "secret/x.md")
    (tmp_path / "a-link").symlink_to(tmp_path / "secret", target_is_directory=True)
    assert listed(tmp_path) == ["secret/x.md"]


def test_a_broken_link_is_an_error_row(tmp_path: Path) -> None:
    (tmp_path / "gone.md").symlink_to(tmp_path / "nothing.md")
    (row,) = errors(tmp_path)
    assert (row.uri, row.error) == ("gone.md", "FileNotFoundError")


def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    (row,) = errors(tmp_path)
    assert row.error == "Unsupported"


def test_a_name_that_is_no_text_is_an_error_row_that_can_be_written(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.md")).write_text("x")
    (row,) = errors(tmp_path)
    assert row.uri.encode("utf-8") == rb"caf\udce9.md"


def test_the_watermark_changes_with_time_and_size(tmp_path: Path) -> None:
    path = write(tmp_path, "a.md", "one")

    def watermark() -> str:
        (found,) = list_sources(tmp_path, CONFIG)
        assert isinstance(found, SourceObject)
        return found.watermark

    first = watermark()
    assert watermark() == first
    os.utime(path, ns=(1, 1))
    second = watermark()
    path.write_text("longer")
    os.utime(path, ns=(1, 1))
    assert len({first, second, watermark()}) == 3


def test_the_first_matching_rule_gives_access_owner_and_authority(tmp_path: Path) -> None:
    for uri in ("hr/pay/bands.md", "hr/leave.md", "other.md"):
        write(tmp_path, uri)
    rules = (
        AccessRule(pattern="hr/pay/**", groups=("payroll", "hr", "hr"), owner="Payroll", authority="policy"),
        AccessRule(pattern="hr/**", groups=("hr",), tenant="people"),
    )
    config = CONFIG.model_copy(update={"rules": rules})
    found = {item.uri: item.metadata for item in list_sources(tmp_path, config) if isinstance(item, SourceObject)}
    assert found["hr/pay/bands.md"].access == Access("acme", ("hr", "payroll"))
    assert (found["hr/pay/bands.md"].owner, found["hr/pay/bands.md"].authority) == ("Payroll", "policy")
    assert found["hr/leave.md"].access == Access("people", ("hr",))
    assert found["other.md"].access == Access("acme", ("staff",))


@pytest.mark.parametrize(
    ("pattern", "uri", "expected"),
    [
        ("a/**", "a/x", True),
        ("a/**", "a/b/c", True),
        ("a/**", "ab/c", False),
        ("**/x.md", "x.md", True),
        ("**/x.md", "a/b/x.md", True),
        ("**/x.md", "ax.md", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/c/d/b", True),
        ("*", "a", True),
        ("*", "a/b", False),
        ("*.md", "a.md", True),
        ("*.md", "a/a.md", False),
        ("?", "/", False),
        ("a.c", "abc", False),
        ("[ab].md", "b.md", True),
        ("[!ab].md", "c.md", True),
        ("[!ab].md", "a.md", False),
        ("a[.md", "a[.md", True),
        ("**", "a/b/c", True),
    ],
)
def test_globs_match_as_they_are_documented(pattern: str, uri: str, expected: bool) -> None:
    assert bool(glob_to_regex(pattern).fullmatch(uri)) is expected


@given(st.lists(st.sampled_from(["a", "b", "a.b", "-"]), min_size=1, max_size=5))
def test_a_uri_matches_itself_and_every_folder_above_it(parts: list[str]) -> None:
    uri = "/".join(parts)
    assert glob_to_regex(uri).fullmatch(uri)
    for depth in range(len(parts)):
        assert glob_to_regex("/".join([*parts[:depth], "**"])).fullmatch(uri)
    assert bool(glob_to_regex("*").fullmatch(uri)) is (len(parts) == 1)


def test_a_pattern_that_is_no_glob_is_named() -> None:
    with pytest.raises(ConfigError, match=re.escape("[z-a]")):
        glob_to_regex("[z-a]")


def test_each_line_of_an_export_is_an_object(tmp_path: Path) -> None:
    rows = [{"id": "q1", "title": "One"}, {"id": 2, "title": "Two"}]
    write(tmp_path, "forum.jsonl", "\n".join(map(json.dumps, rows)) + "\n\n")
    found = [item for item in list_sources(tmp_path, CONFIG) if isinstance(item, SourceObject)]
    assert [item.uri for item in found] == ["forum.jsonl#q1", "forum.jsonl#2"]
    assert [json.loads(item.row or "") for item in found] == rows
    assert found[0].watermark != found[1].watermark
    assert errors(tmp_path) == []


def test_a_bad_line_costs_that_line_alone(tmp_path: Path) -> None:
    lines = ['{"id": "a"}', "{broken", "[1]", '{"title": "no id"}', '{"id": true}', '{"id": "a"}', '{"id": "z"}']
    write(tmp_path, "x.jsonl", "\n".join(lines))
    assert listed(tmp_path) == ["x.jsonl#a", "x.jsonl#z"]
    rows = errors(tmp_path)
    assert [row.uri for row in rows] == [f"x.jsonl#line-{number}" for number in (2, 3, 4, 5, 6)]
    assert "line 1" in rows[-1].message  # the id was used there


def test_a_line_over_the_limit_is_an_error_and_the_next_is_read(tmp_path: Path) -> None:
    write(tmp_path, "x.jsonl", json.dumps({"id": "big", "text": "x" * 500}) + '\n{"id": "small"}\n')
    config = CONFIG.model_copy(update={"max_document_bytes": 100})
    assert listed(tmp_path, config) == ["x.jsonl#small"]
    (row,) = errors(tmp_path, config)
    assert "100" in row.message


def test_a_rule_for_the_export_covers_its_rows(tmp_path: Path) -> None:
    write(tmp_path, "hr/x.jsonl", '{"id": "a/b"}')
    config = CONFIG.model_copy(update={"rules": (AccessRule(pattern="hr/x.jsonl", groups=("hr",)),)})
    (found,) = list_sources(tmp_path, config)
    assert isinstance(found, SourceObject)
    assert found.metadata.access.groups == ("hr",)


def test_a_row_gives_its_own_groups_only_where_it_is_trusted(tmp_path: Path) -> None:
    write(tmp_path, "x.jsonl", '{"id": "a", "groups": ["b", "a"], "tenant": "t"}\n{"id": "b", "groups": {"hr": 1}}')
    plain = [item.metadata.access for item in list_sources(tmp_path, CONFIG) if isinstance(item, SourceObject)]
    assert plain == [Access("acme", ("staff",))] * 2
    trusting = CONFIG.model_copy(update={"trust_document_groups": True})
    found = list(list_sources(tmp_path, trusting))
    assert isinstance(found[0], SourceObject)
    assert found[0].metadata.access == Access("t", ("a", "b"))
    assert isinstance(found[1], ErrorRow)  # a restriction that can't be read opens nothing
