"""Which of word overlap, the entailment scorer and a language model as judge can tell a supported claim from another?

python -m bench.entailment --data ../shared/data [--questions 400] [--judged 40] [--skip-judge]

Claims are made of questions on documents that training never saw, half of them supported: statements and sentences of
the passage, against the same over another passage, with another answer, number or name, negated, and answers put to
questions that the passage does not answer. The judge sees a small sample; whether it may gate anything follows from its
agreement with the labels (Cohen's kappa).
"""

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from bench.report import PROJECT, RESULTS, Run, need, out, print_table, verdict
from rag.config import RagConfig, load_config
from rag.evaluate.calibration import Flags, area_under_roc
from rag.evaluate.entailment import build_entailment, overlap_entailment
from rag.evaluate.judge import (
    JUDGE_PROMPT_VERSION,
    MIN_KAPPA,
    Judge,
    JudgeCalibration,
    JudgeRecord,
    Ruling,
    calibrate,
    cohen_kappa,
)
from rag.evaluate.metrics import mean
from rag.evaluate.sampling import sample
from rag.logistic import Floats
from rag.parts import build_embedder, build_generator
from rag.train.claims import SUPPORTED, ClaimKind, LabelledClaim
from rag.train.entailment import best_threshold, read_claims

AXIS = "faithfulness"
JUDGED_KINDS: tuple[ClaimKind, ...] = ("statement", "unanswerable", "other_answer")
MAX_VERDICT_TOKENS = 4
WANTED_AUC = 0.80


def labels_of(claims: Sequence[LabelledClaim]) -> Flags:
    return np.asarray([claim.supported for claim in claims], np.bool_)


def scorer_figures(scores: Floats, threshold: float, claims: Sequence[LabelledClaim]) -> dict[str, Any]:  # Any: JSON
    """AUC, accuracy and kappa of a scorer, and for each kind the share that falls on the right side.

    `hard_auc` leaves out sentences of the passage, what was made of them, and other passages: it is about statements in
    the question's words whose answer is the passage's, right or wrong.
    """
    labels, said = labels_of(claims), scores >= threshold
    kinds = np.asarray([claim.kind for claim in claims])
    hard = np.isin(kinds, JUDGED_KINDS)
    return {
        "claims": len(claims),
        "threshold": threshold,
        "auc": area_under_roc(scores, labels),
        "hard_auc": area_under_roc(scores[hard], labels[hard]),
        "accuracy": float((said == labels).mean()),
        "balanced_accuracy": float((said[labels].mean() + (~said[~labels]).mean()) / 2),
        "kappa": cohen_kappa(said.tolist(), labels.tolist()),
        "right_by_kind": {
            kind: float((said == labels)[kinds == kind].mean()) for kind in dict.fromkeys(kinds.tolist())
        },
        "auc_by_kind": {
            kind: area_under_roc(scores[(kinds == kind) | labels], labels[(kinds == kind) | labels])
            for kind in dict.fromkeys(kinds.tolist())
            if kind not in SUPPORTED
        },
    }


def judged_sample(claims: Sequence[LabelledClaim], limit: int) -> list[LabelledClaim]:
    """Half supported statements, half others; none a sentence of the passage, which needs no judge."""
    candidates = [claim for claim in claims if claim.kind in JUDGED_KINDS]
    halves = [sample([c for c in candidates if c.supported == supported], limit // 2) for supported in (True, False)]
    return [claim for half in halves for claim in half]


async def judge_all(claims: Sequence[LabelledClaim], judge: Judge) -> list[Ruling]:
    """The judge's ruling on each claim, asked in both orders."""
    return [
        await judge.supports(claim.premise, claim.claim)
        for claim in track(claims, "judging", console=out, transient=True)
    ]


def judge_record(model: str, claims: Sequence[LabelledClaim], rulings: Sequence[Ruling]) -> JudgeRecord:
    """The judge's calibration on the labels of the claims."""
    labels = ["yes" if claim.supported else "no" for claim in claims]
    calibration: JudgeCalibration = calibrate(AXIS, list(rulings), labels)
    return JudgeRecord(model, JUDGE_PROMPT_VERSION, {AXIS: calibration})


def build_judge(config: RagConfig) -> Judge:
    """The generator of the configuration as a judge: greedy, and a few tokens long."""
    generate = config.generate.model_copy(update={"temperature": 0.0, "max_output_tokens": MAX_VERDICT_TOKENS})
    return Judge(build_generator(config.model_copy(update={"generate": generate})))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.entailment", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=PROJECT.parent / "shared" / "data", help="folder of the sets")
    parser.add_argument("--config", type=Path, default=PROJECT / "serve_configs" / "local" / "rag.yaml")
    parser.add_argument("--questions", type=int, default=400, help="answerable questions that claims are made of")
    parser.add_argument("--judged", type=int, default=40, help="claims that the judge sees")
    parser.add_argument("--skip-judge", action="store_true", help="leave out the language model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON record")
    args = parser.parse_args()
    run = Run("entailment")
    config = load_config(args.config)
    claims = read_claims(need(args.data, "the data"), args.questions, args.seed, test=True)
    pairs = [(claim.premise, claim.claim) for claim in claims]

    scorer = build_entailment(config.embed.model, build_embedder(config))
    scores = {"overlap": np.asarray(overlap_entailment(pairs)), "scorer": np.asarray(scorer.entail(pairs))}
    # The baseline gets the best threshold that these very claims allow; the scorer brings its own.
    thresholds = {"overlap": best_threshold(scores["overlap"], labels_of(claims)), "scorer": scorer.threshold}
    figures: dict[str, Any] = {
        name: scorer_figures(scores[name], thresholds[name], claims) for name in ("overlap", "scorer")
    }
    if not args.skip_judge:
        judged = judged_sample(claims, args.judged)
        judge = build_judge(config)
        rulings = asyncio.run(judge_all(judged, judge))
        figures["judge"] = judge_figures(config.generate.model, judge, judged, rulings)
        same = [(claim.premise, claim.claim) for claim in judged]
        figures["scorer_on_judged"] = scorer_figures(np.asarray(scorer.entail(same)), scorer.threshold, judged)
    show(figures)
    checks = {
        "scorer_above_overlap": verdict(
            figures["scorer"]["auc"] > figures["overlap"]["auc"], "the scorer tells claims apart better than overlap"
        ),
        "scorer_auc": verdict(figures["scorer"]["auc"] >= WANTED_AUC, f"AUC of the scorer at least {WANTED_AUC}"),
    }
    if "judge" in figures:
        checks["judge_may_gate"] = verdict(
            not figures["judge"]["refusal"], figures["judge"]["refusal"] or f"the judge may gate {AXIS}"
        )
    figures["verdicts"] = checks
    run.write(figures, config, args.results)


def judge_figures(
    model: str, judge: Judge, claims: Sequence[LabelledClaim], rulings: Sequence[Ruling]
) -> dict[str, Any]:  # Any: JSON
    """How far the judge agrees with the labels, and why it may not gate; a tie is wrong."""
    record = judge_record(model, claims, rulings)
    known = record.axes[AXIS]
    return {
        "model": model,
        "claims": len(claims),
        "accuracy": known.agreement,
        "kappa": known.kappa,
        "ties": known.tie_share,
        "said_yes": mean(ruling == "yes" for ruling in rulings),
        "letters": dict(sorted(judge.letters.items())),
        "min_kappa": MIN_KAPPA,
        "refusal": record.refusal(AXIS),
    }


def show(figures: dict[str, Any]) -> None:
    columns = ("claims", "auc", "hard_auc", "accuracy", "balanced_accuracy", "kappa")
    print_table(
        "supported or not, on held-out documents",
        ("by", *columns),
        [(name, *(row.get(column) for column in columns)) for name, row in figures.items()],
    )
    kinds = figures["scorer"]["right_by_kind"]
    rows = [
        (
            kind,
            figures["overlap"]["right_by_kind"][kind],
            kinds[kind],
            figures["overlap"]["auc_by_kind"].get(kind),
            figures["scorer"]["auc_by_kind"].get(kind),
        )
        for kind in kinds
    ]
    print_table("by kind of claim", ("kind", "overlap right", "scorer right", "overlap AUC", "scorer AUC"), rows)


if __name__ == "__main__":
    main()
