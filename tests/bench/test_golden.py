"""The golden benchmark counts hits, leaks and citations as a reader would, with rules that agree with the reader's."""

from pathlib import Path

import pytest
import yaml

from bench.golden import answer_figures, forbidden, rank, retrieval_figures, unresolved
from bench.load import Ask, FoundPassage, Outcome
from bench.sample.build import SAMPLE, build_sample
from bench.sample_access import SampleAccess, read_sample_access
from jobs.client import AnswerReply
from rag.config import load_config
from rag.data import Principal, SourceObject
from rag.evaluate.golden import GoldenQuestion, GoldenSpan, read_golden, read_principals
from rag.read.sources import list_sources


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sample") / "corpus"
    build_sample(out)
    return out


@pytest.fixture(scope="module")
def access(corpus: Path) -> SampleAccess:
    return read_sample_access(SAMPLE, corpus)


def make_outcome(*found: tuple[str, str, str], answer: AnswerReply | None = None) -> Outcome:
    passages = tuple(FoundPassage(chunk_id, "d", uri, text) for chunk_id, uri, text in found)
    return Outcome(Ask("x", "ann"), 200, 0.0, 1.0, passages=passages, answer=answer)


def make_question(*spans: tuple[str, str], kind: str = "lookup", must: tuple[str, ...] = ()) -> GoldenQuestion:
    relevant = tuple(GoldenSpan(document, text) for document, text in spans)
    return GoldenQuestion("g1", kind, "?", "ann", (), relevant, "", must)


def reply(text: str, *chunks: tuple[int, str, str], abstained: str = "") -> AnswerReply:
    citations = [{"number": n, "chunk_id": chunk_id, "uri": uri, "title": ""} for n, chunk_id, uri in chunks]
    return AnswerReply.model_validate({"answer": text, "citations": citations, "abstained": abstained})


# ---------------------------------------------------------------- who may read


def sources_of(corpus: Path, tmp_path: Path) -> list[SourceObject]:
    """Everything in the sample with the access that the product's own reader gives it."""
    sources = {"rules_file": str(SAMPLE / "access.yaml"), "trust_document_groups": True}
    settings = {"store": "store", "var": "var", "models": "models", "sources": sources}
    (tmp_path / "rag.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    config = load_config(tmp_path / "rag.yaml")
    return [found for found in list_sources(corpus, config.sources) if isinstance(found, SourceObject)]


def test_the_independent_rules_agree_with_the_reader_on_every_document(
    corpus: Path, access: SampleAccess, tmp_path: Path
) -> None:
    principals = read_principals(SAMPLE / "principals.yaml")
    sources = sources_of(corpus, tmp_path)
    assert len(sources) >= 60
    for source in sources:
        assert access.exists(source.uri), source.uri
        readers = source.metadata.access
        for principal in principals.values():
            expected = readers.tenant == principal.tenant and bool(principal.groups & set(readers.groups))
            assert access.may_read(principal, source.uri) == expected, (principal.subject, source.uri)


def test_nobody_may_read_what_no_rule_covers(access: SampleAccess) -> None:
    everyone = Principal("x", "tarnfell", frozenset({"all-staff", "executives"}))
    assert not access.may_read(everyone, "somewhere/else.md")
    assert not access.exists("tarnfell/handbook/nowhere.md")


def test_the_span_of_every_markdown_document_is_found_in_its_text(corpus: Path) -> None:
    from rag.evaluate.golden import holds_span

    spans = [span for question in read_golden(SAMPLE / "golden.jsonl") for span in question.relevant]
    markdown = [span for span in spans if span.document.endswith(".md")]
    assert len(markdown) > 50
    for span in markdown:
        assert holds_span(span, span.document, (corpus / span.document).read_text(encoding="utf-8")), span


def test_what_the_asker_may_not_read_is_found_in_passages_and_citations(access: SampleAccess) -> None:
    new_hire = read_principals(SAMPLE / "principals.yaml")["new-hire"]
    secret, open_page = "tarnfell/people/compensation-bands.md", "tarnfell/handbook/leave.md"
    assert forbidden(make_outcome(("c1", open_page, "")), new_hire, access) == []
    assert forbidden(make_outcome(("c1", secret, "")), new_hire, access) == [secret]
    cited = make_outcome(("c1", open_page, ""), answer=reply("x [1]", (1, "c9", secret)))
    assert forbidden(cited, new_hire, access) == [secret]


# ---------------------------------------------------------------- what is counted


def test_hits_are_counted_by_kind_and_at_their_rank() -> None:
    asked = make_question(("a.md", "one"), ("b.md", "two"))
    filler = [(f"c{n}", "c.md", "none") for n in range(4)]
    late = rank(asked, make_outcome(*filler, ("x", "b.md", "two")))
    never = rank(make_question(("a.md", "one"), kind="table"), make_outcome(("x", "a.md", "other words")))
    figures = retrieval_figures([late, never])
    assert figures["lookup"]["hit@1"] == 0.0
    assert figures["lookup"]["hit@5"] == 1.0
    assert figures["lookup"]["recall@5"] == 0.5
    assert figures["lookup"]["mrr@10"] == pytest.approx(0.2)
    assert figures["table"]["hit@5"] == 0.0
    assert figures["table"]["document_hit@5"] == 1.0
    assert figures["table"]["missed"] == ["g1"]
    assert figures["all"]["questions"] == 2


def test_a_citation_resolves_to_a_passage_and_an_existing_document(access: SampleAccess) -> None:
    page = "tarnfell/handbook/leave.md"
    good = make_outcome(("c1", page, ""), answer=reply("Five days [1].", (1, "c1", page)))
    assert unresolved(good, access) == []
    stray = make_outcome(("c1", page, ""), answer=reply("Five [1].", (1, "c2", page)))
    assert unresolved(stray, access) == [f"[1] {page}: not among the passages"]
    gone = make_outcome(("c1", "x.md", ""), answer=reply("Five [1].", (1, "c1", "x.md")))
    assert unresolved(gone, access) == ["[1] x.md: no such document"]
    dangling = make_outcome(("c1", page, ""), answer=reply("Five [1], six [2].", (1, "c1", page)))
    assert unresolved(dangling, access) == ["[2] in the text has no citation"]


def test_abstentions_count_on_both_sides(access: SampleAccess) -> None:
    page = "tarnfell/handbook/leave.md"
    answerable, unanswerable = make_question((page, "five"), must=("5",)), make_question()
    spoke = make_outcome(("c1", page, ""), answer=reply("5 days [1]", (1, "c1", page)))
    kept_quiet = make_outcome(answer=reply("Not found.", abstained="low_evidence"))
    figures = answer_figures(
        [(answerable, spoke), (answerable, kept_quiet), (unanswerable, kept_quiet), (unanswerable, spoke)], access
    )
    assert figures["answered_share"] == 0.5
    assert figures["abstained_share"] == 0.5
    assert figures["must_include_share"] == 0.5
    assert figures["must_include_share_of_spoken"] == 1.0
    assert figures["citations"] == 2
    assert figures["citations_unresolved"] == {}
