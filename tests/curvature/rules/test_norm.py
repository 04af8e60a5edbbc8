import pytest
import torch
from torch import nn

from covary.layers import Bias, Scale
from curvature.rules.rule_checks import check_rule

LAYERS = {
    "layer norm": (lambda: nn.LayerNorm(4), (3, 4)),
    "layer norm of two axes": (lambda: nn.LayerNorm((3, 4)), (2, 3, 4)),
    "rms norm": (lambda: nn.RMSNorm(4), (3, 4)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (4, 3, 3)),
    "batch norm": (lambda: nn.BatchNorm1d(4).eval(), (4,)),
    "batch norm of images": (lambda: nn.BatchNorm2d(4).eval(), (4, 3, 3)),
    "scale": (Scale, (2, 3)),
    "bias": (Bias, (2, 3)),
}


@pytest.mark.parametrize(("build", "shape"), LAYERS.values(), ids=list(LAYERS))
def test_scales_and_shifts(build, shape, generator):
    module = build()
    for name, buffer in module.named_buffers():
        if name.startswith("running"):  # statistics other than 0 and 1
            buffer.copy_(torch.rand(buffer.shape, generator=generator) + 0.5)
    check_rule(module, torch.randn(2, 3, *shape, generator=generator), generator)
