"""Memory is sampled from real processes, and a trend is the line through the samples."""

import os
import subprocess
import sys

import pytest

from bench.ingest import is_flat
from bench.memory import MIB, MemorySampler, Sample, anonymous_bytes, process_tree, trend_of

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads /proc")


def test_a_steady_growth_is_its_slope() -> None:
    samples = [Sample(float(second), (100 + second) * MIB) for second in range(60)]
    trend = trend_of("w", samples, after_s=20.0)
    assert trend is not None
    assert trend.num_samples == 40
    assert trend.slope_mib_per_min == pytest.approx(60.0)
    assert trend.growth_mib == pytest.approx(39.0)
    assert trend.peak_mib == 159.0


def test_growth_before_settling_does_not_count() -> None:
    samples = [Sample(float(second), min(second, 20) * MIB) for second in range(60)]
    trend = trend_of("w", samples, after_s=20.0)
    assert trend is not None
    assert trend.slope_mib_per_min == 0.0
    assert is_flat(trend)


def test_a_leak_is_not_flat() -> None:
    samples = [Sample(float(second), (500 + 5 * second) * MIB) for second in range(120)]
    trend = trend_of("w", samples, after_s=60.0)
    assert trend is not None
    assert not is_flat(trend)


def test_a_process_that_was_hardly_there_has_no_trend() -> None:
    assert trend_of("w", [Sample(1.0, MIB)] * 3, after_s=0.0) is None


def test_the_tree_holds_children_and_their_memory() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "x = bytearray(64 << 20); print(1, flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        assert child.pid in process_tree(os.getpid())
        held = anonymous_bytes(child.pid)
        assert held is not None
        assert held >= 60 * MIB
    finally:
        child.communicate(b"\n")
    assert child.pid not in process_tree(os.getpid())
    assert anonymous_bytes(child.pid) is None


def test_the_sampler_sees_the_driver() -> None:
    import time

    with MemorySampler(every_s=0.01) as sampler:
        time.sleep(0.5)
    (driver,) = [trend for trend in sampler.trends(after_s=0.0) if trend.name == "driver"]
    assert driver.median_mib > 1
    assert sampler.duration_s >= 0.5
