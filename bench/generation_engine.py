"""vLLM in a process of its own, for `bench.generation`: prompts in as JSON, texts and speed out.

python -m bench.generation_engine JOB.json OUT.json

Apart, since vLLM's workers import the main module again, and fail where that brings numba along.
"""

import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

SPEED_TOKENS = 48


def run(job: dict[str, Any]) -> dict[str, Any]:  # Any: JSON
    """The text and the number of tokens of each request; then the engine's speed."""
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    os.environ.setdefault("VLLM_CPU_NUM_OF_RESERVED_CPU", "0")  # nothing else runs here
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    import torch
    from vllm import LLM, SamplingParams

    llm = LLM(
        model=job["model"],
        dtype=job["dtype"],
        max_model_len=job["max_model_tokens"],
        enforce_eager=True,
        enable_prefix_caching=True,
        max_num_seqs=16,
    )
    messages = [request["messages"] for request in job["requests"]]
    if not torch.cuda.is_available():  # see cluster/generator.py: a seed ends vLLM's engine on a CPU
        for request in job["requests"]:
            del request["sampling"]["seed"]
    params = [SamplingParams(**request["sampling"]) for request in job["requests"]]
    written: list[Any] = [None] * len(messages)
    for begun in (True, False):  # whether the model goes on behind the beginning of an answer
        places = [place for place, one in enumerate(messages) if (one[-1]["role"] == "assistant") == begun]
        turn = {"add_generation_prompt": not begun, "continue_final_message": begun}
        asked, settings = [messages[place] for place in places], [params[place] for place in places]
        replies = llm.chat(asked, settings, use_tqdm=False, **turn) if places else []
        for place, reply in zip(places, replies, strict=True):
            written[place] = (reply.outputs[0].text.strip(), len(reply.outputs[0].token_ids))

    timed = [[message for message in one if message["role"] != "assistant"] for one in messages[: job["num_timed"]]]
    first_ms = []
    for one in timed:  # their prompts are cached by now, for every model alike: what is timed is the engine
        started = time.perf_counter()
        llm.chat([one], SamplingParams(max_tokens=1, temperature=0.0), use_tqdm=False)
        first_ms.append((time.perf_counter() - started) * 1e3)
    fixed = SamplingParams(max_tokens=SPEED_TOKENS, temperature=0.0, ignore_eos=True)
    started = time.perf_counter()
    llm.chat(timed, fixed, use_tqdm=False)
    seconds = time.perf_counter() - started
    speed = {"first_token_ms": statistics.median(first_ms), "tokens_per_s": SPEED_TOKENS * len(timed) / seconds}
    return {"written": written, "speed": speed}


def main() -> None:
    job, out = map(Path, sys.argv[1:])
    out.write_text(json.dumps(run(json.loads(job.read_text(encoding="utf-8")))), encoding="utf-8")


if __name__ == "__main__":
    main()
