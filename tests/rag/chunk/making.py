"""Documents for the tests of the chunkers, and the five chunkers with cheap parts."""

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from rag.chunk.hierarchical import HierarchicalChunker
from rag.chunk.section_chunker import SectionChunker
from rag.chunk.semantic import SemanticChunker
from rag.chunk.sentence import SentenceChunker
from rag.chunk.structural import StructuralChunker
from rag.chunk.tokens import WordTokenCounter
from rag.chunk.window import WindowChunker
from rag.clean.flags import TextFlags
from rag.config import ChunkConfig, CleanConfig
from rag.data import Access, Block, Chunk, Document, DocumentMetadata
from rag.embed.hashing import HashingEmbedder
from rag.ids import document_id
from rag.protocols import TokenCounter

COUNTER = WordTokenCounter()
FLAGS = TextFlags(CleanConfig(pii="off"))
EMBEDDER = HashingEmbedder()

Make = Callable[[ChunkConfig, TokenCounter], SectionChunker]
CHUNKERS: dict[str, Make] = {
    "structural": lambda config, counter: StructuralChunker(config, counter, FLAGS),
    "window": lambda config, counter: WindowChunker(config, counter, FLAGS),
    "sentence": lambda config, counter: SentenceChunker(config, counter, FLAGS),
    "semantic": lambda config, counter: SemanticChunker(config, counter, FLAGS, EMBEDDER),
    "hierarchical": lambda config, counter: HierarchicalChunker(config, counter, FLAGS),
}


def document_of(*blocks: Block, title: str = "Guide") -> Document:
    metadata = DocumentMetadata("a.md", title, Access("t", ("g",)))
    return Document(document_id("t", "a.md"), "hash", metadata, blocks)


def heading(text: str, level: int = 2) -> Block:
    return Block("heading", text, level)


def paragraph(text: str) -> Block:
    return Block("paragraph", text)


def words(number: int, start: int = 0) -> str:
    return " ".join(f"w{at}" for at in range(start, start + number))


word = st.sampled_from(["a", "leave", "Travel", "incomprehensibilities"])
prose = st.lists(st.integers(1, 20), min_size=1, max_size=8).map(
    lambda sizes: " ".join(words(size, size).capitalize() + "." for size in sizes)
)
lines = st.lists(st.integers(1, 8).map(lambda size: words(size, size)), min_size=1, max_size=12)
code = st.lists(
    st.sampled_from(
        ["def f(a):", "    return g(a,", "        b)", "}", "x = [1,", "2]", "# why", "    if a:", "", "y()"]
    ),
    min_size=1,
    max_size=14,
)


def pipe_table(rows: list[str]) -> Block:
    """The lines as a Markdown table, a word a cell, the first as its header."""
    width = max(len(row.split()) for row in rows)
    cells = [row.split() + [""] * (width - len(row.split())) for row in rows]
    written = [f"| {' | '.join(row)} |" for row in cells]
    return Block("table", "\n".join([written[0], f"|{' --- |' * width}", *written[1:]]))


def html_table(rows: list[str]) -> Block:
    """The lines as an HTML table, the first as its header; every third row begins with a cell over two rows."""
    written = [f"<tr>{''.join(f'<th>{cell}</th>' for cell in rows[0].split())}</tr>"]
    for at, row in enumerate(rows[1:]):
        span = ' rowspan="2"' if at % 3 == 0 and at + 2 < len(rows) else ""
        written.append(f"<tr><td{span}>r{at}</td>{''.join(f'<td>{cell}</td>' for cell in row.split())}</tr>")
    return Block("table", "\n".join(["<table>", *written, "</table>"]))


body = st.one_of(
    prose.map(paragraph),
    st.text(alphabet="x。é \n", min_size=1, max_size=60).map(paragraph),
    lines.map(lambda found: Block("list", "\n".join(f"{'  ' * (at % 3)}- {line}" for at, line in enumerate(found)))),
    code.map(lambda found: Block("code", "\n".join(["```", *found, "```"]))),
    lines.map(pipe_table),
    lines.map(html_table),
    lines.map(lambda found: Block("table", "\n".join(found))),  # what no table reader understands
)
any_block = st.one_of(body, body, st.builds(heading, st.one_of(word, prose), st.integers(1, 4)))
documents = st.lists(any_block, max_size=8).flatmap(
    lambda blocks: st.one_of(word, prose).map(lambda title: document_of(*blocks, title=title))
)
configs = st.builds(
    ChunkConfig,
    max_tokens=st.integers(32, 120),
    min_tokens=st.integers(0, 60),
    overlap_sentences=st.integers(0, 2),
    overlap_tokens=st.integers(0, 40),
    semantic_drop=st.floats(-1, 2),
    child_tokens=st.integers(32, 64),
    parent_tokens=st.integers(32, 200),
)


def assert_chunks_hold(document: Document, chunks: Sequence[Chunk], max_tokens: int) -> None:
    """Offsets are exact, budgets are kept, nothing is lost, and all is in order."""
    text = document.text
    covered: set[int] = set()
    for chunk in chunks:
        assert chunk.text == text[chunk.start : chunk.end]
        assert chunk.text.strip()
        assert chunk.num_tokens == COUNTER.count([chunk.embedded_text])[0] <= max_tokens
        covered.update(range(chunk.start, chunk.end))
    start = 0
    for block in document.blocks:
        end = start + len(block.text)
        lost = [at for at in range(start, end) if at not in covered and not text[at].isspace()]
        if block.kind == "heading":
            names = {name for chunk in chunks for name in (*chunk.headings, chunk.metadata.title)}
            assert not lost or block.text in names
        else:
            assert not lost
        start = end + 2
    assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
    assert [chunk.section for chunk in chunks] == sorted(chunk.section for chunk in chunks)
    assert [chunk.start for chunk in chunks] == sorted(chunk.start for chunk in chunks)
    assert len({chunk.id for chunk in chunks}) == len(chunks)
