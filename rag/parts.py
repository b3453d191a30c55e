"""The only place that turns a name in the configuration into a class.

Imports stay inside the functions, so that a process loads no library of a part that it does not build.
"""

from rag.config import RagConfig
from rag.models import resolve
from rag.protocols import Chunker, Embedder, Generator, Parser, Reranker, TokenCounter


def build_parser(config: RagConfig) -> Parser:
    """The parser, which finds the right one for each media type."""
    from rag.parse.parser import DocumentParser

    return DocumentParser(config.parse, config.sources)


def build_chunker(config: RagConfig) -> Chunker:
    """The chunker, with the encoder's own token counter."""
    match config.chunk.chunker:
        case "structural":
            from rag.chunk.structural import StructuralChunker

            return StructuralChunker(config.chunk, build_token_counter(config))


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
