"""What the benchmark of replays asks, notes, compares and counts; the service is the real one, in this process."""

import asyncio
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from bench.load import Ask, Askers
from bench.replay import Asked, ask_all, compared, planned, read_asked, repeat_over_http, replay_figures, write_asked
from jobs.client import Client
from jobs.trace_commands import open_traces, replay_stored
from rag.data import Question, Turn
from rag.evaluate.replay import Difference, Replay
from rag.ids import TraceId, VersionId
from rag.trace import Trace
from tests.rag.evaluate.libraries import Library, cheap_config
from tests.rag.index.factories import EVERYONE, make_chunk

FOLLOW_UP = Ask("And in Porto?", "ann", (Turn("user", "How many desks are in Lisbon?"),))
GOLDEN = [Ask("How many days of leave?", "ann"), Ask("Where do visitors get a badge?", "bob"), FOLLOW_UP]


def test_searches_are_made_by_everyone_and_follow_ups_are_answered_only() -> None:
    plan = planned(GOLDEN, ["ann", "bob", "eve"], searches=6, answers=4, seed=0)
    assert plan == planned(GOLDEN, ["ann", "bob", "eve"], searches=6, answers=4, seed=0)
    assert Counter(endpoint for endpoint, _ in plan) == {"search": 6, "query": 4}
    searched = {(ask.text, ask.asker) for endpoint, ask in plan if endpoint == "search"}
    assert len(searched) == 6
    assert not any(ask.history for endpoint, ask in plan if endpoint == "search")
    assert FOLLOW_UP in [ask for endpoint, ask in plan if endpoint == "query"]


def test_what_was_asked_is_read_back_after_a_restart(tmp_path: Path) -> None:
    asked = [Asked("query", FOLLOW_UP.text, "ann", FOLLOW_UP.history, TraceId("t1"))]
    write_asked(tmp_path / "new" / "replay.json", asked)
    assert read_asked(tmp_path / "new" / "replay.json") == asked
    assert asked[0].ask == FOLLOW_UP


def made(name: str, verdict: str, **changes: object) -> Replay:
    return replace(Replay(TraceId(name), "search", VersionId("v"), verdict), **changes)  # type: ignore[arg-type]


def test_the_share_is_of_what_can_be_repeated() -> None:
    found = [
        made("a", "identical"),
        made("b", "identical"),
        made("c", "different", difference=Difference("dense", 1, "x", "y")),
        made("d", "not_replayable", reasons=("it is partial, without shard 1",)),
    ]
    figures = replay_figures(found)
    assert figures["identical_share"] == pytest.approx(2 / 3, abs=1e-6)
    assert figures["first_differences"] == {"dense": 1}
    assert figures["reasons"] == {"it is partial, without shard 1": 1}
    assert replay_figures(found[3:])["identical_share"] is None


@pytest.fixture
def library(tmp_path: Path) -> Library:
    texts = ["Employees have 25 days of leave.", "Visitors get a badge at the desk.", "Zone B costs 12 CHF."]
    return Library(cheap_config(tmp_path), [make_chunk(text, f"{n}.md") for n, text in enumerate(texts)])


def service(library: Library) -> Askers:
    """The searches of the real pipeline behind HTTP, each leaving its trace."""

    def answer(request: httpx.Request) -> httpx.Response:
        trace = asyncio.run(library.search(Question(json.loads(request.content)["query"], EVERYONE)))
        traces = open_traces(library.config)
        traces.save(trace)
        traces.close()
        return httpx.Response(200, json={"results": [], "version": library.version, "trace_id": trace.id})

    return Askers({"ann": Client("http://x", "key", transport=httpx.MockTransport(answer))})


def test_traces_of_searches_repeat_in_this_process_and_over_http(library: Library) -> None:
    askers = service(library)
    plan = planned([GOLDEN[0], replace(GOLDEN[1], asker="ann")], ["ann"], searches=5, answers=0, seed=1)
    outcomes = ask_all(askers, plan, 10, clients=2)
    assert [outcome.ask for outcome in outcomes] == [ask for _, ask in plan]
    asked = [Asked("search", o.ask.text, o.ask.asker, (), TraceId(o.trace_id)) for o in outcomes]
    assert len({one.trace_id for one in asked}) == 5
    assert replay_figures(replay_stored(library.config, [one.trace_id for one in asked]))["identical"] == 5
    assert replay_figures(repeat_over_http(askers, asked, library.config, 10, 2))["identical"] == 5


def test_what_can_not_be_compared_is_not_called_different(library: Library) -> None:
    old = asyncio.run(library.search(Question("leave", EVERYONE)))
    moved = replace(old, versions=replace(old.versions, index=VersionId("v-2")))
    written = replace(old, rewrites=("follow_up_model",))
    others: list[tuple[Trace, str]] = [(moved, "the index is now v-2"), (written, "language model")]
    others.append((replace(old, partial=("shard 0",)), "without shard 0"))
    for new, reason in others:
        found = compared(old, new)
        assert (found.verdict, reason in found.reasons[0]) == ("not_replayable", True)
    assert compared(old, old).verdict == "identical"
    assert compared(old, replace(old, query="other")).verdict == "different"
