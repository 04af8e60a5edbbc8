"""Networks of relaxed layers and data for them, small enough for brute force."""

import torch
from torch import Tensor, nn

from covary.layers import Conv, Dense, FactoredDense, PolyphasePool, Relaxed


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def relaxed_pair(channels: int = 2, side: int = 4, num_outputs: int = 2) -> nn.Sequential:
    """Two relaxed layers, one with a dense and one with a factored path, then a linear head."""
    half = side // 2
    first = {
        "fc": Dense((1, side, side), (channels, half, half), generator=generator(1)),
        "conv": Conv(1, channels, generator=generator(2)),
    }
    second = {
        "f-fc": FactoredDense((channels, half, half), (channels, 1, 1), generator=generator(3)),
        "conv": Conv(channels, channels, generator=generator(4)),
    }
    head = nn.Linear(channels, num_outputs)
    nn.init.normal_(head.weight, generator=generator(5))
    nn.init.zeros_(head.bias)
    return nn.Sequential(
        *(Relaxed(first, PolyphasePool(2)), nn.ReLU()),
        *(Relaxed(second, PolyphasePool(half)), nn.ReLU()),
        *(nn.Flatten(), head),
    )


def noise(num_data: int = 6, side: int = 4, num_outputs: int = 2) -> tuple[Tensor, Tensor]:
    x = torch.randn(num_data, 1, side, side, generator=generator(6))
    return x, torch.arange(num_data) % num_outputs


def bars_anywhere(num_data: int, seed: int, side: int = 8) -> tuple[Tensor, Tensor]:
    """Bars that lie or stand, of three pixels at a random place of a torus: a shift changes no label."""
    source = generator(seed)
    x = 0.3 * torch.randn(num_data, 1, side, side, generator=source)
    y = torch.randint(2, (num_data,), generator=source)
    places = torch.randint(side, (num_data, 2), generator=source)
    for image, label, (row, column) in zip(x, y.tolist(), places.tolist(), strict=True):
        bar = torch.zeros(side, side)
        bar[:1, :3] = 1.5
        image[0] += (bar if label else bar.T).roll((row, column), (0, 1))
    return x, y
