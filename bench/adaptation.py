"""What does adapting the encoder to a team's own documents give, and what does it cost on other documents?

python -m bench.adaptation --data ../shared/data [--set ir-handbook-faq-sourcegraph] [--minutes 12]

`jobs.synthesize` makes questions of a handbook's sections and never sees a question of the set; `jobs.train_encoder`
learns from them. The set's own questions judge the encoder before and after in one run: alone, fused with BM25, and
reranked by its token states, as served. `--others` are judged with the same two encoders.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from bench.quality import (
    Scores,
    benchmark_config,
    encode,
    evaluate,
    first_stages,
    over_sets,
    read_sets,
    rerank,
    score_all,
    search_all,
)
from bench.report import PROJECT, RESULTS, Run, out, print_table, verdict
from rag.config import RagConfig
from rag.evaluate.beir import Collection
from rag.parts import build_embedder, build_reranker

STAGES = ("dense", "rrf", "reranked")
PLACES = ("out", "merged", "command")  # of a job's report: they name folders that are gone


def adapt(corpus: Path, config_file: Path, folder: Path, args: argparse.Namespace) -> dict[str, Any]:  # Any: JSON
    """Make questions over the corpus and train with them; both jobs' reports, the model in `folder`/merged."""
    questions = folder / "questions.jsonl"
    made = _job(
        *("jobs.synthesize", "--config", config_file, "--corpus", corpus, "--out", questions),
        *("--source", args.source, "--max-chunks", args.max_chunks),
    )
    trained = _job(
        *("jobs.train_encoder", "--config", config_file, "--pairs", questions),
        *("--out", folder / "adapter", "--merged", folder / "merged", "--max-minutes", args.minutes),
        *("--learning-rate", args.learning_rate, "--dev-questions", 100),
    )
    return {"questions": made, "training": trained}


def _job(*words: object) -> dict[str, Any]:  # Any: JSON
    command = [sys.executable, "-m", *map(str, words), "--json"]
    reply: dict[str, Any] = json.loads(subprocess.run(command, cwd=PROJECT, check=True, stdout=subprocess.PIPE).stdout)
    return reply


def with_encoder(config: RagConfig, model: str) -> RagConfig:
    """The configuration with the model as encoder and for late interaction."""
    return config.model_copy(
        update={
            "embed": config.embed.model_copy(update={"model": model}),
            "rerank": config.rerank.model_copy(update={"model": model}),
        }
    )


def judge(collections: Sequence[Collection], config: RagConfig, k_rerank: int) -> dict[str, dict[str, Scores]]:
    """The scores of each stage on each collection."""
    embedder, reranker = build_embedder(config), build_reranker(config)
    found: dict[str, dict[str, Scores]] = {}
    for collection in collections:
        encoded, _ = encode(collection, embedder)
        searched, _ = search_all(encoded, config)
        logits, _ = score_all(searched, encoded.chunks, reranker, k_rerank)
        rankings = [rerank(one, logits, config.rerank) for one in searched]
        found[collection.name] = first_stages(searched) | {"reranked": evaluate(rankings, collection.queries)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.adaptation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=PROJECT.parent / "shared" / "data", help="folder of the sets")
    parser.add_argument("--set", default="ir-handbook-faq-sourcegraph", help="whose documents and questions")
    parser.add_argument("--others", nargs="*", default=["ir-handbook-faq-18f", "ir-product-docs", "ir-cisi"])
    parser.add_argument("--config", type=Path, default=PROJECT / "serve_configs" / "local" / "rag.yaml")
    parser.add_argument("--source", choices=("rules", "llm", "both"), default="rules", help="of the questions")
    parser.add_argument("--max-chunks", type=int, default=3_000, help="documents that questions are made of")
    parser.add_argument("--minutes", type=float, default=12.0, help="of training")
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--k-rerank", type=int, default=50, help="fused candidates that are reranked")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON record")
    args = parser.parse_args()
    run = Run("adaptation")
    config = benchmark_config(args.config)
    collections = list(read_sets(args.data, [args.set, *args.others], None))
    before = judge(collections, config, args.k_rerank)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = folder / "rag.yaml"
        settings.write_text(yaml.safe_dump(config.model_dump(mode="json")), encoding="utf-8")
        jobs = adapt(args.data / args.set, settings, folder, args)
        after = judge(collections, with_encoder(config, str(folder / "merged")), args.k_rerank)
    rows = [
        (name, stage, before[name][stage]["ndcg@10"], after[name][stage]["ndcg@10"])
        for name in before
        for stage in STAGES
    ]
    print_table("nDCG@10", ("set", "stage", "before", "after"), rows)
    gain = {stage: round(after[args.set][stage]["ndcg@10"] - before[args.set][stage]["ndcg@10"], 4) for stage in STAGES}
    out.print(f"on {args.set}: {', '.join(f'{stage} {value:+.3f}' for stage, value in gain.items())}")
    verdicts = {"every_stage_gains": verdict(min(gain.values()) > 0, "every stage gains on the documents adapted to")}
    others = {}
    if args.others:
        sides = [over_sets({name: side[name]["reranked"] for name in args.others}) for side in (before, after)]
        others = {"before": sides[0], "after": sides[1]}
        out.print(f"elsewhere, reranked: {sides[0]['ndcg@10']:.3f} before, {sides[1]['ndcg@10']:.3f} after")
    reports = {job: {k: v for k, v in report.items() if k not in PLACES} for job, report in jobs.items()}
    figures = {"set": args.set, "before": before, "after": after, "gain": gain, "others": others, "verdicts": verdicts}
    run.write({**figures, **reports}, config, args.results)


if __name__ == "__main__":
    main()
