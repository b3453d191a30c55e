"""How well can quire tell a question that its passages answer from one that they do not, and from where on to abstain?

python -m bench.abstention --data ../shared/data [--sets squad removed golden] [--questions N] [--observed FILE]
    [--write FILE] [--plot FILE]

Three sets. `squad`: questions that a Wikipedia passage answers, and questions that look answered by theirs and are not,
over an index of all passages. `removed`: questions of two handbooks and a product's documentation, each by somebody who
may read everything, and again by somebody who may not read the pages that answer it. `golden`: the golden set over the
sample corpus, each question by its own asker. Every question goes through the real search, fusion, reranking and
assembly; what is judged is the evidence of the passages that would be prompted.

Half of the documents of the first two calibrate, the other half tests; the golden set is only tested on. `--write`
stores what was fitted on the calibrating half, with its thresholds: what is measured is what is stored. `--observed`
keeps the evidence between runs; delete the file when encoder, reranker or passages change. A question for which nothing
was found is left out: it is declined without any evidence.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from bench.report import PROJECT, RESULTS, Run, need, out, print_table, verdict
from bench.sample.build import build_sample
from bench.sharding import read_chunks
from rag.config import RagConfig, load_config
from rag.data import Access, Chunk, Passage, Principal, Question
from rag.evaluate.beir import CorpusDocument, read_collection
from rag.evaluate.calibration import (
    AbstentionPoint,
    Flags,
    Method,
    abstention_curve,
    area_under_roc,
    brier_score,
    cheapest_threshold,
    cost_at,
    expected_calibration_error,
    expecting,
    fit_answerability,
    plot_abstention,
    point_at,
    threshold_for_answered,
    threshold_of_costs,
)
from rag.evaluate.collection_index import READER, TENANT, build_shards, chunk_of
from rag.evaluate.golden import GoldenQuestion, read_golden, read_principals, spans_found
from rag.evaluate.metrics import mean
from rag.evaluate.sampling import sample
from rag.generate.evidence import (
    FEATURE_SETS,
    LOGIT_FEATURES,
    READER_FEATURES,
    SIGNS,
    AnswerabilityModel,
    Evidence,
    EvidenceCalibration,
    evidence_matrix,
    evidence_of,
)
from rag.ids import digest
from rag.local import LocalStages
from rag.logistic import Floats
from rag.parts import build_embedder, build_reader, build_reranker
from rag.pipeline import Pipeline
from rag.protocols import Embedder, Reranker
from rag.trace import SpanRecorder
from rag.train.labelled import LabelledQuestion, held_out, read_answerable, read_unanswerable
from rag.train.span_examples import HELD_OUT

SQUAD, REMOVED, GOLDEN = "squad", "removed", "golden"
COLLECTIONS = ("ir-handbook-faq-sourcegraph", "ir-handbook-faq-18f", "ir-product-docs")
NUM_ROOMS = 16  # groups into which the pages of the collections fall: who lacks one misses a sixteenth of them
SHARE, WANTED = 0.9, 0.60  # of the answerable are answered; of the unanswerable are declined then
WRONG, NEEDLESS = 3.0, 1.0  # what a wrong answer and a needless abstention cost, for the table


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with what makes its passages right."""

    set: str
    text: str
    asker: Principal
    document: str  # a split by document keeps its questions together
    answerable: bool
    answer: str = ""  # words that a right passage holds
    relevant: frozenset[str] = frozenset()  # or its uri
    golden: GoldenQuestion | None = None  # or the spans that it holds

    def found_in(self, passages: Sequence[Passage]) -> bool:
        """Whether the passages hold what answers the question."""
        if not self.answerable:
            return False
        if self.golden is not None:
            texts = [(passage.chunk.metadata.uri, passage.text) for passage in passages]
            return any(spans_found(self.golden, texts))
        if self.relevant:
            return any(passage.chunk.metadata.uri in self.relevant for passage in passages)
        return any(self.answer.casefold() in " ".join(passage.text.casefold().split()) for passage in passages)


@dataclass(frozen=True, slots=True)
class Observed:
    """The evidence for one question, and what is true of it."""

    set: str
    question: str
    document: str
    answerable: bool
    found: bool  # the passages hold the answer
    evidence: Evidence


# ---------------------------------------------------------------- the questions


def squad_questions(data: Path, num_questions: int, num_passages: int | None) -> tuple[list[Chunk], list[Asked]]:
    """A chunk for every passage, and as many answerable as unanswerable questions of them.

    With `num_passages` only so many passages beside those that are asked about are indexed, for a quick look.
    """
    answerable, unanswerable = read_answerable(data, ["squad-v1.1-dev"]), read_unanswerable(data)
    documents = {question.document for question in unanswerable if held_out(question.document, HELD_OUT)}
    half = num_questions // 2
    kept = [
        *sample([question for question in answerable if question.document in documents], half),
        *sample([question for question in unanswerable if question.document in documents], half, seed=1),
    ]
    asked_about = {question.passage: question for question in kept}
    others = {q.passage: q for q in (*answerable, *unanswerable) if q.passage not in asked_about}
    passages = {**asked_about, **{q.passage: q for q in sample(list(others.values()), num_passages, seed=2)}}
    chunks = [_passage_chunk(question, number) for number, question in enumerate(passages.values())]
    return chunks, [Asked(SQUAD, q.question, READER, q.document, q.answerable, q.answer) for q in kept]


def _passage_chunk(question: LabelledQuestion, number: int) -> Chunk:
    return chunk_of(CorpusDocument(f"passage-{number}", question.document.title(), question.passage))


def removed_questions(data: Path, names: Sequence[str], num_questions: int | None) -> tuple[list[Chunk], list[Asked]]:
    """A chunk for every section of the collections, and each of their questions twice.

    Once by somebody in all groups, and once by somebody outside those of the pages that answer it: the whole page goes,
    since its other sections may answer too.
    """
    chunks: list[Chunk] = []
    asked: list[Asked] = []
    everywhere = frozenset(f"room-{number}" for number in range(NUM_ROOMS))
    for name in names:
        collection = read_collection(need(data / name, "the collection"))
        chunks += [_room_chunk(document) for document in collection.documents]
        for query in sample(collection.queries, num_questions):
            relevant = frozenset(document for document, grade in query.grades.items() if grade > 0)
            page = min(relevant).partition("#")[0]
            closed = {room_of(document) for document in relevant}
            for groups, answerable in ((everywhere, True), (everywhere - closed, False)):
                asker = Principal("bench", TENANT, groups)
                asked.append(Asked(REMOVED, query.text, asker, page, answerable, relevant=relevant))
    return chunks, asked


def room_of(document: str) -> str:
    """The group that may read the page of a section."""
    return f"room-{int(digest(document.partition('#')[0], size_bytes=4), 16) % NUM_ROOMS}"


def _room_chunk(document: CorpusDocument) -> Chunk:
    chunk = chunk_of(document)
    return replace(chunk, metadata=replace(chunk.metadata, access=Access(TENANT, (room_of(document.id),))))


def golden_questions(folder: Path) -> list[Asked]:
    """The questions of the golden set that stand alone, each with its asker."""
    principals = read_principals(need(folder / "principals.yaml", "the principals"))
    questions = read_golden(need(folder / "golden.jsonl", "the golden set"))
    return [
        Asked(GOLDEN, q.text, principals[q.asker], q.id, q.answerable, golden=q) for q in questions if not q.history
    ]


# ---------------------------------------------------------------- the evidence


def observe(
    asked: Sequence[Asked],
    chunks: Sequence[Chunk],
    config: RagConfig,
    embedder: Embedder,
    reranker: Reranker,
    folder: Path,
) -> list[Observed]:
    """Every question through the pipeline up to its prompt, over an index of the chunks in the folder."""
    vectors = embedder.embed_passages([chunk.embedded_text for chunk in chunks])
    # The calibration there is may be of other models: it is what gets made anew.
    config = config.model_copy(update={"generate": config.generate.model_copy(update={"evidence_file": None})})
    shards = build_shards(folder, config, chunks, vectors)
    stages = LocalStages(config, shards[0].manifest.version, shards, embedder, reranker, reader=build_reader(config))
    return asyncio.run(_observe_all(asked, Pipeline(config, stages)))


async def _observe_all(asked: Sequence[Asked], pipeline: Pipeline) -> list[Observed]:
    observed = []
    for one in track(asked, f"searching {asked[0].set}", console=out, transient=True):
        question, recorder = Question(one.text, one.asker), SpanRecorder()
        retrieval = await pipeline.retrieve(question, recorder)
        prompt = await pipeline.prompt(question, retrieval, recorder)
        passages = prompt.passages
        if not passages:  # nothing that the asker may read: declined without any evidence
            continue
        score = (await pipeline.read(prompt, retrieval.query, recorder)).answer_score
        evidence = evidence_of(retrieval.query.text, passages, retrieval.result.scores, retrieval.logits, score)
        observed.append(Observed(one.set, one.text, one.document, one.answerable, one.found_in(passages), evidence))
    return observed


def write_observed(observed: Sequence[Observed], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(asdict(one)) + "\n" for one in observed), encoding="utf-8")


def read_observed(path: Path) -> list[Observed]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [Observed(**{**row, "evidence": Evidence(**row["evidence"])}) for row in rows]


# ---------------------------------------------------------------- fitting and judging


def calibration_half(observed: Sequence[Observed], sets: Sequence[str] = (SQUAD, REMOVED)) -> list[Observed]:
    """What is fitted on: half of the documents of the sets, and nothing of the golden set."""
    return [one for one in observed if one.set in sets and one.set != GOLDEN and not is_judged(one)]


def is_judged(one: Observed) -> bool:
    """Whether the question is in the half that models are judged on; of SQuAD nothing is asked that the reader learnt
    from."""
    return held_out(one.document, HELD_OUT / 2 if one.set == SQUAD else 0.5)


def judged_half(observed: Sequence[Observed], name: str) -> list[Observed]:
    """What a set is judged on: the other half, or all of the golden set."""
    return [one for one in observed if one.set == name and (name == GOLDEN or is_judged(one))]


def labels_of(observed: Sequence[Observed]) -> Flags:
    return np.asarray([one.answerable for one in observed], np.bool_)


def fit(
    observed: Sequence[Observed], names: Sequence[str], method: Method, sets: Sequence[str] = (SQUAD, REMOVED)
) -> AnswerabilityModel:
    """The model of these features, on the calibrating half of the sets."""
    rows = calibration_half(observed, sets)
    values = evidence_matrix([one.evidence for one in rows], names)
    documents = [one.document for one in rows]
    return fit_answerability(values, labels_of(rows), names, documents, method, SHARE, signs=SIGNS)


def observed_feature_sets(observed: Sequence[Observed]) -> list[tuple[str, ...]]:
    """Those of `FEATURE_SETS` of which nothing is missing; without a reader, some are."""
    return [
        names
        for names in FEATURE_SETS
        if all(getattr(one.evidence, name) is not None for one in observed for name in names)
    ]


def stored_models(observed: Sequence[Observed], method: Method) -> dict[str, AnswerabilityModel]:
    """What a calibration holds: the model with most features, and those for when something is missing, by name."""
    return {name_of(names): fit(observed, names, method) for names in observed_feature_sets(observed)}


def name_of(names: Sequence[str]) -> str:
    groups = {"reranker": LOGIT_FEATURES, "reader": READER_FEATURES}
    missing = [part for part, features in groups.items() if not set(features) <= set(names)]
    return f"without {' and '.join(missing)}" if missing else "all"


def probabilities_of(model: AnswerabilityModel, observed: Sequence[Observed]) -> Floats:
    """P(answerable), 1.0 where a passage holds the question's identifiers: those are never declined."""
    probabilities = model.probabilities(evidence_matrix([one.evidence for one in observed], model.model.features))
    return np.where([one.evidence.identifiers_held > 0 for one in observed], 1.0, probabilities)


def figures_of(model: AnswerabilityModel, observed: Sequence[Observed]) -> dict[str, Any]:  # Any: JSON
    """How a model does on questions that it was not fitted on.

    `at_own_share`: at the threshold at which 90% of this set's answerable questions are answered; `at_stored`: at the
    threshold that came out of the calibrating half, which is what a service would run with.
    """
    answerable, found = labels_of(observed), np.asarray([one.found for one in observed], np.bool_)
    probabilities = probabilities_of(model, observed)
    own = threshold_for_answered(probabilities, answerable, SHARE)
    by_costs, cheapest = (
        threshold_of_costs(WRONG, NEEDLESS),
        cheapest_threshold(probabilities, answerable, found, WRONG, NEEDLESS),
    )
    return {
        "questions": len(observed),
        "unanswerable": int((~answerable).sum()),
        "found_share": mean(found[answerable].tolist()),
        "auc": area_under_roc(probabilities, answerable),
        "brier": brier_score(probabilities, answerable),
        "calibration_error": expected_calibration_error(probabilities, answerable),
        "at_own_share": asdict(point_at(own, probabilities, answerable, found)),
        "at_stored": asdict(point_at(model.threshold, probabilities, answerable, found)),
        "costs": {
            "wrong": WRONG,
            "needless": NEEDLESS,
            "threshold": by_costs,
            "cost": cost_at(by_costs, probabilities, answerable, found, WRONG, NEEDLESS),
            "cheapest_threshold": cheapest,
            "cheapest_cost": cost_at(cheapest, probabilities, answerable, found, WRONG, NEEDLESS),
            "cost_of_always_answering": cost_at(0.0, probabilities, answerable, found, WRONG, NEEDLESS),
        },
        "curve": [asdict(point) for point in thinned(abstention_curve(probabilities, answerable, found))],
    }


def thinned(curve: Sequence[AbstentionPoint], num_points: int = 40) -> list[AbstentionPoint]:
    """At most so many points of a curve, evenly along it, its ends among them."""
    if len(curve) <= num_points:
        return list(curve)
    return [curve[round(place)] for place in np.linspace(0, len(curve) - 1, num_points)]


def single_feature_aucs(observed: Sequence[Observed]) -> dict[str, float]:
    """The AUC of every feature alone: 0.5 says nothing, below 0.5 it speaks against an answer."""
    names = observed_feature_sets(observed)[0]
    values = evidence_matrix([one.evidence for one in observed], names)
    labels = labels_of(observed)
    return {name: area_under_roc(values[:, place], labels) for place, name in enumerate(names)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.abstention", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=PROJECT.parent / "shared" / "data", help="folder of the sets")
    parser.add_argument("--config", type=Path, default=PROJECT / "serve_configs" / "local" / "rag.yaml")
    parser.add_argument("--sample", type=Path, default=PROJECT / "bench" / "sample", help="folder of golden.jsonl")
    parser.add_argument("--sets", nargs="+", choices=(SQUAD, REMOVED, GOLDEN), default=[SQUAD, REMOVED, GOLDEN])
    parser.add_argument("--collections", nargs="+", default=list(COLLECTIONS), metavar="SET", help="of `removed`")
    parser.add_argument("--questions", type=int, default=2_000, help="most of `squad`, half of them answerable")
    parser.add_argument("--passages", type=int, help="of `squad`, beside those asked about; left out: all")
    parser.add_argument("--per-collection", type=int, help="most questions of each of `removed`; left out: all")
    parser.add_argument("--method", choices=("temperature", "isotonic"), default="temperature")
    parser.add_argument(
        "--answerable-share", type=float, help="of the questions that are expected; moves what `--write` stores"
    )
    parser.add_argument("--observed", type=Path, help="file that keeps the evidence between runs; outside the project")
    parser.add_argument("--write", type=Path, help="store the calibration here, for generate.evidence_file")
    parser.add_argument("--plot", type=Path, help="PNG or SVG of the curves")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON record")
    args = parser.parse_args()
    run = Run("abstention")
    config = load_config(args.config)

    if args.observed is not None and args.observed.exists():
        observed = read_observed(args.observed)
    else:
        observed = observe_sets(args, config)
        if args.observed is not None:
            write_observed(observed, args.observed)

    stored = stored_models(observed, args.method)
    best = next(iter(stored))
    models = {
        **stored,
        "logit alone": fit(observed, ("logit",), args.method),
        "dense alone": fit(observed, ("dense",), args.method),
    }
    fitted_on = sorted({one.set for one in calibration_half(observed)})
    if len(fitted_on) > 1:
        names = models[best].model.features
        models |= {f"{best}, fitted on {name}": fit(observed, names, args.method, [name]) for name in fitted_on}
    figures: dict[str, Any] = {"sets": {}, "wanted": {"answered": SHARE, "declined": WANTED}, "verdicts": {}}
    curves: dict[str, Sequence[AbstentionPoint]] = {}
    for name in [name for name in (SQUAD, REMOVED, GOLDEN) if judged_half(observed, name)]:
        rows = judged_half(observed, name)
        by_model = {kind: figures_of(model, rows) for kind, model in models.items()}
        show(name, by_model)
        figures["sets"][name] = {"models": by_model, "feature_auc": single_feature_aucs(rows)}
        for kind in (best, "dense alone"):
            labels, found = labels_of(rows), np.asarray([one.found for one in rows], np.bool_)
            curves[f"{name}, {kind}"] = abstention_curve(probabilities_of(models[kind], rows), labels, found)
        declined = by_model[best]["at_own_share"]["declined_share"]
        figures["verdicts"][name] = verdict(
            declined >= WANTED,
            f"{name}: {declined:.2f} of the unanswerable are declined while {SHARE:.0%} of the answerable are answered",
        )
    aucs = {name: row["feature_auc"] for name, row in figures["sets"].items()}
    names = models[best].model.features
    print_table("AUC of single features", ("feature", *aucs), [(f, *(aucs[s][f] for s in aucs)) for f in names])
    figures["weights"] = weights = dict(zip(names, models[best].model.weights, strict=True))
    print_table("weights, in standard deviations", ("feature", "weight"), list(weights.items()))
    if args.plot is not None:
        plot_abstention(curves, args.plot)
    if args.write is not None:
        arguments = f"--sets {' '.join(args.sets)} --method {args.method}"
        arguments += f" --questions {args.questions}"
        if args.answerable_share is not None:
            share = float(labels_of(calibration_half(observed)).mean())
            stored = {kind: expecting(model, share, args.answerable_share) for kind, model in stored.items()}
        write_calibration(tuple(stored.values()), config, f"python -m bench.abstention {arguments}", args.write)
    run.write(figures, config, args.results)


def observe_sets(args: argparse.Namespace, config: RagConfig) -> list[Observed]:
    """The evidence of every set that was asked for."""
    embedder, reranker = build_embedder(config), build_reranker(config)
    observed: list[Observed] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if SQUAD in args.sets:
            chunks, asked = squad_questions(need(args.data, "the data"), args.questions, args.passages)
            out.print(f"[dim]{SQUAD}: {len(asked)} questions over {len(chunks)} passages[/dim]")
            observed += observe(asked, chunks, config, embedder, reranker, folder / SQUAD)
        if REMOVED in args.sets:
            chunks, asked = removed_questions(args.data, args.collections, args.per_collection)
            out.print(f"[dim]{REMOVED}: {len(asked)} questions over {len(chunks)} sections[/dim]")
            observed += observe(asked, chunks, config, embedder, reranker, folder / REMOVED)
        if GOLDEN in args.sets:
            build_sample(folder / "corpus")
            chunks = read_chunks(folder / "corpus", config, None)
            asked = golden_questions(args.sample)
            out.print(f"[dim]{GOLDEN}: {len(asked)} questions over {len(chunks)} chunks[/dim]")
            observed += observe(asked, chunks, config, embedder, reranker, folder / GOLDEN)
    return observed


def write_calibration(models: Sequence[AnswerabilityModel], config: RagConfig, command: str, path: Path) -> None:
    """The models, that with most features first."""
    calibration = EvidenceCalibration(
        encoder=config.embed.model,
        reranker=config.rerank.model,
        reader=config.generate.reader,
        command=command,
        models=tuple(models),
    )
    temporary = path.with_suffix(".tmp")
    temporary.write_text(calibration.model_dump_json(indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)
    out.print(f"calibration in {path}", markup=False)


def show(name: str, by_model: Mapping[str, Mapping[str, Any]]) -> None:
    rows = [
        (
            kind,
            f["questions"],
            f["auc"],
            f["calibration_error"],
            f["at_own_share"]["declined_share"],
            f["at_own_share"]["accuracy"],
            f["at_stored"]["answered_share"],
            f["at_stored"]["declined_share"],
            f["costs"]["cost"],
            f["costs"]["cost_of_always_answering"],
        )
        for kind, f in by_model.items()
    ]
    columns = (
        "model",
        "questions",
        "AUC",
        "ECE",
        "declined at 90%",
        "accuracy at 90%",
        "answered, stored threshold",
        "declined, stored threshold",
        f"cost {WRONG:g}:{NEEDLESS:g}",
        "cost, always",
    )
    print_table(f"{name}: P(answerable) on questions that nothing was fitted on", columns, rows)


if __name__ == "__main__":
    main()
