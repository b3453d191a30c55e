import time
from datetime import UTC, datetime
from pathlib import Path

import pymupdf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.config import ParseConfig, SourcesConfig
from rag.data import Document, PageReport, SourceObject
from rag.errors import ParseError
from rag.parse.parser import DocumentParser
from rag.parse.pdf.parser import parse_pdf
from rag.parse.pdf.text_layer import PageText, read_page
from rag.read.objects import read_object
from rag.read.sources import list_sources
from tests.rag.parse.parsing import parse, raw_document, shown
from tests.rag.parse.pdf.drawing import HEIGHT, WIDTH, pdf_bytes, write, write_lines

SHARED = Path(__file__).parents[5] / "shared" / "data"
LEFT = [f"Left column line number {at} of the running text" for at in range(8)]
RIGHT = [f"Right column line number {at} of the running text" for at in range(8)]


def parsed(*pages: object, **options: object) -> Document:
    return parse(pdf_bytes(*pages, **options), "folder/a.pdf")  # type: ignore[arg-type]


def two_columns(page: pymupdf.Page) -> None:
    write(page, 72, 80, "A heading over both of the columns that is wide enough to cross", 16)
    # Drawn right column first: the order in the file must not matter.
    write_lines(page, 320, 120, RIGHT)
    write_lines(page, 72, 120, LEFT)


def test_columns_are_read_one_after_the_other_below_a_wide_heading() -> None:
    assert shown(parsed(two_columns)) == [
        ("heading1", "A heading over both of the columns that is wide enough to cross"),
        ("paragraph", " ".join(LEFT)),
        ("paragraph", " ".join(RIGHT)),
    ]


def test_a_wide_heading_parts_the_columns_above_and_below_it() -> None:
    def draw(page: pymupdf.Page) -> None:
        write_lines(page, 72, 100, LEFT)
        write_lines(page, 320, 100, RIGHT)
        write(page, 72, 230, "Second part with a heading that crosses the whole page again", 16)
        write_lines(page, 72, 260, [line.replace("Left", "Lower left") for line in LEFT])
        write_lines(page, 320, 260, [line.replace("Right", "Lower right") for line in RIGHT])

    kinds = [text.split(" column")[0] for _, text in shown(parsed(draw))]
    assert [kind[:11] for kind in kinds] == ["Left", "Right", "Second part", "Lower left", "Lower right"]


def test_a_table_without_rules_keeps_each_row_on_a_line() -> None:
    def draw(page: pymupdf.Page) -> None:
        rows = [("", "2022", "2021"), ("Net sales", "1,234", "999"), ("Costs:", "", ""), ("Products", "(10)", "(8)")]
        write(page, 72, 90, "Amounts are given in millions of dollars for the two years.")
        for number, cells in enumerate(rows):
            for x, cell in zip((72, 300, 400), cells, strict=True):
                if cell:
                    write(page, x, 120 + 12 * number, cell)

    blocks = shown(parsed(draw))
    assert blocks[0][0] == "paragraph"
    assert blocks[1] == (
        "table",
        "|  | 2022 | 2021 |\n| --- | --- | --- |\n"
        "| Net sales | 1,234 | 999 |\n| Costs: |  |  |\n| Products | (10) | (8) |",
    )


def grid(page: pymupdf.Page) -> None:
    for y in (100, 120, 140, 160):
        page.draw_line((72, y), (372, y))
    for x in (72, 172, 372):
        page.draw_line((x, 100), (x, 160))
    page.draw_line((272, 120), (272, 160))  # the first row's last cell spans two columns
    for row, cells in enumerate([("Name", "Wide"), ("a", "b", "c"), ("d", "e|f", "g")]):
        for column, cell in enumerate(cells):
            write(page, 76 + 100 * column, 114 + 20 * row, cell)
    write(page, 72, 90, "Above the table")
    write(page, 72, 190, "Below the table")


def test_a_ruled_table_is_one_block_between_its_neighbours() -> None:
    document = parsed(grid)
    assert shown(document) == [
        ("paragraph", "Above the table"),
        (
            "table",
            '<table>\n<tr><th>Name</th><th colspan="2">Wide</th></tr>\n<tr><th>a</th><th>b</th><th>c</th></tr>\n'
            "<tr><td>d</td><td>e|f</td><td>g</td></tr>\n</table>",
        ),
        ("paragraph", "Below the table"),
    ]
    region = document.blocks[1].region
    assert region is not None
    assert region.box.x0 == pytest.approx(72, abs=1)
    assert region.box.y1 == pytest.approx(160, abs=1)


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_boxes_lie_where_a_rotated_page_shows_the_text(rotation: int) -> None:
    def draw(page: pymupdf.Page) -> None:
        write(page, 72, 100, "Some words at the upper left of the page before it is turned")

    document = parsed(draw, rotation=rotation)
    (block,) = document.blocks
    assert block.region is not None
    box = block.region.box
    width, height = (WIDTH, HEIGHT) if rotation % 180 == 0 else (HEIGHT, WIDTH)
    x, y = (box.x0 + box.x1) / 2 / width, (box.y0 + box.y1) / 2 / height
    # The text's middle at 0 degrees is left of the middle and near the top; each turn is clockwise.
    expected = {0: (0, 0), 90: (1, 0), 180: (1, 1), 270: (0, 1)}[rotation]
    assert (round(x), round(y)) == expected
    assert (box.x1 - box.x0 > box.y1 - box.y0) is (rotation % 180 == 0)


def test_boxes_agree_with_the_search_of_the_library() -> None:
    content = pdf_bytes(two_columns, rotation=90)
    document = parse(content, "a.pdf")
    with pymupdf.open(stream=content, filetype="pdf") as pdf:
        page = pdf[0]
        (found,) = (rect * page.rotation_matrix for rect in page.search_for("A heading over both"))
    region = document.blocks[0].region
    assert region is not None
    box = region.box
    assert pymupdf.Rect(box.x0 - 1, box.y0 - 1, box.x1 + 1, box.y1 + 1).contains(found)


def test_running_headers_and_footers_go_and_the_body_stays() -> None:
    def page_number(number: int) -> object:
        def draw(page: pymupdf.Page) -> None:
            write(page, 72, 40, "Acme handbook")
            write(page, 72, 300, f"Body of page {number} with the same words on every page")
            write(page, 300, 760, f"Page {number} of 4")

        return draw

    document = parsed(*(page_number(number) for number in (1, 2, 3, 4)))
    assert [text for _, text in shown(document)] == [
        f"Body of page {number} with the same words on every page" for number in (1, 2, 3, 4)
    ]
    assert [block.region.page for block in document.blocks if block.region] == [1, 2, 3, 4]
    assert document.num_pages == 4


def test_headings_are_levelled_by_size_then_weight() -> None:
    def draw(page: pymupdf.Page) -> None:
        write(page, 72, 80, "Handbook", 20)
        write(page, 72, 120, "Travel", 14)
        write(page, 72, 150, "Before you go", 10, bold=True)
        write_lines(page, 72, 180, ["Book early and keep every receipt that you are given,", "always."])

    assert [kind for kind, _ in shown(parsed(draw))] == ["heading1", "heading2", "heading3", "paragraph"]


def test_lists_hyphens_and_ligatures_become_plain_text() -> None:
    def draw(page: pymupdf.Page) -> None:
        lines = ["The reimburse-", "ment of\u00a0costs is a well-known process, and a well-", "known form is used."]
        write_lines(page, 72, 100, lines)
        write_lines(page, 72, 160, ["\u2022 first item that goes", "on", "\u2022 second item"])

    assert shown(parsed(draw)) == [
        ("paragraph", "The reimbursement of costs is a well-known process, and a well-known form is used."),
        ("list", "- first item that goes on\n- second item"),
    ]


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Travel policy", "Travel policy"),
        ("Microsoft Word - travel.doc", "Large"),
        ("untitled", "Large"),
        ("", "Large"),
    ],
)
def test_the_title_is_the_metadata_s_where_it_makes_sense(title: str, expected: str) -> None:
    def draw(page: pymupdf.Page) -> None:
        write(page, 72, 80, "Large", 20)
        write(page, 72, 120, "Enough words to be the body of this page.")

    metadata = parsed(draw, title=title).metadata
    assert metadata.title == expected
    assert metadata.updated_at == datetime(2024, 2, 29, 10, tzinfo=UTC)
    assert metadata.media_type == "application/pdf"


def image(page: pymupdf.Page) -> None:
    pixmap = pymupdf.Pixmap(pymupdf.csRGB, pymupdf.IRect(0, 0, 20, 20))
    pixmap.clear_with(128)
    page.insert_image(pymupdf.Rect(72, 72, 300, 300), pixmap=pixmap)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (pdf_bytes(two_columns, password="secret"), "encrypted: needs a password"),
        (pdf_bytes(image, image), "scanned: no text layer on any of 2 pages"),
        (pdf_bytes(lambda page: None), "blank"),
        (b"%PDF-1.7\nnothing more", "damaged"),
        (pdf_bytes(two_columns)[:80], "damaged"),
        (b"plain words", "not a PDF"),
    ],
)
def test_each_unreadable_pdf_has_its_own_reason(content: bytes, reason: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ParseError, match=reason):
        parse(content, "a.pdf")
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_a_scanned_page_among_others_costs_only_itself() -> None:
    document = parsed(image, two_columns)
    assert document.num_pages == 2
    assert {block.region.page for block in document.blocks if block.region} == {2}


def test_a_damaged_page_is_lost_and_no_sentence_goes_on_over_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(page: pymupdf.Page, number: int) -> PageText:
        if number == 2:
            raise RuntimeError("cannot find object in xref")
        return read_page(page, number)

    monkeypatch.setattr("rag.parse.pdf.parser.read_page", read)
    document = parsed(
        lambda page: write(page, 72, 100, "Before the pump is started, its keeper opens the"),
        lambda page: write(page, 72, 100, "valve of the tank."),
        lambda page: write(page, 72, 100, "cover is closed again, and the hall is left."),
    )
    assert [block.text for block in document.blocks] == [
        "Before the pump is started, its keeper opens the",
        "cover is closed again, and the hall is left.",
    ]
    assert document.pages[1] == PageReport(2, "lost", "damaged: cannot find object in xref", 0)
    with pytest.raises(ParseError, match=r"blank: no text .* on any of 2 pages; lost are page 2: damaged: "):
        parsed(lambda page: None, two_columns)


def test_the_page_limit_is_named() -> None:
    raw = raw_document(pdf_bytes(two_columns, two_columns), "a.pdf")
    with pytest.raises(ParseError, match="2 pages, the limit is 1"):
        parse_pdf(raw, ParseConfig(max_pages=1))


WHOLE = pdf_bytes(two_columns, grid)  # once: PyMuPDF writes a new file id each time


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_damaged_bytes_parse_or_raise_and_do_so_the_same_way_twice(data: st.DataObject) -> None:
    content = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 12))):
        content[data.draw(st.integers(8, len(content) - 1))] = data.draw(st.integers(0, 255))

    def outcome() -> object:
        try:
            return parse(bytes(content), "a.pdf")
        except ParseError as error:
            return error.reason

    assert outcome() == outcome()


@pytest.mark.shared_data
def test_awkward_pdfs_parse_or_say_why_not() -> None:
    sources = SourcesConfig()
    parser = DocumentParser(ParseConfig(), sources)
    reasons: dict[str, str] = {}
    for source in list_sources(SHARED / "pdf-awkward" / "pdfs", sources):
        assert isinstance(source, SourceObject)
        started = time.monotonic()
        try:
            assert parser.parse(read_object(source, sources)).blocks
        except ParseError as error:
            reasons[source.uri] = error.reason.split(":")[0]
        assert time.monotonic() - started < 60
    encrypted = {uri for uri, reason in reasons.items() if reason == "encrypted"}
    assert encrypted == {"aes-256-r6.pdf", "health_protected.pdf", "libreoffice-writer-password.pdf"}
    assert {uri for uri, reason in reasons.items() if reason == "scanned"} >= {"ocr_test.pdf", "chinese_scan.pdf"}
    assert "copy_protected.pdf" not in reasons
