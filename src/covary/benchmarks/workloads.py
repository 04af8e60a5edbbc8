"""The models that are measured, and the training pass that everything is measured against."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from .. import data
from ..augment import Affine2d
from ..likelihoods import Categorical
from ..models import Model
from ..networks import Averaged, cnn, lenet, mlp
from ..priors import Prior


class Workload(NamedTuple):
    """An averaged network on MNIST images: six affine widths and one prior precision per tensor to learn."""

    network: Averaged
    likelihood: Categorical
    prior: Prior
    x: Tensor
    y: Tensor
    batch_size: int

    @property
    def model(self) -> Model:
        """Network, likelihood and prior as one value."""
        return Model(self.network, self.likelihood, self.prior)


def build_workload(name: str) -> Workload:
    """W1: the MLP of paper 1, 1,000 images, S = 31. W2, W2': its CNN and LeNet, 500 images, S = 11."""
    generator = torch.Generator().manual_seed(0)
    if name == "W1":
        return _averaged(mlp(784, 1000, 10, generator=generator), 1000, 31, 10)
    inner = cnn(generator=generator) if name == "W2" else lenet(generator=generator)
    return _averaged(inner, 500, 11, 10)


def mlp_workload(num_data: int, num_samples: int, num_outputs: int, num_hidden: int) -> Workload:
    """An MLP of any size; labels beyond the ten digits are spread over the outputs by position."""
    generator = torch.Generator().manual_seed(0)
    return _averaged(mlp(784, num_hidden, num_outputs, generator=generator), num_data, num_samples, num_outputs)


def training_pass(workload: Workload) -> None:
    """Forward and backward of the averaged negative log-likelihood over all N × S images."""
    network, num_samples = workload.network, workload.network.num_samples
    weights = list(network.network.parameters())
    for index in torch.arange(len(workload.x)).split(workload.batch_size):
        with torch.no_grad():
            noise = network.augment.sample_noise(index, num_samples, seed=0)
            copies = network.augment.transform(workload.x[index], noise)
        outputs = network.network(copies.flatten(0, 1)).unflatten(0, (-1, num_samples)).mean(1)
        torch.autograd.grad(nn.functional.cross_entropy(outputs, workload.y[index], reduction="sum"), weights)


def _averaged(inner: nn.Module, num_data: int, num_samples: int, num_outputs: int) -> Workload:
    images = data.load("mnist-mini")
    x, y = images.x_train[:num_data], images.y_train[:num_data]
    if num_outputs != 10:
        y = torch.arange(num_data) % num_outputs
    network = Averaged(inner.to(x), Affine2d(initial_width=0.1), num_samples)
    return Workload(network, Categorical(), Prior(network), x, y, num_data)
