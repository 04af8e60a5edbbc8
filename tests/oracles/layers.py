"""Layers by the dense matrix that they induce, entry by entry, from torch alone."""

import math

import torch
from torch import Tensor, nn


def factored_map(theta_1: Tensor, theta_2: Tensor) -> Tensor:
    """The matrix (C'X', CX) of an F-FC layer, from θ₁ (C', C, X') and θ₂ (C', C, X)."""
    return torch.einsum("ocq,ocp->oqcp", theta_1, theta_2).flatten(2).flatten(0, 1)


def factored_offset(theta_1: Tensor, bias_2: Tensor, bias_1: Tensor) -> Tensor:
    """What an F-FC layer adds, (C'X',): the inner bias seen through θ₁ (C', C, X'), and the outer one."""
    offset = torch.zeros(theta_1.shape[0], theta_1.shape[2])
    for o in range(theta_1.shape[0]):
        for q in range(theta_1.shape[2]):
            offset[o, q] = bias_1[q] + sum(theta_1[o, c, q] * bias_2[o] for c in range(theta_1.shape[1]))
    return offset.flatten()


def circular_map(filters: Tensor, height: int, width: int) -> Tensor:
    """The matrix (C'HW, CHW) of a convolution with circular padding, from its filters (C', C, k, k)."""
    out_channels, in_channels, size, _ = filters.shape
    reach = (size - 1) // 2
    matrix = torch.zeros(out_channels, height, width, in_channels, height, width)
    for row in range(height):
        for column in range(width):
            for i in range(size):
                for j in range(size):
                    source = ((row + i - reach) % height, (column + j - reach) % width)
                    matrix[:, row, column, :, source[0], source[1]] += filters[:, :, i, j]
    return matrix.flatten(3).flatten(0, 2)


def bumps(anchors: Tensor, omega: float, height: int, width: int) -> Tensor:
    """The basis exp(−ω²‖x − z‖²) on a centered grid of pixels, (M, HW), one number after the other."""
    rows = []
    for z in anchors.tolist():
        for i in range(height):
            for j in range(width):
                distance = (i - (height - 1) / 2 - z[0]) ** 2 + (j - (width - 1) / 2 - z[1]) ** 2
                rows.append(math.exp(-(omega**2) * distance))
    return torch.tensor(rows).view(len(anchors), height * width)


def parameter_gradients(module: nn.Module, x: Tensor, gradient: Tensor) -> dict[str, Tensor]:
    """The gradient of ⟨gradient, module(x)⟩ by each parameter, summed over samples, one row per datum: (N, P).

    Inputs and output gradients have a sample axis, (N, S, ...).
    """
    rows: dict[str, list[Tensor]] = {name: [] for name, _ in module.named_parameters()}
    for inputs, outputs in zip(x, gradient, strict=True):
        total = (module(inputs) * outputs).sum()
        found = torch.autograd.grad(total, list(module.parameters()))
        for name, row in zip(rows, found, strict=True):
            rows[name].append(row.flatten())
    return {name: torch.stack(found) for name, found in rows.items()}
