"""The coverage table, and errors for layers that are not covered."""

import warnings

import pytest
import torch
from torch import nn

import covary
from cases import CASES, NUM_OUTPUTS, targets
from covary._text import warn_once
from covary.curvature import coverage, diag, full, kfac
from covary.errors import UnsupportedLayerError
from covary.linalg import Diagonal
from oracles.curvature import ggn, loss_of

LABELS = torch.tensor([0, 1])


def test_the_table_names_every_weight_and_its_structure():
    network, _ = CASES["tied embedding"].make(1)
    table = coverage(network)
    assert [(row.name, row.structure) for row in table.rows] == [
        ("embedding.weight", "dense"),
        ("output.bias", "dense"),
    ]
    assert "Embedding + Linear" in str(table)
    assert not table.by_autograd
    assert not table.cost


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


def test_a_parameter_without_rule_is_covered_by_autograd_with_one_warning():
    network = nn.Sequential(nn.Linear(4, 4), nn.PReLU(), nn.Linear(4, 2))
    table = coverage(network)
    assert [row.name for row in table.by_autograd] == ["1.weight"]
    assert str(table).splitlines()[3].split() == ["1.weight", "1", "PReLU", "dense", "autograd"]
    assert str(table).endswith(table.cost)
    warn_once.cache_clear()
    cost = r"autograd \(1 of 5\).*second forward and backward.* 1 numbers per datum"
    with pytest.warns(UserWarning, match=cost) as told:
        kfac(network, (torch.randn(2, 4), LABELS))
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the second time it says nothing
        kfac(network, (torch.randn(2, 4), LABELS))


def test_a_large_parameter_without_rule_has_a_diagonal_block():
    network = nn.Sequential(nn.Bilinear(50, 50, 2)).float()
    network[0].forward = lambda x: nn.functional.bilinear(x, x, network[0].weight, network[0].bias)
    x = torch.randn(3, 50).float()
    assert [row.structure for row in coverage(network).rows] == ["diagonal", "dense"]
    block = kfac(network, (x, torch.tensor([0, 1, 1])))["0.weight"]
    torch.testing.assert_close(block.diagonal(), diag(network, (x, torch.tensor([0, 1, 1])))["0.weight"].diagonal())


def test_a_frozen_parameter_needs_no_rule():
    network = nn.Sequential(nn.Linear(4, 4), nn.PReLU(), nn.Linear(4, 2))
    network[1].requires_grad_(False)
    blocks = kfac(network, (torch.randn(2, 4), LABELS))
    assert "1.weight" not in blocks.blocks


def test_point_weights_need_no_rule():
    network = nn.Sequential(nn.Linear(4, 4), nn.PReLU(), nn.Linear(4, 2))
    names = covary.Prior(network, point="1.*").names
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


def test_dropout_inside_a_layer_is_refused_in_training_mode():
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(4, 2, num_layers=2, dropout=0.5, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x)[0][:, -1]

    network, data = Last(), (torch.randn(2, 3, 4), LABELS)
    with pytest.raises(UnsupportedLayerError, match=r"Module 'layer' \(LSTM\) draws from the global random state"):
        kfac(network, data)
    kfac(network.eval(), data)
    attention = nn.Sequential(nn.TransformerEncoderLayer(4, 2, 4, dropout=0.1, batch_first=True), nn.Flatten())
    with pytest.raises(UnsupportedLayerError, match=r"\(MultiheadAttention\) draws from the global random state"):
        kfac(attention, data)


def test_a_module_can_be_marked_for_autograd_with_all_inside_it():
    network, _ = CASES["encoder layer"].make(1)
    network[0].self_attn.by_autograd = True
    rules = {row.name: row.by_autograd for row in coverage(network).rows}
    assert {name for name, marked in rules.items() if marked} == {n for n in rules if n.startswith("0.self_attn.")}
    network.by_autograd = True
    assert len(coverage(network).by_autograd) == len(rules)


def test_a_subclass_with_its_own_forward_has_no_rule():
    class Doubled(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(input)

    network = nn.Sequential(Doubled(4, NUM_OUTPUTS))
    assert all(row.by_autograd for row in coverage(network).rows)
    x, y = torch.randn(2, 4), LABELS
    torch.testing.assert_close(full(network, (x, y)).to_dense(), ggn(network, x, loss_of("categorical", y)))
