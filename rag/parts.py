"""The only place that turns a name in the configuration into a class.

Imports stay inside the functions, so that a process loads no library of a part that it does not build.
"""

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from rag.config import RagConfig
from rag.errors import ConfigError
from rag.models import resolve
from rag.protocols import Chunker, Embedder, Generator, Parser, Reader, Reranker, TokenCounter

if TYPE_CHECKING:
    from rag.parse.ocr.page import OcrReader
    from rag.parse.parser import DocumentParser
    from rag.parse.pdf.detected import PageDetector


def build_parser(config: RagConfig) -> Parser:
    """The parser of every format, its work in a process of its own unless `parse.isolation` is none."""
    match config.parse.isolation:
        case "process":
            from rag.parse.isolation import IsolatedParser
            from rag.parse.parser import DocumentParser

            text_parser = DocumentParser(config.parse, config.sources)
            return IsolatedParser(partial(build_document_parser, config), config.parse, text_parser)
        case "none":
            return build_document_parser(config)


def build_document_parser(config: RagConfig) -> "DocumentParser":
    """The parser that finds the right one for each media type, in this process."""
    from rag.parse.parser import DocumentParser

    return DocumentParser(config.parse, config.sources, build_ocr(config), build_detector(config))


def build_detector(config: RagConfig) -> "PageDetector | None":
    """What finds the layout of complicated pages; None where rules do. Raises ConfigError for a missing class."""
    model = config.parse.detector_model
    match config.parse.detector:
        case "none":
            return None
        case "pymupdf":
            from rag.parse.pdf.detectors.pymupdf_layout import PyMuPDFDetector

            return PyMuPDFDetector(model)
        case "picodet":
            from rag.parse.pdf.detectors.picodet import PicoDetDetector

            return PicoDetDetector(model)
        case "transformers":
            from rag.parse.pdf.detectors.transformers_detector import TransformersDetector

            return TransformersDetector(model)
        case path:
            module, _, name = path.partition(":")
            try:
                found = getattr(import_module(module), name)
            except (ImportError, AttributeError) as error:
                raise ConfigError(f"parse.detector: {path} can't be imported: {error}") from error
            detector: PageDetector = found(model)
            return detector


def build_ocr(config: RagConfig) -> "OcrReader | None":
    """What reads scans and pictures; None where nothing does. Models are loaded with the first picture."""
    from rag.parse.ocr.page import OcrReader

    match config.parse.ocr:
        case "rapidocr":
            from rag.parse.ocr.rapid import RapidOcr

            return OcrReader(RapidOcr(config.parse.ocr_threads), config.parse.ocr_dpi)
        case "tesseract":
            from rag.parse.ocr.tesseract import TesseractOcr

            return OcrReader(TesseractOcr(config.parse.ocr_languages, config.parse.ocr_dpi), config.parse.ocr_dpi)
        case "none":
            return None


def build_chunker(config: RagConfig) -> Chunker:
    """The chunker, with the encoder's own token counter; `semantic` loads the encoder itself."""
    from rag.clean.flags import TextFlags

    counter, flags = build_token_counter(config), TextFlags(config.clean)
    match config.chunk.chunker:
        case "structural":
            from rag.chunk.structural import StructuralChunker

            return StructuralChunker(config.chunk, counter, flags)
        case "window":
            from rag.chunk.window import WindowChunker

            return WindowChunker(config.chunk, counter, flags)
        case "sentence":
            from rag.chunk.sentence import SentenceChunker

            return SentenceChunker(config.chunk, counter, flags)
        case "semantic":
            from rag.chunk.semantic import SemanticChunker

            return SemanticChunker(config.chunk, counter, flags, build_embedder(config))
        case "hierarchical":
            from rag.chunk.hierarchical import HierarchicalChunker

            return HierarchicalChunker(config.chunk, counter, flags)


def build_token_counter(config: RagConfig) -> TokenCounter:
    """Counts tokens as the embedder will see them."""
    match config.embed.embedder:
        case "sentence":
            from rag.chunk.tokens import EncoderTokenCounter

            return EncoderTokenCounter(resolve(config.embed.model, config.models))
        case "hashing":
            from rag.chunk.tokens import WordTokenCounter

            return WordTokenCounter()


def build_generator_token_counter(config: RagConfig) -> TokenCounter:
    """Counts tokens as the generator will see them."""
    match config.generate.generator:
        case "language_model":
            from rag.generate.tokens import GeneratorTokenCounter

            return GeneratorTokenCounter(resolve(config.generate.model, config.models))
        case "extractive":
            from rag.chunk.tokens import WordTokenCounter

            return WordTokenCounter()


def build_embedder(config: RagConfig) -> Embedder:
    """The embedder, its weights loaded. Raises ModelError when they are not on this machine."""
    match config.embed.embedder:
        case "sentence":
            from rag.embed.sentence import SentenceEncoder

            return SentenceEncoder(resolve(config.embed.model, config.models), config.embed)
        case "hashing":
            from rag.embed.hashing import HashingEmbedder

            return HashingEmbedder()


def build_reranker(config: RagConfig) -> Reranker:
    """The reranker, its weights loaded. Raises ModelError when they are not on this machine."""
    match config.rerank.reranker:
        case "late_interaction":
            from rag.rerank.late_interaction import LateInteractionReranker

            return LateInteractionReranker(resolve(config.rerank.model, config.models), config.rerank)
        case "cross_encoder":
            from rag.rerank.cross_encoder import CrossEncoder

            return CrossEncoder(resolve(config.rerank.model, config.models), config.rerank)
        case "overlap":
            from rag.rerank.overlap import OverlapReranker

            return OverlapReranker()


def build_reader(config: RagConfig) -> Reader | None:
    """What looks for answers in passages, its weights loaded; None where `generate.reader` names nothing. Raises
    ModelError when they are not on this machine."""
    if not config.generate.reader:
        return None
    from rag.generate.reader import SpanReader

    return SpanReader(resolve(config.generate.reader, config.models), config.rerank)


def build_generator(config: RagConfig) -> Generator:
    """The generator of one process. Raises ModelError when its weights are not on this machine."""
    match config.generate.generator:
        case "language_model":
            from rag.generate.language_model import LanguageModelGenerator

            return LanguageModelGenerator(resolve(config.generate.model, config.models), config.generate)
        case "extractive":
            from rag.generate.extractive import ExtractiveGenerator

            return ExtractiveGenerator()


def check_encoder(config: RagConfig) -> None:
    """Raises ModelError when the encoder is not on this machine; loads nothing."""
    if config.embed.embedder == "sentence":
        resolve(config.embed.model, config.models)
