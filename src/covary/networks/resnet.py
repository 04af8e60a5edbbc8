"""Residual networks without normalization, kept stable by their initial weights (Fixup)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import ShapeError
from ..layers import Bias, Scale
from .recipes import recorded


@recorded
def fixup_resnet(
    depth: int,
    width: int,
    num_channels: int = 3,
    num_outputs: int = 10,
    *,
    generator: torch.Generator | None = None,
) -> nn.Sequential:
    """Fixup residual network, (N, c, H, W) -> (N, C), for images of any size; paper 1 has `fixup_resnet(8, 16)`.

    Three stages of n blocks with w, 2w and 4w channels, the last two at half and a quarter of the resolution. The
    last convolution of each block and the classifier are initially 0, and so are the outputs; the first convolution of
    each of the 3n blocks is scaled by (3n)^-½.

    Arguments:
        depth: The number of layers, 6n + 2: 8, 14, 20 and so on.
        width: The number of channels w of the first stage.
        num_channels: The number of channels c of the images.
        num_outputs: The number of outputs C.
        generator: The source of the initial weights; None uses torch's global seed.

    Example:
        >>> import torch
        >>> from covary.networks import fixup_resnet
        >>> fixup_resnet(depth=8, width=16)(torch.rand(1, 3, 32, 32)).abs().max().item()
        0.0
    """
    if depth < 8 or depth % 6 != 2 or width < 1:
        raise ShapeError(
            "Expected a depth of 6n + 2 (8, 14, 20 and so on) and a width of 1 or more, got depth "
            f"{depth} and width {width}."
        )
    per_stage = (depth - 2) // 6
    stem = nn.Conv2d(num_channels, width, 3, padding=1, bias=False)
    _draw(stem, 1.0, generator)
    layers: list[nn.Module] = [stem, Bias(), nn.ReLU()]
    fan_in = width
    for stage in range(3):
        for block in range(per_stage):
            fan_out, stride = width * 2**stage, 2 if stage and not block else 1
            layer = FixupBlock(fan_in, fan_out, stride)
            _draw(layer.first, (3 * per_stage) ** -0.5, generator)
            layers.append(layer)
            fan_in = fan_out
    classifier = nn.Linear(fan_in, num_outputs)
    nn.init.zeros_(classifier.weight)
    nn.init.zeros_(classifier.bias)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), Bias(), classifier)


class FixupBlock(nn.Module):
    r"""Residual block :math:`\mathrm{relu}(s(x) + a\, W_2(\mathrm{relu}(W_1(x + b_1) + b_2) + b_3) + b_4)`.

    The shortcut is :math:`s(x) = x`. A block with a stride also doubles the channels: then s is every second pixel of
    :math:`x + b_1`, with channels of zeros appended.
    """

    def __init__(self, fan_in: int, fan_out: int, stride: int) -> None:
        super().__init__()
        self.bias_1, self.bias_2, self.bias_3, self.bias_4 = Bias(), Bias(), Bias(), Bias()
        self.first = nn.Conv2d(fan_in, fan_out, 3, stride=stride, padding=1, bias=False)
        self.second = nn.Conv2d(fan_out, fan_out, 3, padding=1, bias=False)
        self.scale = Scale()
        self.narrow = nn.AvgPool2d(1, stride=stride) if stride > 1 else None
        nn.init.zeros_(self.second.weight)

    def forward(self, input: Float[Tensor, "N D H W"]) -> Float[Tensor, "N E I J"]:
        """Features after the block."""
        shifted = self.bias_1(input)
        inner = torch.relu(self.bias_2(self.first(shifted)))
        residual = self.bias_4(self.scale(self.second(self.bias_3(inner))))
        if self.narrow is None:
            return torch.relu(input + residual)
        kept = self.narrow(shifted)
        return torch.relu(torch.cat([kept, torch.zeros_like(kept)], dim=1) + residual)


def _draw(layer: nn.Conv2d, factor: float, generator: torch.Generator | None) -> None:
    """Draw normal weights of variance 2 / fan-out, times a factor squared."""
    num_reached = layer.out_channels * math.prod(layer.kernel_size)
    nn.init.normal_(layer.weight, std=factor * math.sqrt(2 / num_reached), generator=generator)
