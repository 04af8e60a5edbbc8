"""Seconds and megabytes are what they say."""

import time

import pytest
import torch

from covary.benchmarks.measure import alternate, peak_memory


def passes():
    return {"large": lambda: torch.ones(50_000_000, dtype=torch.float64).sum(), "nothing": lambda: None}


def test_passes_take_turns_after_one_unmeasured_round():
    order = []
    runs = {"slow": lambda: (order.append("slow"), time.sleep(0.02)), "fast": lambda: order.append("fast")}
    seconds = alternate(runs, 3, lambda message, done: None)
    assert order == ["slow", "fast"] * 4
    assert 0.02 <= seconds["slow"] < 0.2
    assert seconds["fast"] < seconds["slow"]


def test_memory_is_that_of_the_pass_alone():
    here = torch.ones(60_000_000, dtype=torch.float64)  # 480 MB that the child must not inherit
    large, nothing = peak_memory(passes, "large"), peak_memory(passes, "nothing")
    assert large.pass_mb == pytest.approx(50_000_000 * 8 / 2**20, rel=0.1)
    assert nothing.pass_mb < 20
    assert nothing.peak_mb < 480
    del here
