"""Networks of about 2,000 weights on digits of 7×7 pixels, trained for a moment, for estimates of curvature."""

import torch
from torch import Tensor, nn

from covary.data import load
from covary.networks import mlp


def digits(num_data: int) -> tuple[Tensor, Tensor]:
    data = load("mnist-mini")
    x = nn.functional.avg_pool2d(data.x_train[:num_data].double(), 4)
    return x, data.y_train[:num_data]


def trained(num_data: int, num_hidden: int = 33, activation: type[nn.Module] = nn.ReLU) -> tuple:
    """49·33 + 33 + 33·10 + 10 = 1,990 weights by default, after 60 steps of Adam."""
    x, y = digits(num_data)
    network = mlp(49, num_hidden, 10, activation=activation, generator=torch.Generator().manual_seed(0))
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    return network, (x, y)
