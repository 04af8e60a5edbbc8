import pytest
import torch
from torch import nn

from curvature.rules.rule_checks import check_rule

CONVS = {
    "1d": (nn.Conv1d(2, 3, 3, padding=1), (2, 6)),
    "2d": (nn.Conv2d(2, 3, 3), (2, 5, 6)),
    "3d": (nn.Conv3d(2, 3, (2, 3, 1)), (2, 3, 4, 3)),
    "strided": (nn.Conv2d(2, 3, 3, stride=(2, 3), padding=1), (2, 6, 7)),
    "dilated": (nn.Conv3d(2, 2, 2, dilation=2), (2, 4, 5, 4)),
    "grouped": (nn.Conv2d(4, 6, 3, groups=2, bias=False), (4, 5, 5)),
    "same": (nn.Conv2d(2, 3, 4, padding="same"), (2, 5, 5)),
    "circular": (nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), (2, 5, 5)),
    "reflected": (nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), (2, 5, 5)),
}
TRANSPOSED = {
    "1d": (nn.ConvTranspose1d(2, 3, 3, stride=2), (2, 4)),
    "2d": (nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1, output_padding=1), (2, 3, 4)),
    "3d": (nn.ConvTranspose3d(2, 2, 2, dilation=2), (2, 2, 3, 2)),
    "grouped": (nn.ConvTranspose2d(4, 6, 3, groups=2, bias=False), (4, 3, 3)),
}


@pytest.mark.parametrize(("module", "shape"), CONVS.values(), ids=list(CONVS))
def test_convolutions(module, shape, generator):
    check_rule(module.double(), torch.randn(2, 3, *shape, generator=generator), generator)


@pytest.mark.parametrize(("module", "shape"), TRANSPOSED.values(), ids=list(TRANSPOSED))
def test_transposed_convolutions(module, shape, generator):
    check_rule(module.double(), torch.randn(2, 3, *shape, generator=generator), generator)
