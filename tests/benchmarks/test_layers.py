"""The rows of `covary bench layers`, measured on something small."""

import pytest
import torch
from torch import nn

from covary.benchmarks import layers as module
from covary.benchmarks.layers import SETTINGS, Setting, build_factored_passes, build_passes, measure_layers
from covary.benchmarks.measure import Memory, Workload
from covary.layers import FactoredDense
from covary.models import Model
from covary.networks import relaxed_network

KEYS = {"workload", "probes", "seconds", "ratio", "reach", "peak_mb"}
SHAPES = (((2, 4, 4), (3, 2, 2)), ((3, 2, 2), (2, 4, 4)))
SMALL = (
    Setting("f-fc+conv", 1, 6, 4, {"hyper step, one probe": 5, "hyper step, exact": 14}, 1536),
    Setting("f-fc+conv+gconv", 1, 3, 3, {"hyper step, one probe": 4}),
)


def small_workload(setting):
    """A workload of one layer on images of 2 × 2 pixels."""
    generator = torch.Generator().manual_seed(0)
    network = nn.Sequential(FactoredDense((3, 2, 2), (5, 1, 1), generator=generator), nn.Flatten())
    x = torch.randn(setting.num_data, 3, 2, 2, generator=generator)
    y = torch.arange(setting.num_data) % 5
    return Workload(Model(network), x, y, setting.batch_size)


@pytest.fixture
def rows(monkeypatch):
    memory = {"training": Memory(10.0, 3.0)}
    monkeypatch.setattr(module, "peak_memory", lambda build, name: memory.get(name, Memory(12.0, 5.0)))
    monkeypatch.setattr(module, "_workload", small_workload)
    monkeypatch.setattr(module, "SETTINGS", SMALL)
    monkeypatch.setattr(module, "FACTORED", SHAPES)
    return measure_layers(1, lambda message, done: None)


def test_rows_carry_time_memory_bias_and_bar(rows):
    assert all(row.keys() >= KEYS for row in rows)
    assert [row["probes"] for row in rows] == [None, 1, "exact", None, 1, None, None]
    assert [row["reach"] for row in rows] == [None, 5, 14, None, 4, None, 1.5]
    assert [row["growth_mb"] for row in rows if "growth_mb" in row] == [0.0, 2.0, 2.0, 0.0, 2.0]
    assert [row.get("growth_reach_mb") for row in rows] == [None, 1536, None, None, None, None, None]
    assert all(("logdet_bias" in row) == (row["probes"] == 1) for row in rows)
    assert all(-1 < row["logdet_bias"] < 1 for row in rows if row["probes"] == 1)
    assert [row["ratio"] for row in rows if row["pass"] in ("training", "by hand")] == [1.0, 1.0, 1.0]


def test_shapes_by_hand_are_those_of_the_network():
    network = relaxed_network("f-fc", 10, module.IMAGE, 10, generator=torch.Generator())
    paths = [block.paths["f-fc"] for block in network.blocks]
    assert tuple((path.read.in_shape, path.write.out_shape) for path in paths) == module.FACTORED


def test_both_ways_of_a_factored_layer_give_the_same_gradients():
    passes = build_factored_passes(SHAPES, 5)
    for ours, theirs in zip(passes["FactoredDense"](), passes["by hand"](), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_hyper_steps_are_of_the_data_that_are_trained_on():
    passes = build_passes(SETTINGS[0]._replace(alpha=1, num_data=4, batch_size=2))
    passes["training"]()
    assert passes["hyper step, one probe"]().terms.num_data == 4


def test_every_network_of_the_issue_is_measured():
    assert {(setting.variant, setting.alpha, setting.num_data) for setting in SETTINGS} == {
        ("conv", 10, 256),
        ("f-fc+conv", 10, 256),
        ("f-fc+conv", 10, 2000),
        ("f-fc+conv+gconv", 2, 256),
    }
    assert all(setting.num_data % setting.batch_size == 0 for setting in SETTINGS)
