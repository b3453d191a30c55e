"""The sample corpus builds to the same bytes, and the golden set agrees with it and with the access rules."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypedDict, cast

import pymupdf
import pytest
import yaml
from bs4 import BeautifulSoup

from bench.sample.build import SAMPLE, SHEETS, build_sample, main
from bench.sample.pdf_blocks import Paragraph

LEAST_OF_EACH_KIND = {
    "lookup": 30,
    "identifier": 12,
    "table": 12,
    "multi_document": 8,
    "follow_up": 6,
    "list_all": 5,
    "unanswerable": 12,
    "permission": 10,
}
GROUPS = {
    "tarnfell": {
        "all-staff",
        "engineering",
        "people-ops",
        "finance",
        "legal",
        "security",
        "support",
        "executives",
    },
    "osmund": {"osmund-staff", "osmund-ops"},
}


class Turn(TypedDict):
    role: Literal["user", "assistant"]
    content: str


class Evidence(TypedDict):
    document: str
    span: str


Golden = TypedDict(
    "Golden",
    {
        "id": str,
        "kind": str,
        "question": str,
        "as": str,
        "history": list[Turn],
        "relevant": list[Evidence],
        "answer": str,
        "must_include": list[str],
    },
)


@dataclass(frozen=True, slots=True)
class Reader:
    """A principal of the sample, or the readers that a rule admits."""

    tenant: str
    groups: frozenset[str]


def load_golden() -> list[Golden]:
    lines = (SAMPLE / "golden.jsonl").read_text(encoding="utf-8").splitlines()
    return [cast(Golden, json.loads(line)) for line in lines]


def load_principals() -> dict[str, Reader]:
    rows = yaml.safe_load((SAMPLE / "principals.yaml").read_text(encoding="utf-8"))["principals"]
    return {row["name"]: Reader(row["tenant"], frozenset(row["groups"])) for row in rows}


def load_rules() -> list[tuple[re.Pattern[str], Reader]]:
    rows = yaml.safe_load((SAMPLE / "access.yaml").read_text(encoding="utf-8"))["rules"]
    return [(glob_pattern(row["pattern"]), Reader(row["tenant"], frozenset(row["groups"]))) for row in rows]


def glob_pattern(glob: str) -> re.Pattern[str]:
    """The glob as an expression over a whole path: `**` crosses folders, `*` stays in one."""
    parts = (".*" if part == "**" else "[^/]*" if part == "*" else re.escape(part) for part in re.split(r"(\*+)", glob))
    return re.compile("".join(parts))


GOLDEN = load_golden()
PRINCIPALS = load_principals()
RULES = load_rules()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sample") / "corpus"
    build_sample(out)
    return out


def relative_files(corpus: Path) -> list[str]:
    return sorted(path.relative_to(corpus).as_posix() for path in corpus.rglob("*") if path.is_file())


@cache
def forum_rows(path: Path) -> dict[str, Any]:  # a row is JSON: strings, numbers and lists of them
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {row["id"]: row for row in rows}


def collapse(text: str) -> str:
    return " ".join(text.split())


@cache
def texts_of(corpus: Path, document: str) -> tuple[str, ...]:
    """The visible text of a document with single spaces: one string, or one for each page of a PDF."""
    name, _, row_id = document.partition("#")
    path = corpus / name
    match path.suffix:
        case ".md":
            body = path.read_text(encoding="utf-8").split("\n---\n", 1)[1]
            return (collapse(re.sub(r"[*`]", "", body)),)
        case ".html":
            main_element = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser").main
            assert main_element is not None, document
            return (collapse(main_element.get_text(" ")),)
        case ".jsonl":
            row = forum_rows(path)[row_id]
            texts = [row["title"], row["question"], *(answer["text"] for answer in row["answers"])]
            return (collapse(" ".join(texts)),)
        case ".pdf":
            with pymupdf.open(path) as pdf:
                return tuple(collapse(page.get_text()) for page in pdf)
        case suffix:
            raise AssertionError(f"{document}: unknown suffix {suffix}")


def readers_of(corpus: Path, document: str) -> Reader:
    """Whom the first matching rule admits; a forum row's own groups take the place of the rule's."""
    name, _, row_id = document.partition("#")
    admitted = next(reader for pattern, reader in RULES if pattern.fullmatch(name))
    if row_id and "groups" in (row := forum_rows(corpus / name)[row_id]):
        return Reader(admitted.tenant, frozenset(row["groups"]))
    return admitted


def may_read(corpus: Path, principal: str, document: str) -> bool:
    reader, admitted = PRINCIPALS[principal], readers_of(corpus, document)
    return reader.tenant == admitted.tenant and bool(reader.groups & admitted.groups)


def test_two_builds_give_the_same_bytes(tmp_path: Path, corpus: Path) -> None:
    build_sample(tmp_path / "again")
    assert relative_files(tmp_path / "again") == relative_files(corpus)
    for name in relative_files(corpus):
        assert (tmp_path / "again" / name).read_bytes() == (corpus / name).read_bytes(), name


def test_a_rebuild_replaces_what_was_there_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    out = tmp_path / "corpus"
    first = build_sample(out)
    (out / "stale.md").write_text("old", encoding="utf-8")
    assert build_sample(out) == first
    assert list(tmp_path.iterdir()) == [out]


def test_the_command_keeps_a_full_folder_unless_forced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.txt").write_text("keep", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["build", str(tmp_path)])
    with pytest.raises(SystemExit):
        main()
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    monkeypatch.setattr(sys, "argv", ["build", str(tmp_path), "--force"])
    main()
    assert "mine.txt" not in relative_files(tmp_path)


def test_the_sample_is_large_enough(corpus: Path) -> None:
    files = relative_files(corpus)
    kinds = Counter(Path(name).suffix for name in files)
    threads = sum(len(forum_rows(corpus / name)) for name in files if name.endswith(".jsonl"))
    assert kinds[".pdf"] == len(SHEETS) >= 12
    assert kinds[".html"] >= 8
    assert threads >= 14
    assert kinds[".md"] + kinds[".html"] + kinds[".pdf"] + threads >= 62


def test_markdown_says_who_owns_it_and_when_it_was_updated(corpus: Path) -> None:
    for path in corpus.rglob("*.md"):
        _, front, _ = path.read_text(encoding="utf-8").split("---\n", 2)
        fields = yaml.safe_load(front)
        assert {"title", "owner", "updated_at"} <= fields.keys(), path
        assert 2023 <= fields["updated_at"].year <= 2026, path
        assert fields.get("authority", "note") in {"policy", "reference", "note"}, path


def test_html_has_a_title_and_a_date(corpus: Path) -> None:
    for path in corpus.rglob("*.html"):
        page = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
        assert page.title is not None, path
        assert page.title.get_text(), path
        assert page.find("meta", attrs={"name": "updated_at"}) is not None, path


def test_pdfs_carry_their_title_and_creation_date(corpus: Path) -> None:
    for sheet in SHEETS:
        with pymupdf.open(corpus / sheet.path) as pdf:
            assert pdf.metadata["title"] == sheet.title
            assert pdf.metadata["creationDate"].startswith(f"D:{sheet.created:%Y%m%d}")


def test_the_scan_has_no_text_layer(corpus: Path) -> None:
    scans = [name for name in relative_files(corpus) if Path(name).name.startswith("scan-")]
    assert scans
    for name in scans:
        assert not any(texts_of(corpus, name))
        with pymupdf.open(corpus / name) as pdf:
            assert all(page.get_images() for page in pdf)


def test_running_headers_are_on_at_least_three_pages(corpus: Path) -> None:
    headed = [sheet for sheet in SHEETS if sheet.header and sheet.footer]
    assert any(
        sum(sheet.header in text and sheet.footer in text for text in texts_of(corpus, sheet.path)) >= 3
        for sheet in headed
    )


def test_every_file_is_matched_by_a_rule_of_its_own_tenant(corpus: Path) -> None:
    for name in relative_files(corpus):
        admitted = [reader for pattern, reader in RULES if pattern.fullmatch(name)]
        assert admitted, name
        assert admitted[0].tenant == name.split("/")[0]


def test_every_rule_decides_about_a_file(corpus: Path) -> None:
    files = relative_files(corpus)
    deciding = {next(i for i, (pattern, _) in enumerate(RULES) if pattern.fullmatch(name)) for name in files}
    assert deciding == set(range(len(RULES)))


def test_groups_and_tenants_are_the_known_ones(corpus: Path) -> None:
    for reader in [*PRINCIPALS.values(), *(reader for _, reader in RULES)]:
        assert reader.groups <= GROUPS[reader.tenant]
    ruled = {(reader.tenant, group) for _, reader in RULES for group in reader.groups}
    assert ruled == {(tenant, group) for tenant, groups in GROUPS.items() for group in groups}


def test_a_forum_row_only_narrows_its_rule(corpus: Path) -> None:
    restricted = 0
    for path in corpus.rglob("*.jsonl"):
        name = path.relative_to(corpus).as_posix()
        admitted = readers_of(corpus, name)
        for row in forum_rows(path).values():
            restricted += "groups" in row
            assert set(row.get("groups", [])) <= admitted.groups, row["id"]
    assert restricted


def test_the_golden_set_has_enough_of_each_kind() -> None:
    assert len(GOLDEN) >= 90
    counts = Counter(golden["kind"] for golden in GOLDEN)
    assert counts.keys() - {"scan"} == LEAST_OF_EACH_KIND.keys()
    for kind, least in LEAST_OF_EACH_KIND.items():
        assert counts[kind] >= least, kind
    assert len({golden["id"] for golden in GOLDEN}) == len(GOLDEN)


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden["id"])
def test_a_golden_question_agrees_with_the_corpus(corpus: Path, golden: Golden) -> None:
    assert golden["as"] in PRINCIPALS
    assert bool(golden["history"]) == (golden["kind"] == "follow_up")
    assert [turn["role"] for turn in golden["history"]] == ["user", "assistant"] * (len(golden["history"]) // 2)
    if not golden["relevant"]:
        assert golden["kind"] in {"unanswerable", "permission"}
        assert (golden["answer"], golden["must_include"]) == ("not found", [])
    for evidence in golden["relevant"]:
        assert may_read(corpus, golden["as"], evidence["document"])
        assert sum(text.count(evidence["span"]) for text in span_texts(corpus, golden, evidence)) == 1, evidence
        assert len(evidence["span"]) <= 200


def span_texts(corpus: Path, golden: Golden, evidence: Evidence) -> tuple[str, ...]:
    """Where a span is looked for; a scan has no text, so there it is what was drawn before the picture was taken."""
    if golden["kind"] != "scan":
        return texts_of(corpus, evidence["document"])
    sheet = next(sheet for sheet in SHEETS if sheet.path == evidence["document"])
    return tuple(block.text for block in sheet.blocks if isinstance(block, Paragraph))


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden["id"])
def test_what_an_answer_must_include_is_in_its_documents(corpus: Path, golden: Golden) -> None:
    texts = [text for evidence in golden["relevant"] for text in span_texts(corpus, golden, evidence)]
    for needed in golden["must_include"]:
        assert any(needed in text for text in texts), needed


def test_multi_document_questions_need_several_documents() -> None:
    for golden in GOLDEN:
        if golden["kind"] == "multi_document":
            assert len({evidence["document"] for evidence in golden["relevant"]}) >= 2, golden["id"]


def test_permission_questions_come_in_pairs_that_differ_by_what_may_be_read(corpus: Path) -> None:
    pairs: dict[str, list[Golden]] = {}
    for golden in GOLDEN:
        if golden["kind"] == "permission":
            pairs.setdefault(golden["question"], []).append(golden)
    for question, twins in pairs.items():
        assert len({twin["as"] for twin in twins}) == len(twins) >= 2, question
        for twin in twins:
            for other in twins:
                if other is not twin:
                    assert not any(may_read(corpus, twin["as"], e["document"]) for e in other["relevant"]), question
