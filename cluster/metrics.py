"""Prometheus metrics of the online plane, `rag_<room>_<quantity>_<unit>`; Ray exports them on every node."""

from collections.abc import Iterable

from ray.util.metrics import Counter, Histogram

from rag.data import Span
from rag.pipeline import DoneEvent

_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000]


class QueryMetrics:
    """What one gateway replica counts."""

    def __init__(self) -> None:
        self._stage_wall = Histogram("rag_stage_wall_ms", "Compute, queue and transport.", _MS, ("stage",))
        self._stage_compute = Histogram("rag_stage_compute_ms", "Inside the stage alone.", _MS, ("stage",))
        self._queries = Counter("rag_queries_total", "Questions by how they ended.", ("outcome",))
        self._tokens = Counter("rag_tokens_total", "Tokens of the generator.", ("direction",))
        self._removed = Counter("rag_citations_removed_total", "Citations that did not resolve.")

    def observe_spans(self, spans: Iterable[Span]) -> None:
        for span in spans:
            self._stage_wall.observe(max(span.wall_ms, 0.001), {"stage": span.name})
            self._stage_compute.observe(max(span.compute_ms, 0.001), {"stage": span.name})

    def observe_answer(self, done: DoneEvent) -> None:
        answer = done.answer
        self.observe_spans(done.trace.spans)
        self._queries.inc(1, {"outcome": answer.abstained or ("partial" if answer.partial else "answered")})
        if answer.num_prompt_tokens:
            self._tokens.inc(answer.num_prompt_tokens, {"direction": "in"})
        if answer.num_output_tokens:
            self._tokens.inc(answer.num_output_tokens, {"direction": "out"})
        if answer.num_citations_removed:
            self._removed.inc(answer.num_citations_removed)

    def observe_failure(self, kind: str) -> None:
        self._queries.inc(1, {"outcome": kind})
