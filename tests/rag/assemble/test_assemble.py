"""Ranked chunks -> numbered passages."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from rag.assemble.assemble import Assembly, assemble
from rag.config import AssembleConfig
from rag.data import Chunk
from tests.rag.generate.make import make_chunk


def count_words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def document(name: str, *paragraphs: str, sections: Sequence[int] | None = None) -> list[Chunk]:
    """A document of one chunk a paragraph, blank lines between them; ids are "name0", "name1", ..."""
    chunks, start = [], 0
    for ordinal, paragraph in enumerate(paragraphs):
        section = sections[ordinal] if sections else 0
        chunks.append(
            make_chunk(paragraph, f"{name}{ordinal}", document=name, ordinal=ordinal, section=section, start=start)
        )
        start += len(paragraph) + 2
    return chunks


def paragraphs(name: str, num: int, num_words: int = 10) -> list[str]:
    """Paragraphs that share no word."""
    return [" ".join(f"{name}p{p}w{w}" for w in range(num_words)) for p in range(num)]


A = document("a", *paragraphs("a", 6))
B = document("b", *paragraphs("b", 3))


def run(
    ranked: Sequence[Chunk],
    neighbourhood: Sequence[Chunk] = (),
    budget: int = 1_000,
    neighbours: int = 1,
    k_passages: int = 6,
) -> Assembly:
    config = AssembleConfig(budget_tokens=max(budget, 64), neighbours=neighbours).model_copy(
        update={"budget_tokens": budget}
    )
    scored = [(chunk, 10.0 - place) for place, chunk in enumerate(ranked)]
    return assemble(scored, neighbourhood, count_words, config, k_passages)


def test_passages_are_numbered_from_one_strongest_first() -> None:
    assembly = run([B[1], A[4], A[0]], neighbours=0)
    assert [(p.number, p.chunk.id, p.score) for p in assembly.passages] == [
        (1, "b1", 10.0),
        (2, "a4", 9.0),
        (3, "a0", 8.0),
    ]
    assert [p.text for p in assembly.passages] == [B[1].text, A[4].text, A[0].text]


def test_a_passage_is_stitched_to_its_neighbours() -> None:
    (passage,) = run([A[2]], A).passages
    assert passage.text == "\n\n".join(chunk.text for chunk in A[1:4])
    assert passage.chunk == A[2]


def test_neighbours_of_another_section_or_document_stay_away() -> None:
    chunks = document("c", *paragraphs("c", 3), sections=[0, 1, 1])
    (passage,) = run([chunks[1]], [*chunks, *B]).passages
    assert passage.text == f"{chunks[1].text}\n\n{chunks[2].text}"


def test_neighbours_farther_than_asked_stay_away() -> None:
    (passage,) = run([A[3]], A, neighbours=2).passages
    assert passage.text == "\n\n".join(chunk.text for chunk in A[1:6])
    assert run([A[3]], A, neighbours=0).passages[0].text == A[3].text


def test_a_missing_neighbour_ends_the_stretch() -> None:
    (passage,) = run([A[3]], [A[1], A[3], A[4]], neighbours=2).passages
    assert passage.text == f"{A[3].text}\n\n{A[4].text}"


def test_two_ranked_chunks_in_one_stretch_are_one_passage() -> None:
    assembly = run([A[2], B[0], A[3]], [*A, *B])
    assert [p.chunk.id for p in assembly.passages] == ["a2", "b0"]
    assert assembly.passages[0].text == "\n\n".join(chunk.text for chunk in A[1:5])
    assert assembly.num_dropped == 0


def test_a_neighbour_of_two_passages_is_shown_once() -> None:
    assembly = run([A[1], A[4]], A, neighbours=2)
    text = "\n\n".join(passage.text for passage in assembly.passages)
    assert all(text.count(chunk.text) == 1 for chunk in A)


def test_neighbours_are_given_up_before_a_passage_is_dropped() -> None:
    assembly = run([A[2], B[1]], [*A, *B], budget=20)
    assert [p.text for p in assembly.passages] == [A[2].text, B[1].text]
    assert assembly.num_dropped == 0


def test_what_is_left_of_the_budget_goes_to_neighbours_of_the_strongest() -> None:
    assembly = run([A[2], B[1]], [*A, *B], budget=35)
    assert [p.text for p in assembly.passages] == [f"{A[2].text}\n\n{A[3].text}", B[1].text]


def test_passages_beyond_the_budget_are_dropped_and_counted() -> None:
    assembly = run([A[0], B[0], A[3]], budget=25, neighbours=0)
    assert [p.chunk.id for p in assembly.passages] == ["a0", "b0"]
    assert assembly.num_dropped == 1
    assert assembly.num_cut == 0


def test_a_shorter_passage_takes_the_place_of_one_that_is_too_long() -> None:
    long = make_chunk(" ".join(f"w{i}" for i in range(40)), "long", document="l")
    assembly = run([A[0], long, B[0]], budget=25, neighbours=0)
    assert [(p.number, p.chunk.id) for p in assembly.passages] == [(1, "a0"), (2, "b0")]
    assert assembly.num_dropped == 1


def test_a_first_passage_that_is_too_long_is_cut_at_a_sentence() -> None:
    long = make_chunk("One two three. Four five six. Seven eight nine.", "long")
    assembly = run([long, B[0]], budget=7)
    assert [p.text for p in assembly.passages] == ["One two three. Four five six."]
    assert (assembly.num_cut, assembly.num_dropped) == (1, 1)


def test_only_k_passages_are_made() -> None:
    assembly = run([A[0], B[0], A[4]], neighbours=0, k_passages=2)
    assert [p.chunk.id for p in assembly.passages] == ["a0", "b0"]
    assert assembly.num_dropped == 0


def test_near_duplicates_are_counted_apart() -> None:
    assembly = run([A[0], make_chunk(A[0].text, "copy", document="z")], neighbours=0)
    assert len(assembly.passages) == 1
    assert (assembly.num_duplicates, assembly.num_dropped) == (1, 0)


def test_nothing_ranked_makes_no_passage() -> None:
    assert run([], A) == Assembly(())


@st.composite
def corpora(draw: st.DrawFn) -> list[Chunk]:
    """Documents of words that occur once; a chunk may repeat the last words of the one before."""
    chunks = []
    for d in range(draw(st.integers(1, 3))):
        sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=6))
        text_words = [f"d{d}w{i}" + ("." if i % 3 == 2 else "") for i in range(sum(sizes))]
        first = 0
        for ordinal, size in enumerate(sizes):
            repeated = draw(st.integers(0, min(first, 3)))
            text = " ".join(text_words[first - repeated : first + size])
            start = len(" ".join([*text_words[: first - repeated], ""]))
            section = draw(st.integers(0, 1))
            name = f"d{d}c{ordinal}"
            chunks.append(make_chunk(text, name, document=f"d{d}", ordinal=ordinal, section=section, start=start))
            first += size
    return chunks


@settings(deadline=None)
@given(data=st.data(), chunks=corpora(), budget=st.integers(1, 60), neighbours=st.integers(0, 2), k=st.integers(1, 4))
def test_laws_of_assembly(data: st.DataObject, chunks: list[Chunk], budget: int, neighbours: int, k: int) -> None:
    ranked = data.draw(st.lists(st.sampled_from(chunks), unique_by=lambda chunk: chunk.id, max_size=8))
    assembly = run(ranked, chunks, budget, neighbours, k)
    passages = assembly.passages
    ranks = {chunk.id: rank for rank, chunk in enumerate(ranked)}

    assert sum(count_words([passage.text for passage in passages])) <= budget
    assert [passage.number for passage in passages] == list(range(1, len(passages) + 1))
    assert [ranks[p.chunk.id] for p in passages] == sorted(ranks[p.chunk.id] for p in passages)
    assert len(passages) <= k
    assert len(passages) + assembly.num_dropped + assembly.num_duplicates <= len(ranked)
    assert bool(passages) == bool(ranked)
    for passage in passages:
        section = [
            c for c in chunks if (c.document_id, c.section) == (passage.chunk.document_id, passage.chunk.section)
        ]
        known = {word for chunk in section for word in chunk.text.split()}
        assert set(passage.text.split()) <= known
        assert passage.chunk.text.startswith(passage.text) if assembly.num_cut else passage.chunk.text in passage.text


def family(num: int) -> list[Chunk]:
    """A document of two parents with `num` children each, all in one section."""
    texts = paragraphs("f", 2 * num)
    chunks = document("f", *texts)
    half = chunks[num].start
    spans = ((0, half - 2), (half, chunks[-1].end))
    return [replace(chunk, parent=spans[chunk.ordinal >= num]) for chunk in chunks]


def test_a_child_is_shown_as_its_whole_parent() -> None:
    chunks = family(5)
    (passage,) = run([chunks[1]], chunks, neighbours=0).passages
    assert passage.text == "\n\n".join(chunk.text for chunk in chunks[:5])
    assert passage.chunk == chunks[1]


def test_children_of_one_parent_are_one_passage_and_those_of_another_a_second() -> None:
    chunks = family(4)
    first, second = run([chunks[6], chunks[0], chunks[5]], chunks).passages
    assert first.text == "\n\n".join(chunk.text for chunk in chunks[4:])
    assert second.text == "\n\n".join(chunk.text for chunk in chunks[:4])


def test_a_parent_that_does_not_fit_is_shown_around_its_child() -> None:
    chunks = family(5)
    (passage,) = run([chunks[2]], chunks, budget=35).passages
    assert passage.text == "\n\n".join(chunk.text for chunk in chunks[1:4])


def test_a_row_that_has_to_be_cut_keeps_its_header_above_it() -> None:
    chunk = replace(A[0], context="| zone |")
    (passage,) = run([chunk], budget=8).passages
    assert passage.text.startswith("| zone |")
