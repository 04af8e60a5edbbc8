"""The diagonal curvature against the diagonal of the brute-force GGN."""

import pytest
import torch

from cases import CASES, targets
from covary.curvature import capture, diag
from oracles.curvature import ggn, loss_of


@pytest.mark.parametrize("case", CASES)
def test_diag_is_the_diagonal_of_the_full_ggn(case):
    network, x = CASES[case].make(4)
    y = targets("categorical", 4)
    ours = diag(network, (x, y)).diagonal()
    oracle = ggn(network, x, loss_of("categorical", y)).diagonal()
    torch.testing.assert_close(ours, oracle, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", ["conv2d", "tied embedding", "folded batch", "cross attention"])
def test_diag_does_not_depend_on_how_the_data_are_cut(case, monkeypatch):
    network, x = CASES[case].make(5)
    y = targets("categorical", 5)
    whole = diag(network, (x, y)).diagonal()
    monkeypatch.setattr(capture, "CHUNK_ENTRIES", 1)
    one_by_one = diag(network, (x, y)).diagonal()
    torch.testing.assert_close(one_by_one, whole, rtol=1e-12, atol=1e-14)
