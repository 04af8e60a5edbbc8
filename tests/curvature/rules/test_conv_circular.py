"""Factors of circular convolutions by few products: the same as from all patches."""

import itertools

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from covary.curvature import Curvature, kfac
from covary.curvature.ggn import ggn
from covary.curvature.rules import conv
from covary.curvature.rules.conv import circular_gram
from covary.groups import P4
from covary.layers import Conv, GroupConv

EXACT = {"rtol": 1e-12, "atol": 1e-12}


def images(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def gram_of_patches(features: Tensor, kernel_size: tuple[int, int]) -> Tensor:
    """Every patch, pixel by pixel, one block after the other."""
    height, width = features.shape[3:]
    offsets = list(itertools.product(*map(range, kernel_size)))
    patches = [
        features[:, :, :, [(row + i) % height for i, _ in offsets], [(column + j) % width for _, j in offsets]]
        for row, column in itertools.product(range(height), range(width))
    ]
    return sum(torch.einsum("nqi,nqj->qij", patch.flatten(2), patch.flatten(2)) for patch in patches)


@pytest.mark.parametrize("kernel_size", [(3, 3), (2, 2), (1, 3), (4, 1), (5, 3)], ids=str)
@pytest.mark.parametrize("space", [(5, 6), (2, 2), (1, 3), (1, 1)], ids=str)
def test_products_are_those_of_all_patches(kernel_size: tuple[int, int], space: tuple[int, int]) -> None:
    features = images(3, 2, 2, *space)
    torch.testing.assert_close(circular_gram(features, kernel_size), gram_of_patches(features, kernel_size), **EXACT)


def test_patches_with_zero_padding_have_other_products() -> None:
    features = images(3, 1, 2, 5, 5)
    rows = functional.unfold(functional.pad(features[:, 0], (1, 1, 1, 1)), 3).transpose(1, 2).flatten(0, 1)
    assert not torch.allclose(circular_gram(features, (3, 3))[0], rows.T @ rows, rtol=0.05)


def test_products_are_differentiable() -> None:
    features = images(2, 1, 2, 3, 3).requires_grad_()
    weights = images(1, 18, 18)
    slopes = [
        torch.autograd.grad((weights * function(features, (3, 3))).sum(), features)[0]
        for function in (circular_gram, gram_of_patches)
    ]
    torch.testing.assert_close(*slopes, **EXACT)


def grouped(**options: object) -> nn.Conv2d:
    return nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular", groups=2, **options)


SHORT = {
    "conv": lambda: Conv(4, 3),
    "even": lambda: Conv(4, 3, 2),
    "grouped": grouped,
    "full": lambda: GroupConv(1, 2, group=P4),
    "separable": lambda: GroupConv(1, 2, group=P4, factorization="separable"),
    "pointwise": lambda: GroupConv(1, 2, group=P4, factorization="pointwise"),
}
LONG = {
    "stride": lambda: grouped(stride=2),
    "dilation": lambda: nn.Conv2d(4, 6, 3, padding=2, dilation=2, padding_mode="circular"),
    "wide": lambda: nn.Conv2d(4, 6, 3, padding=2, padding_mode="circular"),
    "zeros": lambda: nn.Conv2d(4, 6, 3, padding=1),
    "one pixel": lambda: Conv(4, 3, 1),
    "one axis": lambda: nn.Sequential(nn.Flatten(2), nn.Conv1d(4, 6, 3, padding=1, padding_mode="circular")),
}


@pytest.mark.parametrize("options", [{}, {"group_approx": "expand"}, {"structure": "kron-shared"}], ids=str)
@pytest.mark.parametrize("name", [*SHORT, *LONG])
def test_the_shortcut_gives_the_same_factors(name: str, options: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    network = nn.Sequential((SHORT | LONG)[name](), nn.Tanh(), nn.Flatten(), nn.LazyLinear(2))
    batch = images(5, 4, 4, 4), torch.zeros(5, dtype=torch.long)
    network(batch[0])
    calls = []
    original = conv.circular_gram
    monkeypatch.setattr(conv, "circular_gram", lambda *given: calls.append(given) or original(*given))
    with torch.no_grad():
        short = ggn(network, batch, Curvature(**options))
        assert bool(calls) == (name in SHORT)
        monkeypatch.setattr(
            "covary.curvature.jacobian_factors.OuterFactors.input_shortcut", lambda self, *, merge=True: None
        )
        long = ggn(network, batch, Curvature(**options))
    for block in short.blocks:
        for ours, theirs in zip(short.tensors[block], long.tensors[block], strict=True):
            torch.testing.assert_close(ours, theirs, **EXACT)
        torch.testing.assert_close(short[block].logdet(1.0), long[block].logdet(1.0))


def test_few_data_keep_their_rows() -> None:
    """With fewer rows than entries of a patch the rows are faster."""
    torch.manual_seed(0)
    network = nn.Sequential(Conv(4, 3), nn.Flatten(), nn.Linear(12, 2))
    with torch.no_grad():
        block = kfac(network, (images(2, 4, 2, 2), torch.zeros(2, dtype=torch.long)))["0.weight"]
    assert block.grams[0].rows.shape == (1, 8, 36)
    dense = block.to_dense() + torch.eye(block.size)
    torch.testing.assert_close(block.logdet(1.0), torch.linalg.slogdet(dense).logabsdet)
