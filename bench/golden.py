"""Does the running service find, cite and refuse as the golden set says, and keep everyone inside their permissions?

python -m bench.golden --url http://127.0.0.1:8000 --config serve_configs/local/rag.yaml --sample bench/sample

Three passes over HTTP: searches by each question's own asker (hit@5 by kind; follow-ups need their history, so theirs
is read off the passages of their answer), searches of every question by every principal, and streamed answers.
"""

import argparse
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import Progress

from bench.load import Ask, Askers, Outcome, closed_loop, open_askers
from bench.report import PROJECT, RESULTS, Run, need, out, print_table, verdict
from bench.sample.build import build_sample
from bench.sample_access import SampleAccess, read_sample_access
from rag.config import load_config
from rag.data import Principal
from rag.evaluate.golden import GoldenQuestion, first_rank, read_golden, read_principals, span_recall, spans_found
from rag.evaluate.metrics import mean
from rag.evaluate.sampling import sample

K = 10
LOOKUP_HIT, IDENTIFIER_HIT = 0.90, 1.0

Figures = dict[str, Any]  # Any: numbers by name, as JSON


@dataclass(frozen=True, slots=True)
class Ranked:
    """One answerable question with what its asker found."""

    question: GoldenQuestion
    found: Sequence[frozenset[int]]  # by rank, the spans that the passage holds
    uris: Sequence[str]

    def hit(self, k: int) -> bool:
        return (first_rank(self.found[:k]) or 0) > 0

    def document_hit(self, k: int) -> bool:
        """Whether the right document is there, with whatever passage: tells a cut span from a missed document."""
        return bool({span.document for span in self.question.relevant} & set(self.uris[:k]))


def rank(question: GoldenQuestion, outcome: Outcome) -> Ranked:
    passages = [(passage.uri, passage.text) for passage in outcome.passages]
    return Ranked(question, spans_found(question, passages), [uri for uri, _ in passages])


def retrieval_figures(ranked: Sequence[Ranked]) -> dict[str, Figures]:
    """hit@1, hit@5, span recall@5, MRR@10 and document hit@5 of each kind of question, and of all."""
    kinds = sorted({one.question.kind for one in ranked})
    groups = {kind: [one for one in ranked if one.question.kind == kind] for kind in kinds}
    groups["all"] = list(ranked)
    return {
        kind: {
            "questions": len(members),
            "hit@1": mean(one.hit(1) for one in members),
            "hit@5": mean(one.hit(5) for one in members),
            "recall@5": mean(span_recall(one.question, one.found, 5) for one in members),
            "mrr@10": mean(1.0 / (first_rank(one.found[:K]) or float("inf")) for one in members),
            "document_hit@5": mean(one.document_hit(5) for one in members),
            "missed": [one.question.id for one in members if not one.hit(5)],
        }
        for kind, members in groups.items()
    }


def forbidden(outcome: Outcome, principal: Principal, access: SampleAccess) -> list[str]:
    """The uris in an outcome that its asker may not read, wherever they stand."""
    uris = {passage.uri for passage in outcome.passages}
    if outcome.answer is not None:
        uris |= {citation.uri for citation in (*outcome.answer.citations, *outcome.answer.closest)}
    return sorted(uri for uri in uris if not access.may_read(principal, uri))


def unresolved(outcome: Outcome, access: SampleAccess) -> list[str]:
    """What is wrong with the citations of an answer, in words; empty when each of them resolves."""
    if outcome.answer is None:
        return []
    known = {passage.chunk_id: passage.uri for passage in outcome.passages}
    problems = []
    for citation in outcome.answer.citations:
        chunk_id = str(getattr(citation, "chunk_id", ""))
        if known.get(chunk_id) != citation.uri:
            problems.append(f"[{citation.number}] {citation.uri}: not among the passages")
        elif not access.exists(citation.uri):
            problems.append(f"[{citation.number}] {citation.uri}: no such document")
    cited = {citation.number for citation in outcome.answer.citations}
    problems += [f"[{number}] in the text has no citation" for number in _numbers(outcome.answer.answer) - cited]
    return problems


def _numbers(text: str) -> set[int]:
    return {int(number) for number in re.findall(r"\[(\d{1,3})\]", text)}


def answer_figures(answered: Sequence[tuple[GoldenQuestion, Outcome]], access: SampleAccess) -> Figures:
    """Abstention on the answerable and on the unanswerable, required strings, and citations."""
    good = [(question, outcome.answer) for question, outcome in answered if outcome.answer is not None]
    answerable = [(q, a) for q, a in good if q.answerable]
    unanswerable = [(q, a) for q, a in good if not q.answerable]
    spoken = [(q, a) for q, a in answerable if not a.abstained]
    problems = {q.id: found for q, outcome in answered if (found := unresolved(outcome, access))}
    return {
        "answers": len(good),
        "failed": {q.id: f"{o.status} {o.error}" for q, o in answered if not o.ok},
        "partial": sum(bool(answer.partial) for _, answer in good),
        "answerable": len(answerable),
        "answered_share": mean(not answer.abstained for _, answer in answerable),
        "unanswerable": len(unanswerable),
        "abstained_share": mean(bool(answer.abstained) for _, answer in unanswerable),
        "abstained_wrongly": [q.id for q, answer in answerable if answer.abstained],
        "answered_wrongly": [q.id for q, answer in unanswerable if not answer.abstained],
        "must_include_share": mean(_includes(q, answer.answer) for q, answer in answerable),
        "must_include_share_of_spoken": mean(_includes(q, answer.answer) for q, answer in spoken),
        "with_citation_share": mean(bool(answer.citations) for _, answer in spoken),
        "citations": sum(len(answer.citations) for _, answer in good),
        "citations_unresolved": problems,
        "citations_removed": sum(int(getattr(answer, "num_citations_removed", 0)) for _, answer in good),
    }


def _includes(question: GoldenQuestion, answer: str) -> bool:
    said = " ".join(answer.split()).casefold()
    return all(wanted.casefold() in said for wanted in question.must_include)


# ---------------------------------------------------------------- the passes


def search_pass(
    askers: Askers, questions: Sequence[GoldenQuestion], clients: int
) -> list[tuple[GoldenQuestion, Outcome]]:
    """Every question without history, searched by its own asker."""
    plain = [question for question in questions if not question.history]
    asks = [Ask(question.text, question.asker) for question in plain]
    with _progress("searching", len(asks)) as done:
        outcomes = closed_loop(asks, lambda ask, due_s: askers.search(ask, K, due_s), clients, done)
    return list(zip(plain, outcomes, strict=True))


def permission_pass(
    askers: Askers,
    questions: Sequence[GoldenQuestion],
    principals: Mapping[str, Principal],
    access: SampleAccess,
    k: int,
    clients: int,
) -> Figures:
    """Every distinct question by every principal, with as many results as the service gives."""
    texts = sorted({question.text for question in questions})
    asks = [Ask(text, name) for text in texts for name in principals]
    with _progress("every question by everyone", len(asks)) as done:
        outcomes = closed_loop(asks, lambda ask, due_s: askers.search(ask, k, due_s), clients, done)
    leaks = [
        {"asker": outcome.ask.asker, "question": outcome.ask.text, "uri": uri}
        for outcome in outcomes
        for uri in forbidden(outcome, principals[outcome.ask.asker], access)
    ]
    groupless = [o for o in outcomes if not principals[o.ask.asker].groups]
    return {
        "pairs": len(asks),
        "passages": sum(len(outcome.passages) for outcome in outcomes),
        "failed": sum(not outcome.ok for outcome in outcomes),
        "passages_of_groupless": sum(len(outcome.passages) for outcome in groupless),
        "outside_permissions": leaks,
    }


def answer_pass(
    askers: Askers, questions: Sequence[GoldenQuestion], clients: int
) -> list[tuple[GoldenQuestion, Outcome]]:
    """Every question, answered for its own asker."""
    asks = [Ask(question.text, question.asker, question.history) for question in questions]
    with _progress("answering", len(asks)) as done:
        outcomes = closed_loop(asks, lambda ask, due_s: askers.query(ask, due_s), clients, done)
    return list(zip(questions, outcomes, strict=True))


@contextmanager
def _progress(what: str, total: int) -> Iterator[Callable[[Outcome], None]]:
    with Progress(console=out, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda outcome: progress.advance(task)


def show_retrieval(figures: Mapping[str, Figures]) -> None:
    columns = ("questions", "hit@1", "hit@5", "recall@5", "mrr@10", "document_hit@5")
    rows = [(kind, *(f[name] for name in columns), " ".join(f["missed"])) for kind, f in figures.items()]
    print_table("answerable questions by kind", ("kind", *columns, "missed at 5"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.golden", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--config", type=Path, default=PROJECT / "serve_configs" / "local" / "rag.yaml")
    parser.add_argument("--sample", type=Path, default=PROJECT / "bench" / "sample", help="folder of golden.jsonl")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--max-questions", type=int, help="a seeded sample, for a quick look")
    parser.add_argument("--skip-permissions", action="store_true", help="leave out every question by everyone")
    parser.add_argument("--skip-answers", action="store_true", help="leave out the answers, and with them follow-ups")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON record")
    args = parser.parse_args()
    run = Run("golden")
    config = load_config(args.config)
    questions = sample(read_golden(need(args.sample / "golden.jsonl", "the golden set")), args.max_questions)
    principals = read_principals(need(args.sample / "principals.yaml", "the principals"))
    with tempfile.TemporaryDirectory() as folder:
        build_sample(Path(folder) / "corpus")
        access = read_sample_access(args.sample, Path(folder) / "corpus")

    checks: dict[str, bool] = {}
    figures: Figures = {"questions": len(questions)}
    with open_askers(args.url, config, list(principals)) as askers:
        searched = search_pass(askers, questions, args.clients)
        answered = [] if args.skip_answers else answer_pass(askers, questions, args.clients)
        if not args.skip_permissions:
            allowed = min(config.limits.max_k, config.rerank.k_rerank)
            figures["permissions"] = permission_pass(askers, questions, principals, access, allowed, args.clients)

    follow_ups = [(question, outcome) for question, outcome in answered if question.history]
    failed = [question.id for question, outcome in searched if not outcome.ok]
    ranked = [rank(question, outcome) for question, outcome in (*searched, *follow_ups) if question.answerable]
    figures["retrieval"] = retrieval = retrieval_figures(ranked)
    show_retrieval(retrieval)
    for kind, wanted in (("lookup", LOOKUP_HIT), ("identifier", IDENTIFIER_HIT)):
        if kind in retrieval:
            found = retrieval[kind]["hit@5"]
            checks[kind] = verdict(found >= wanted, f"{kind}: hit@5 {found:.3f}, wanted {wanted:.2f}")
    checks["searches"] = verdict(not failed, f"every search was answered (failed: {' '.join(failed) or 'none'})")

    leaks = [uri for q, outcome in (*searched, *answered) for uri in forbidden(outcome, principals[q.asker], access)]
    if "permissions" in figures:
        pairs = figures["permissions"]
        leaks += [leak["uri"] for leak in pairs["outside_permissions"]]
        checks["pairs"] = verdict(pairs["failed"] == 0, f"{pairs['pairs']} pairs searched, {pairs['failed']} failed")
        checks["groupless"] = verdict(pairs["passages_of_groupless"] == 0, "who has no group finds nothing")
    checks["permissions"] = verdict(not leaks, f"{len(leaks)} passages outside permissions")
    if answered:
        figures["answers"] = answers = answer_figures(answered, access)
        print_table("answers", ("measure", "value"), [(k, v) for k, v in answers.items() if isinstance(v, int | float)])
        bad = answers["citations_unresolved"]
        checks["citations"] = verdict(not bad, f"{answers['citations']} citations, {len(bad)} answers with a bad one")
        checks["answers"] = verdict(not answers["failed"], f"{len(answers['failed'])} answers failed")
    figures["checks"] = checks
    if args.max_questions is None:
        run.write(figures, config, args.results)
    raise SystemExit(0 if all(checks.values()) else 1)


if __name__ == "__main__":
    main()
