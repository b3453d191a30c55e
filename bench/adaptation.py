"""What does a night of adapting the cross-encoder to a team's own documents give? Questions are made up over one
handbook, a cross-encoder goes on training with them, and the handbook's own questions judge it.

python -m bench.adaptation --data ../shared/data [--set ir-handbook-faq-sourcegraph] [--minutes 8]

`jobs.synthesize` sees the documents and never a question of the set; `jobs.train_reranker` goes on from the adapter of
`quire-reranker`. Compared in one run, over the same fused candidates: no reranker, late interaction as served, and the
cross-encoder before and after, each beside the first stage with the weight that its own held-out questions chose.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from bench.quality import benchmark_config, encode, evaluate, first_stages, read_sets, rerank, score_all, search_all
from bench.report import PROJECT, RESULTS, Run, out, print_table
from rag.config import RagConfig
from rag.models import MODELS, AdaptedModel
from rag.parts import build_embedder, build_reranker

START = "quire-reranker"
EARLIER_WEIGHT = 0.2  # that the page of its adapter names
PLACES = ("out", "merged", "command")  # of a job's report: they name folders that are gone


def adapt(corpus: Path, config_file: Path, folder: Path, args: argparse.Namespace) -> dict[str, Any]:  # Any: JSON
    """Make questions over the corpus and train with them; both jobs' reports, the model in `folder`/merged."""
    start = MODELS[START]
    assert isinstance(start, AdaptedModel)
    questions = folder / "questions.jsonl"
    made = _job(
        *("jobs.synthesize", "--config", config_file, "--corpus", corpus, "--out", questions),
        *("--source", args.source, "--max-chunks", args.max_chunks),
    )
    trained = _job(
        *("jobs.train_reranker", "--config", config_file, "--pairs", questions, "--start", start.adapter),
        *("--out", folder / "adapter", "--merged", folder / "merged", "--max-minutes", args.minutes),
        *("--learning-rate", args.learning_rate, "--dev-questions", 200, "--dev-share", 0.15),
    )
    return {"questions": made, "training": trained}


def _job(*words: object) -> dict[str, Any]:  # Any: JSON
    command = [sys.executable, "-m", *map(str, words), "--json"]
    reply: dict[str, Any] = json.loads(subprocess.run(command, cwd=PROJECT, check=True, stdout=subprocess.PIPE).stdout)
    return reply


def with_cross_encoder(config: RagConfig, model: str, weight: float) -> RagConfig:
    changed = {"reranker": "cross_encoder", "model": model, "model_weight": weight}
    return config.model_copy(update={"rerank": config.rerank.model_copy(update=changed)})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.adaptation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=PROJECT.parent / "shared" / "data", help="folder of the sets")
    parser.add_argument("--set", default="ir-handbook-faq-sourcegraph", help="whose documents and questions")
    parser.add_argument("--config", type=Path, default=PROJECT / "serve_configs" / "local" / "rag.yaml")
    parser.add_argument("--source", choices=("rules", "llm", "both"), default="both", help="of the questions")
    parser.add_argument("--max-chunks", type=int, default=600, help="documents that questions are made of")
    parser.add_argument("--minutes", type=float, default=8.0, help="of training")
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--k-rerank", type=int, default=50, help="fused candidates that are reranked")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON record")
    args = parser.parse_args()
    run = Run("adaptation")
    config = benchmark_config(args.config)
    (collection,) = read_sets(args.data, [args.set], None)
    encoded, _ = encode(collection, build_embedder(config))
    searched, _ = search_all(encoded, config)
    scores = {"fused": first_stages(searched)["rrf"]}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = folder / "rag.yaml"
        settings.write_text(yaml.safe_dump(config.model_dump(mode="json")), encoding="utf-8")
        jobs = adapt(args.data / args.set, settings, folder, args)
        rerankers = {
            "late interaction": config,
            "cross-encoder before": with_cross_encoder(config, START, EARLIER_WEIGHT),
            "cross-encoder after": with_cross_encoder(
                config, str(folder / "merged"), jobs["training"]["best_model_weight"]
            ),
        }
        for label, chosen in rerankers.items():
            logits, _ = score_all(searched, encoded.chunks, build_reranker(chosen), args.k_rerank)
            rankings = [rerank(one, logits, chosen.rerank) for one in searched]
            scores[label] = evaluate(rankings, collection.queries)
    metrics = list(scores["fused"])
    print_table(args.set, ("ranking", *metrics), [(label, *row.values()) for label, row in scores.items()])
    gain = {m: round(scores["cross-encoder after"][m] - scores["cross-encoder before"][m], 4) for m in metrics}
    out.print(f"adapting the cross-encoder: {', '.join(f'{m} {value:+.3f}' for m, value in gain.items())}")
    reports = {job: {k: v for k, v in report.items() if k not in PLACES} for job, report in jobs.items()}
    run.write({"set": args.set, "scores": scores, "gain": gain, **reports}, config, args.results)


if __name__ == "__main__":
    main()
