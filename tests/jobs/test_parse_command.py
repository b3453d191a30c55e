import json
from pathlib import Path

import pymupdf
import pytest

from jobs.parse_command import parse_file
from rag.config import ParseConfig, RagConfig
from rag.errors import InputError
from rag.parse.pdf.tables import FoundTable
from rag.parse.pdf.text_layer import PageText
from tests.rag.parse.pdf.drawing import HEIGHT, WIDTH, pdf_bytes, write, write_lines


def page(page: pymupdf.Page) -> None:
    write(page, 72, 80, "Travel", 20)
    write_lines(page, 72, 120, ["Book early and keep every receipt that you are", "given."])


@pytest.fixture
def config(tmp_path: Path) -> RagConfig:
    return RagConfig(store=tmp_path, var=tmp_path, models=tmp_path, parse=ParseConfig(isolation="none", ocr="none"))


def test_markdown_is_printed_and_pages_are_drawn(
    config: RagConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "travel.pdf"
    file.write_bytes(pdf_bytes(page, page, rotation=90))
    assert parse_file(config, file, tmp_path / "pages", as_json=False) == 0
    assert capsys.readouterr().out.startswith("# Travel\n\nBook early and keep every receipt that you are given.")
    drawn = sorted((tmp_path / "pages").iterdir())
    assert [path.name for path in drawn] == ["travel-0001.png", "travel-0002.png"]
    picture = pymupdf.Pixmap(str(drawn[0]))
    assert picture.width / picture.height == pytest.approx(HEIGHT / WIDTH, abs=0.01)  # as displayed
    assert picture.color_count() > 10  # frames have colours


def test_json_holds_blocks_with_places_and_routes_with_reasons(
    config: RagConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "travel.pdf"
    file.write_bytes(pdf_bytes(page))
    assert parse_file(config, file, None, as_json=True) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert [block["kind"] for block in document["blocks"]] == ["heading", "paragraph"]
    assert document["blocks"][0]["region"]["page"] == 1
    assert document["pages"][0]["route"] == "text"
    assert document["pages"][0]["reason"] == "a text layer"


def test_a_page_that_is_lost_is_named_with_its_reason(
    config: RagConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def find(page: pymupdf.Page, text: PageText) -> list[FoundTable]:
        if text.number == 2:
            raise RuntimeError("cannot find object in xref")
        return []

    file = tmp_path / "travel.pdf"
    file.write_bytes(pdf_bytes(page, lambda page: write(page, 72, 80, "E = mc")))
    monkeypatch.setattr("rag.parse.pdf.parser.find_tables", find)
    assert parse_file(config, file, None, as_json=False) == 0
    summary = "pages: 1 lost, 1 text; page 2 is lost: damaged: cannot find object in xref"
    assert summary in capsys.readouterr().err


def test_a_file_that_can_t_be_parsed_is_a_failure_with_its_reason(
    config: RagConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broken.pdf"
    file.write_bytes(b"%PDF-1.7\nnothing more")
    assert parse_file(config, file, None, as_json=False) == 1
    assert "damaged" in capsys.readouterr().err


def test_only_pages_can_be_shown(config: RagConfig, tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("# A\n\nb")
    with pytest.raises(InputError, match="only the pages of a PDF"):
        parse_file(config, file, tmp_path / "pages", as_json=False)
    with pytest.raises(InputError, match="no such file"):
        parse_file(config, tmp_path / "missing.pdf", None, as_json=False)
