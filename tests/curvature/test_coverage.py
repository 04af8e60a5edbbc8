"""The coverage table, and errors for layers that are not covered."""

import pytest
import torch
from torch import nn

import covary
from cases import CASES, NUM_OUTPUTS, targets
from covary.curvature import coverage, kfac
from covary.errors import UnsupportedLayerError
from covary.linalg import Diagonal

LABELS = torch.tensor([0, 1])


def test_the_table_names_every_weight_and_its_structure():
    network, _ = CASES["tied embedding"].make(1)
    table = coverage(network)
    assert [(row.name, row.structure) for row in table.rows] == [
        ("embedding.weight", "dense"),
        ("output.bias", "dense"),
    ]
    assert "Embedding + Linear" in str(table)
    assert not table.uncovered


@pytest.mark.parametrize("case", CASES)
def test_the_table_agrees_with_the_blocks(case):
    network, x = CASES[case].make(3)
    blocks = kfac(network, (x, targets("categorical", 3)))
    types = {"kron": "Kron", "dense": "Dense", "diagonal": "Diagonal"}
    for row in coverage(network).rows:
        uncalled = isinstance(blocks[row.name], Diagonal) and blocks[row.name].trace() == 0
        assert uncalled or type(blocks[row.name]).__name__ == types[row.structure]


def test_large_exact_blocks_are_diagonal():
    network = nn.Sequential(nn.LayerNorm((50, 50)), nn.Flatten(), nn.Linear(2500, 2))
    structures = {row.name: row.structure for row in coverage(network).rows}
    assert structures["0.weight"] == "diagonal"
    block = kfac(network, (torch.randn(2, 50, 50), LABELS))["0.weight"]
    assert type(block).__name__ == "Diagonal"


def test_a_parameter_without_rule_is_refused():
    network = nn.Sequential(nn.Linear(4, 4), nn.PReLU(), nn.Linear(4, 2))
    assert [row.name for row in coverage(network).uncovered] == ["1.weight"]
    with pytest.raises(UnsupportedLayerError, match=r"'1.weight' of module '1' \(PReLU\).*register_rule.*exclude"):
        kfac(network, (torch.randn(2, 4), LABELS))


def test_a_frozen_parameter_needs_no_rule():
    network = nn.Sequential(nn.Linear(4, 4), nn.PReLU(), nn.Linear(4, 2))
    network[1].requires_grad_(False)
    blocks = kfac(network, (torch.randn(2, 4), LABELS))
    assert "1.weight" not in blocks.blocks


def test_excluded_weights_need_no_rule():
    network = nn.Sequential(nn.Linear(4, 4), nn.PReLU(), nn.Linear(4, 2))
    names = covary.Prior(network, exclude="1.*").names
    blocks = kfac(covary.Model(network).restricted(names), (torch.randn(2, 4), LABELS))
    assert list(blocks.blocks) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_an_unknown_weight_is_refused():
    with pytest.raises(UnsupportedLayerError, match="got 'w'.*weight, bias"):
        coverage(nn.Linear(4, 2), ["w"])


def test_batch_norm_in_training_mode_is_refused():
    network = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    with pytest.raises(UnsupportedLayerError, match=r"Module '1' \(BatchNorm1d\) uses statistics"):
        kfac(network, (torch.randn(2, 4), LABELS))
    kfac(network.eval(), (torch.randn(2, 4), LABELS))


def test_dropout_in_training_mode_is_refused():
    network = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    with pytest.raises(UnsupportedLayerError, match=r"Module '1' \(Dropout\) draws from the global random state"):
        kfac(network, (torch.randn(2, 4), LABELS))
    kfac(network.eval(), (torch.randn(2, 4), LABELS))


def test_a_subclass_with_its_own_forward_has_no_rule():
    class Doubled(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(input)

    with pytest.raises(UnsupportedLayerError, match="Doubled"):
        kfac(nn.Sequential(Doubled(4, NUM_OUTPUTS)), (torch.randn(2, 4), LABELS))
