"""`python -m jobs.train_entailment`: fit the entailment scorer on labelled questions, in a minute or two on a CPU."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from jobs.printing import print_failure, print_pairs
from rag.config import load_config
from rag.errors import RagError
from rag.evaluate.entailment import WEIGHTS
from rag.parts import build_embedder
from rag.train.entailment import fit_entailment, read_claims


def run(config_file: Path, data: Path, out: Path, num_questions: int, seed: int) -> None:
    """Fit the scorer on claims of the documents that are not held out, write its weights and print what they are."""
    started = time.perf_counter()
    config = load_config(config_file)
    claims = read_claims(data, num_questions, seed, test=False)
    command = f"python -m jobs.train_entailment --data DATA --questions {num_questions} --seed {seed}"
    weights = fit_entailment(claims, build_embedder(config), config.embed.model, command)
    temporary = out.with_suffix(".tmp")
    temporary.write_text(weights.model_dump_json(indent=1) + "\n", encoding="utf-8")
    temporary.replace(out)
    kinds = Counter(claim.kind for claim in claims)
    print_pairs(
        f"Entailment weights in {out}",
        {
            "claims": ", ".join(f"{kind} {count}" for kind, count in kinds.items()),
            "threshold": weights.threshold,
            **{f"weight of {name}": w for name, w in zip(weights.model.features, weights.model.weights, strict=True)},
            "seconds": round(time.perf_counter() - started, 1),
        },
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m jobs.train_entailment", description="Fit the entailment scorer.")
    parser.add_argument("--config", type=Path, default=Path("serve_configs/local/rag.yaml"), help="for its encoder")
    parser.add_argument("--data", type=Path, required=True, help="folder with qa-pairs and qa-unanswerable")
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="file of the weights (%(default)s)")
    parser.add_argument("--questions", type=int, default=1_000, help="answerable questions (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    try:
        run(options.config, options.data, options.out, options.questions, options.seed)
    except RagError as error:
        return print_failure(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
