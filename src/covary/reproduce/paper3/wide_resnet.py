"""Wide residual networks with batch normalization, as paper 3 trains them on CIFAR (App. E.2).

The statistics of batch normalization make the output of a datum depend on the others while it is trained. Hessians are
those of the network in evaluation mode, where it is a fixed affine map.
"""

import re

import torch
from torch import Tensor, nn

from ...errors import StructureError

_NAME = re.compile(r"wide-resnet-(\d+)-(\d+)")


class WideBlock(nn.Module):
    """Two 3×3 convolutions, each after normalization and ReLU, added to their input.

    Arguments:
        num_in: Channels of the input.
        num_out: Channels of the output.
        stride: The stride of the first convolution.
    """

    def __init__(self, num_in: int, num_out: int, stride: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(num_in), nn.BatchNorm2d(num_out)
        self.conv1 = nn.Conv2d(num_in, num_out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(num_out, num_out, 3, 1, 1, bias=False)
        same = num_in == num_out and stride == 1
        self.shortcut = None if same else nn.Conv2d(num_in, num_out, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The features of the block."""
        before = torch.relu(self.norm1(x))
        skipped = x if self.shortcut is None else self.shortcut(before)
        out: Tensor = skipped + self.conv2(torch.relu(self.norm2(self.conv1(before))))
        return out


def wide_resnet(name: str, num_channels: int, num_outputs: int, seed: int) -> nn.Module:
    """The wide residual network of a name such as "wide-resnet-16-4".

    Arguments:
        name: Depth 6n + 4 and width k: three groups of n blocks with 16k, 32k and 64k channels.
        seed: The seed of the initial weights, normal with variance 2 / (9 × output channels) in convolutions.
    """
    match = _NAME.fullmatch(name)
    if match is None or int(match[1]) < 10 or (int(match[1]) - 4) % 6 or int(match[2]) < 1:
        raise StructureError(f"Expected a name such as 'wide-resnet-10-1' (depth 6n + 4 and width), got '{name}'.")
    num_blocks, width = (int(match[1]) - 4) // 6, int(match[2])
    layers: list[nn.Module] = [nn.Conv2d(num_channels, 16, 3, 1, 1, bias=False)]
    before = 16
    for group, channels in enumerate((16 * width, 32 * width, 64 * width)):
        for block in range(num_blocks):
            layers.append(WideBlock(before, channels, 2 if group and not block else 1))
            before = channels
    layers += [nn.BatchNorm2d(before), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    network = nn.Sequential(*layers, nn.Linear(before, num_outputs))
    _initialize(network, torch.Generator().manual_seed(seed))
    return network


@torch.no_grad()
def _initialize(network: nn.Module, generator: torch.Generator) -> None:
    """Draw the weights; biases and shifts start at zero, scales at one."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            deviation = (2 / (module.kernel_size[0] * module.kernel_size[1] * module.out_channels)) ** 0.5
            module.weight.normal_(0.0, deviation, generator=generator)
        elif isinstance(module, nn.Linear):
            module.weight.normal_(0.0, module.in_features**-0.5, generator=generator)
            module.bias.zero_()
