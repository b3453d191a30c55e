"""A picture as a document -> the blocks of the text in it, each with its page and box."""

from rag.data import RawDocument
from rag.errors import ParseError
from rag.parse.content import ParsedContent
from rag.parse.figures import decode_frames
from rag.parse.ocr.page import OcrReader
from rag.parse.pdf.blocks import blocks_of, text_of
from rag.parse.pdf.routing import Route, report_of
from rag.parse.pdf.text_layer import PageText

_ROUTE = Route("ocr", "a picture")


def parse_picture(raw: RawDocument, ocr: OcrReader | None) -> ParsedContent:
    """The blocks in reading order; a TIFF has a page for each of its pictures, any other format one.

    Raises ParseError for a picture that can't be decoded or holds no text, and where no OCR is configured.
    """
    uri = raw.metadata.uri
    if ocr is None:
        raise ParseError(uri, "a picture: needs OCR, and parse.ocr is none")
    pages: list[PageText] = []
    try:
        for number, (picture, dpi) in enumerate(decode_frames(raw.content), start=1):
            pages.append(ocr.read_picture(picture, number, dpi))
    except ValueError as error:
        raise ParseError(uri, str(error)) from error
    blocks = blocks_of(text_of(pages), [()] * len(pages), ())
    if not blocks:
        raise ParseError(uri, "no text found in the picture")
    reports = tuple(report_of(page, _ROUTE) for page in pages)
    return ParsedContent(tuple(blocks), num_pages=len(pages), pages=reports)
