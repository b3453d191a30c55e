"""The parser of every format that is read: it decides by the bytes which one a document is in."""

from typing import TYPE_CHECKING

from rag.config import ParseConfig, SourcesConfig
from rag.data import Block, Document, RawDocument
from rag.errors import ParseError, RagError
from rag.ids import document_id
from rag.parse import media_type as types
from rag.parse.content import ParsedContent, printable
from rag.parse.delimited import parse_delimited
from rag.parse.description import describe
from rag.parse.forum import parse_row
from rag.parse.html import parse_html
from rag.parse.markdown import parse_markdown
from rag.parse.media_type import decode_text, detect_media_type
from rag.parse.plain import parse_plain

# What only PDFs, pictures and Office files need is imported when the first of them comes: PyMuPDF alone loads models.
if TYPE_CHECKING:
    from rag.parse.ocr.page import OcrReader
    from rag.parse.pages import PageWork
    from rag.parse.pdf.detected import PageDetector


class DocumentParser:
    """Turns the bytes of any supported format into a Document."""

    def __init__(
        self,
        parse: ParseConfig,
        sources: SourcesConfig,
        ocr: "OcrReader | None" = None,
        detector: "PageDetector | None" = None,
    ) -> None:
        self._parse, self._sources, self._ocr, self._detector = parse, sources, ocr, detector

    def parse(self, raw: RawDocument, work: "PageWork | None" = None) -> Document:
        """The document's blocks in reading order. Raises ParseError with a reason for its owner.

        `work` takes the pages of a PDF through their steps; by itself the parser does so here and at once.
        """
        uri = raw.metadata.uri
        media_type = detect_media_type(raw)
        try:
            content = self._parse_as(media_type, raw, work)
        except RagError:  # a reason of its own, or a model that is missing
            raise
        except Exception as error:  # whatever a format's library raises must cost this document alone
            raise ParseError(uri, f"{media_type} can't be parsed: {type(error).__name__}: {error}") from error
        blocks = tuple(block for block in map(_printable, content.blocks) if block.text.strip())
        if not blocks:
            raise ParseError(uri, "no text in the document")
        metadata = describe(raw.metadata, content, media_type, self._sources)
        return Document(
            document_id(metadata.access.tenant, uri),
            raw.content_hash,
            metadata,
            blocks,
            content.num_pages,
            content.pages,
            tuple(sorted(content.flags)),
        )

    def _parse_as(self, media_type: str, raw: RawDocument, work: "PageWork | None") -> ParsedContent:
        if media_type == types.PDF:
            from rag.parse.pdf.parser import parse_pdf

            return parse_pdf(raw, self._parse, self._ocr, self._detector, work)
        if media_type in types.PICTURE_MEDIA_TYPES:
            from rag.parse.picture import parse_picture

            return parse_picture(raw, self._ocr)
        if media_type in types.OFFICE_MEDIA_TYPES:
            return self._parse_office(media_type, raw)
        text = decode_text(raw)
        match media_type:
            case types.MARKDOWN:
                return parse_markdown(text)
            case types.HTML:
                return parse_html(text)
            case types.CSV:
                return parse_delimited(text)
            case types.TSV:
                return parse_delimited(text, "\t")
            case types.ROW_MEDIA_TYPE:
                return parse_row(text)
            case _:
                return parse_plain(text)

    def _parse_office(self, media_type: str, raw: RawDocument) -> ParsedContent:
        from rag.parse.figures import FigureReader

        match media_type:
            case types.DOCX:
                from rag.parse.office.document import parse_docx

                return parse_docx(raw, self._parse, FigureReader(self._ocr, self._parse.max_figures))
            case types.PPTX:
                from rag.parse.office.slides import parse_pptx

                return parse_pptx(raw, self._parse, FigureReader(self._ocr, self._parse.max_figures))
            case _:
                from rag.parse.office.workbook import parse_xlsx

                return parse_xlsx(raw, self._parse)


def _printable(block: Block) -> Block:
    text = printable(block.text)
    return block if text == block.text else Block(block.kind, text, block.level, block.region)
