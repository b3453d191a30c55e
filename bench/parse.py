"""How well and how fast do quire and other open parsers turn PDFs into Markdown, on the same files in the same run?

python -m bench.parse                                                   everything, into results/parse.json
python -m bench.parse --keep --only quire --sets md-source             the rest of the record stays as it was measured
python -m bench.parse --only quire --sets tables-icdar2013 [--limit N] [--documents NAME ...] [--save FOLDER]
python -m bench.parse --write-baseline                                  what the suite holds quire to from now on

Two files are parsed at once, each by a process of its own. Speed is pages over wall time without the start of the
processes; a core's speed is pages over processor time. Everything is scored by `rag/evaluate/parsing`.
"""

import argparse
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.parse_engines import EngineReport, Outcome, build_environment, run_engine
from bench.parse_regression import write_baseline
from bench.parse_sets import SETS, ParseCase, Scores, read_set
from bench.parse_worker import ENGINES
from bench.report import PROJECT, RESULTS, Run, need, out, print_table, verdict
from rag.evaluate.metrics import mean
from rag.evaluate.parsing.scores import score_markdown

QUIRE, REFERENCE = "quire", "pymupdf4llm"
# As the other parsers are run: without the words inside pictures, which the papers' ground truth leaves out.
QUIRE_TEXT = "quire-text"
# With recognition of text, pymupdf4llm takes seconds a page even where there is a text layer: run where it can gain.
ONLY_ON = {"pymupdf4llm-ocr": ("unit-tests", "awkward"), QUIRE_TEXT: ("text-arxiv",)}
SUMS = ("facts", "right")  # counted, not averaged
AT_LEAST = {"tables-icdar2013": ("teds", 0.90), "unit-tests": ("facts", 45.0), "awkward": ("right", 46.0)}
ABOVE_OTHERS = {"md-source": ("nid", "teds", "mhs"), "tables-icdar2013": ("teds",), "text-arxiv": ("nid",)}
TIMED, TEXT_PAGES = ("md-source", "tables-icdar2013", "text-arxiv"), "text-pages"
SPEED_RATIO, TEXT_PAGES_PER_CORE_S = 3.0, 100.0
EXACT = 1e-9

Figures = dict[str, Any]  # Any: numbers by name, as JSON


def figures_of(cases: Sequence[ParseCase], report: EngineReport) -> Figures:
    """The quality, the speed and the memory of one engine over one set."""
    scores = [case.score(got.markdown, got.error) for case, got in zip(cases, report.outcomes, strict=True)]
    num_pages = sum(case.num_pages for case in cases)
    return {
        "version": report.version,
        **{name: round(value, 6) for name, value in summary_of(scores).items()},
        "pages": num_pages,
        "pages_per_s": round(num_pages / report.wall_s, 3),
        "pages_per_core_s": round(num_pages / report.cpu_s, 3) if report.cpu_s else None,
        "peak_mib": round(report.peak_mib, 1),
        "lost": report.num_lost,
        "errors": sum(bool(outcome.error) for outcome in report.outcomes),
        "documents": {
            case.name: {name: round(value, 6) for name, value in one.items()}
            for case, one in zip(cases, scores, strict=True)
        },
        "reasons": {case.name: got.error for case, got in zip(cases, report.outcomes, strict=True) if got.error},
    }


def summary_of(scores: Sequence[Scores]) -> Scores:
    """Each measure averaged over the documents that have it; facts and right outcomes are counted."""
    names = sorted({name for one in scores for name in one})
    found = {name: [one[name] for one in scores if name in one] for name in names}
    return {name: sum(values) if name in SUMS else mean(values) for name, values in found.items()}


# ---------------------------------------------------------------- the metrics themselves


def reproduce(data: Path) -> Figures:
    """How many published scores of other engines' outputs come out exactly, by engine."""
    folder = data / "parse-dpbench"
    truths = _markdown_by_id(folder / "ground_truth.jsonl.gz")
    lines = (folder / "published_scores_per_doc.tsv").read_text(encoding="utf-8").splitlines()
    columns = lines[0].split("\t")
    predictions: dict[str, Mapping[str, str]] = {}
    equal: dict[str, list[bool]] = {}
    for line in lines[1:]:
        row = dict(zip(columns, line.split("\t"), strict=True))
        engine = row["engine"]
        if engine not in predictions:
            predictions[engine] = _markdown_by_id(folder / "predictions" / f"{engine}.jsonl.gz")
        scores = score_markdown(truths[row["id"]], predictions[engine].get(row["id"], ""))
        found = {**asdict(scores), "overall": scores.overall}
        equal.setdefault(engine, []).append(all(_agree(found[name], row[name]) for name in columns[3:]))
    return {engine: {"documents": len(flags), "exact": sum(flags)} for engine, flags in equal.items()}


def _markdown_by_id(path: Path) -> dict[str, str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return {record["id"]: record["markdown"] for record in map(json.loads, file)}


def _agree(found: float | None, published: str) -> bool:
    return found is None if not published else found is not None and abs(found - float(published)) <= EXACT


# ---------------------------------------------------------------- tables and claims


def show_documents(engine: str, cases: Sequence[ParseCase], outcomes: Sequence[Outcome]) -> None:
    """Every document's scores, and what is wrong with it."""
    scores = [case.score(got.markdown, got.error) for case, got in zip(cases, outcomes, strict=True)]
    average = summary_of(scores)
    rows: list[Sequence[object]] = [
        (case.name, *(one.get(name) for name in average), got.seconds, got.error[:70])
        for case, one, got in zip(cases, scores, outcomes, strict=True)
    ]
    rows.append(("all", *average.values(), sum(got.seconds for got in outcomes), ""))
    print_table(f"{engine} on {cases[0].set_name}", ("document", *average, "s", "error"), rows)
    for case, one, got in zip(cases, scores, outcomes, strict=True):
        for fact in case.facts:
            if not fact.holds(got.markdown):
                out.print(f"{case.name}: fails {fact}")
        if case.expected is not None and not one["right"]:
            out.print(f"{case.name}: expected {case.expected}")


def show_set(set_name: str, by_engine: Mapping[str, Figures]) -> None:
    measures = [
        name for name in ("nid", "teds", "teds_s", "mhs", "mhs_s", *SUMS) if any(name in f for f in by_engine.values())
    ]
    cost = ("pages_per_s", "pages_per_core_s", "peak_mib", "lost", "errors")
    rows = [(engine, *(figures.get(name) for name in (*measures, *cost))) for engine, figures in by_engine.items()]
    print_table(set_name, ("engine", *measures, *cost), rows)


def claims(figures: Mapping[str, Mapping[str, Figures]]) -> dict[str, bool]:
    """What is asked of quire, and whether it holds, as far as it was measured."""
    figures = {set_name: by_engine for set_name, by_engine in figures.items() if QUIRE in by_engine}
    found: dict[str, bool] = {}

    def claim(holds: bool, text: str) -> None:
        found[text] = verdict(holds, text)

    for set_name, names in ABOVE_OTHERS.items():
        others = {engine: f for engine, f in figures.get(set_name, {}).items() if engine not in (QUIRE, QUIRE_TEXT)}
        for name in names if others else ():
            ours = figures[set_name].get(QUIRE_TEXT, figures[set_name][QUIRE])[name]
            best = max(others, key=lambda engine: others[engine][name])
            text = f"{set_name}: {name} {ours:.3f} above the best other, {best} {others[best][name]:.3f}"
            claim(ours > others[best][name], text)
    for set_name, (name, least) in AT_LEAST.items():
        if set_name in figures:
            ours = figures[set_name][QUIRE][name]
            claim(ours >= least, f"{set_name}: {name} {ours:.4g} of at least {least:.4g}")
    if "awkward" in figures:
        lost = figures["awkward"][QUIRE]["lost"]
        claim(lost == 0, f"awkward: {lost} workers lost")
    if all(REFERENCE in figures.get(name, {}) for name in TIMED):
        ours, other = (_pages_per_s(figures, engine) for engine in (QUIRE, REFERENCE))
        claim(
            ours >= SPEED_RATIO * other,
            f"{ours:.1f} pages/s on two cores, {ours / other:.1f} x {REFERENCE} without recognition of text",
        )
    if TEXT_PAGES in figures:
        speed = figures[TEXT_PAGES][QUIRE]["pages_per_core_s"]
        wanted = TEXT_PAGES_PER_CORE_S
        claim(speed >= wanted, f"{speed:.0f} pages of text alone a second and core of at least {wanted:.0f}")
    return found


def _pages_per_s(figures: Mapping[str, Mapping[str, Figures]], engine: str) -> float:
    pages = sum(figures[name][engine]["pages"] for name in TIMED)
    return float(pages / sum(figures[name][engine]["pages"] / figures[name][engine]["pages_per_s"] for name in TIMED))


# ---------------------------------------------------------------- the command


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.parse", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=PROJECT.parent / "shared" / "data", help="folder of the sets")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS, metavar="SET")
    parser.add_argument("--only", nargs="+", default=list(ENGINES), choices=list(ENGINES), metavar="ENGINE")
    parser.add_argument("--documents", nargs="+", metavar="NAME", help="files whose names begin so")
    parser.add_argument("--limit", type=int, help="the first files of each set")
    parser.add_argument("--workers", type=int, default=2, help="files that are parsed at once")
    parser.add_argument(
        "--keep", action="store_true", help="measure what is named anew, and keep the rest of the record"
    )
    parser.add_argument("--save", type=Path, help="folder that also gets the Markdown of every file")
    parser.add_argument(
        "--write-baseline", action="store_true", help="measure the regression suite anew, and nothing else"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON record")
    args = parser.parse_args()
    need(args.data, "the public data")
    if args.write_baseline:
        write_baseline(args.data)
        return
    whole = not (args.documents or args.limit)
    complete = whole and set(args.sets) == set(SETS) and set(args.only) == set(ENGINES)
    if set(args.only) - {QUIRE, QUIRE_TEXT}:
        build_environment()
    record = Record(args.results, keep=args.keep)
    for set_name in args.sets:
        cases = [
            case
            for case in read_set(args.data, set_name)
            if not args.documents or case.name.startswith(tuple(args.documents))
        ][: args.limit]
        engines = [engine for engine in args.only if set_name in ONLY_ON.get(engine, SETS)]
        for engine in engines if cases else ():
            report = run_engine(engine, cases, args.workers)
            record.add(set_name, engine, figures_of(cases, report))
            if args.save:
                _save(args.save / engine / set_name, cases, report.outcomes)
            if whole and (args.keep or complete):
                record.write()
            else:
                show_documents(engine, cases, report.outcomes)
    for set_name, by_engine in record.sets.items():
        show_set(set_name, by_engine)
    if whole and (args.keep or complete):
        record.published_scores = reproduce(args.data)
        record.judge()
        record.write()


class Record:
    """The figures by set and engine, and the file that holds them."""

    def __init__(self, folder: Path, keep: bool) -> None:
        self._run, self._folder = Run("parse"), folder
        path = folder / "parse.json"
        figures = json.loads(path.read_text(encoding="utf-8"))["figures"] if keep and path.is_file() else {}
        self.sets: dict[str, dict[str, Figures]] = figures.get("sets", {})
        self.published_scores: Figures = figures.get("published_scores", {})
        self._claims: dict[str, bool] = {}

    def add(self, set_name: str, engine: str, figures: Figures) -> None:
        taken = datetime.now(UTC).isoformat(timespec="seconds")
        found = {**self.sets.get(set_name, {}), engine: {**figures, "taken": taken}}
        self.sets[set_name] = {name: found[name] for name in ENGINES if name in found}

    def judge(self) -> None:
        rows = [(engine, *figures.values()) for engine, figures in self.published_scores.items()]
        print_table("published scores that come out", ("engine", "documents", "exact"), rows)
        self._claims = claims(self.sets)

    def write(self) -> None:
        figures = {"sets": self.sets, "published_scores": self.published_scores, "claims": self._claims}
        self._run.write(figures, folder=self._folder)


def _save(folder: Path, cases: Sequence[ParseCase], outcomes: Sequence[Outcome]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for case, outcome in zip(cases, outcomes, strict=True):
        (folder / f"{case.name}.md").write_text(outcome.markdown, encoding="utf-8")


if __name__ == "__main__":
    main()
