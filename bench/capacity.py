"""How much memory, how many shards and GPU hours, and what rate does an index of so many pages need?

python -m bench.capacity --pages 5e6 --growth 0.2 --years 3

Nothing is measured here: it is arithmetic over stated assumptions, each of them an option. Measured figures to put into
it (rows a second of an index type, bytes a vector) come from bench/search.py.
"""

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Literal

from bench.report import out, print_table, stop

IndexKind = Literal["flat", "ivf_flat", "ivf_pq", "hnsw"]
KINDS: tuple[IndexKind, ...] = ("flat", "ivf_flat", "ivf_pq", "hnsw")

_GB = 1e9
_FLOAT_BYTES = {"float32": 4, "float16": 2}
_ID_BYTES = 8  # of a row in an IVF list
_LINK_BYTES = 4


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What a plan is made of; every field is an option of the command."""

    pages: float = 5e6
    chunks_per_page: float = 7.0
    dim: int = 768
    precision: str = "float32"  # of the vectors: float32 or float16
    index: str = "hnsw"  # flat, ivf_flat, ivf_pq or hnsw
    m: int = 32  # neighbours of a node in HNSW; twice as many at the bottom
    pq_bytes: int = 96
    nlist: int = 16_384
    nprobe: int = 32
    growth: float = 0.2  # of the corpus, a year
    years: int = 3
    chunk_tokens: float = 150.0
    encoder_parameters: float = 110e6
    encoder_flops: float = 100e12  # that a GPU really gives, a second
    employees: float = 50_000
    active_share: float = 0.2
    questions_per_day: float = 5.0  # of an active employee
    input_tokens: float = 3_000.0  # of a question: prompt and passages
    output_tokens: float = 200.0
    peak_share: float = 0.3  # of a day's questions that come in the peak hours
    peak_hours: float = 2.0
    input_price: float = 0.0  # of a million tokens
    output_price: float = 0.0
    shard_gb: float = 16.0  # memory that a shard may take for its dense index
    headroom: float = 0.25  # of a shard's memory left free: masks, BM25, two versions during a switch


@dataclass(frozen=True, slots=True)
class Plan:
    """What the assumptions come to, today and after the years of growth."""

    vectors: float
    vectors_later: float
    flat_gb: float  # the vectors alone
    links_gb: float  # of HNSW, beside the vectors
    codes_gb: float  # of a product quantizer, beside nothing
    index_gb: float  # of the chosen kind
    index_gb_later: float
    bytes_per_vector: float  # of the chosen kind
    shards: int
    shards_later: int
    rows_scanned: float  # of a query, by IVF
    rows_scanned_later: float
    tokens: float
    encoder_flop: float
    gpu_hours: float  # of a full embedding
    questions_per_day: float
    input_tokens_per_day: float
    output_tokens_per_day: float
    peak_qps: float
    cost_per_day: float


def make_plan(given: Assumptions) -> Plan:
    """The plan under the assumptions. Raises ValueError for a kind of index or a precision that there is not."""
    if given.index not in KINDS or given.precision not in _FLOAT_BYTES:
        raise ValueError(
            f"index {given.index!r} of {given.precision!r}: expected one of {KINDS} of {set(_FLOAT_BYTES)}"
        )
    vectors = given.pages * given.chunks_per_page
    later = vectors * (1 + given.growth) ** given.years
    raw_bytes = given.dim * _FLOAT_BYTES[given.precision]
    link_bytes = 2 * given.m * _LINK_BYTES
    each = {
        "flat": raw_bytes,
        "ivf_flat": raw_bytes + _ID_BYTES,
        "ivf_pq": given.pq_bytes + _ID_BYTES,
        "hnsw": raw_bytes + link_bytes,
    }[given.index]
    usable_bytes = given.shard_gb * _GB * (1 - given.headroom)
    tokens = vectors * given.chunk_tokens
    flop = 2 * given.encoder_parameters * tokens
    questions = given.employees * given.active_share * given.questions_per_day
    input_tokens, output_tokens = questions * given.input_tokens, questions * given.output_tokens
    return Plan(
        vectors=vectors,
        vectors_later=later,
        flat_gb=vectors * raw_bytes / _GB,
        links_gb=vectors * link_bytes / _GB,
        codes_gb=vectors * given.pq_bytes / _GB,
        index_gb=vectors * each / _GB,
        index_gb_later=later * each / _GB,
        bytes_per_vector=each,
        shards=max(1, math.ceil(vectors * each / usable_bytes)),
        shards_later=max(1, math.ceil(later * each / usable_bytes)),
        rows_scanned=vectors * given.nprobe / given.nlist,
        rows_scanned_later=later * given.nprobe / given.nlist,
        tokens=tokens,
        encoder_flop=flop,
        gpu_hours=flop / given.encoder_flops / 3_600,
        questions_per_day=questions,
        input_tokens_per_day=input_tokens,
        output_tokens_per_day=output_tokens,
        peak_qps=questions * given.peak_share / (given.peak_hours * 3_600),
        cost_per_day=(input_tokens * given.input_price + output_tokens * given.output_price) / 1e6,
    )


def plan_rows(plan: Plan, given: Assumptions) -> list[tuple[str, str, str]]:
    """The plan as (what, how much, how it comes about)."""
    a = given
    return [
        ("vectors", _count(plan.vectors), f"{_count(a.pages)} pages x {a.chunks_per_page:g} chunks"),
        (f"vectors in {a.years} years", _count(plan.vectors_later), f"+{a.growth:.0%} a year"),
        ("flat vectors", f"{plan.flat_gb:.1f} GB", f"{a.dim} x {a.precision}"),
        (
            "HNSW links",
            f"{plan.links_gb:.2f} GB",
            f"2 x M = {2 * a.m} links of {_LINK_BYTES} bytes, beside the vectors",
        ),
        ("PQ codes", f"{plan.codes_gb:.2f} GB", f"{a.pq_bytes} bytes a vector; vectors for re-scoring stay on disk"),
        (f"index, {a.index}", f"{plan.index_gb:.1f} GB", f"{plan.bytes_per_vector:g} bytes a vector"),
        (f"index in {a.years} years", f"{plan.index_gb_later:.1f} GB", ""),
        ("shards", str(plan.shards), f"{a.shard_gb:g} GB each, {a.headroom:.0%} of it left free"),
        (f"shards in {a.years} years", str(plan.shards_later), ""),
        ("rows an IVF query scans", _count(plan.rows_scanned), f"nprobe {a.nprobe} of nlist {a.nlist}"),
        (f"the same in {a.years} years", _count(plan.rows_scanned_later), ""),
        (
            f"then, with nprobe {2 * a.nprobe}",
            _count(2 * plan.rows_scanned_later),
            "as a larger index needs for its recall",
        ),
        ("tokens to embed", _count(plan.tokens), f"{a.chunk_tokens:g} a chunk"),
        (
            "full embedding",
            f"{plan.gpu_hours:.1f} GPU hours",
            f"{plan.encoder_flop:.3g} FLOP (2 x {_count(a.encoder_parameters)} parameters a token) at "
            f"{a.encoder_flops / 1e12:g} TFLOP/s",
        ),
        (
            "questions a day",
            _count(plan.questions_per_day),
            f"{_count(a.employees)} employees x {a.active_share:.0%} x {a.questions_per_day:g}",
        ),
        ("prompt tokens a day", _count(plan.input_tokens_per_day), f"{a.input_tokens:g} a question"),
        ("answer tokens a day", _count(plan.output_tokens_per_day), f"{a.output_tokens:g} a question"),
        ("peak rate", f"{plan.peak_qps:.1f} questions/s", f"{a.peak_share:.0%} of a day in {a.peak_hours:g} hours"),
        ("language model, a day", f"{plan.cost_per_day:,.2f}", "at the given prices of a million tokens"),
    ]


def _count(value: float) -> str:
    for size, unit in ((1e9, " billion"), (1e6, " million"), (1e3, " thousand")):
        if value >= size:
            return f"{value / size:.4g}{unit}"
    return f"{value:g}"


def read_options(arguments: Sequence[str] | None = None) -> tuple[Assumptions, bool]:
    """The assumptions on the command line, and whether JSON is wanted."""
    parser = argparse.ArgumentParser(prog="python -m bench.capacity", description=(__doc__ or "").splitlines()[0])
    for option in fields(Assumptions):
        default = option.default
        reads = float if isinstance(default, float) else str if isinstance(default, str) else _whole
        parser.add_argument(f"--{option.name.replace('_', '-')}", type=reads, default=default, help=f"{default}")
    parser.add_argument("--json", action="store_true", help="the plan and its assumptions for programs")
    options = vars(parser.parse_args(arguments))
    as_json = bool(options.pop("json"))
    return Assumptions(**options), as_json


def _whole(text: str) -> int:
    """A whole number, also as 5e6."""
    return int(float(text))


def main() -> None:
    given, as_json = read_options()
    try:
        plan = make_plan(given)
    except ValueError as error:
        stop(str(error))
    if as_json:
        print(json.dumps({"assumptions": asdict(given), "plan": asdict(plan)}, indent=2))
        return
    print_table(f"{_count(given.pages)} pages", ("what", "how much", "how it comes about"), plan_rows(plan, given))
    out.print("[dim]decimal gigabytes; every assumption is an option: --help[/dim]")


if __name__ == "__main__":
    main()
