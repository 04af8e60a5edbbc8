"""The models that are measured, and the training pass that other passes are compared with."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from .. import data
from ..augment import Affine2d
from ..batches import Batches, as_batches
from ..models import Model
from ..networks import Averaged, cnn, fixup_resnet, lenet, mlp


class Workload(NamedTuple):
    """A model of images: one prior precision per tensor to learn, and six affine widths of an averaged network."""

    model: Model
    x: Tensor
    y: Tensor
    batch_size: int

    @property
    def batches(self) -> Batches:
        """The images and labels in batches."""
        return as_batches((self.x, self.y), self.batch_size)


def build_workload(name: str) -> Workload:
    """W1: the MLP of paper 1, 1,000 images, S = 31. W2, W2': its CNN and LeNet, W4: its ResNet 8-8, 500 images, S = 11.

    W4 has images of CIFAR-10, the others digits.
    """
    generator = torch.Generator().manual_seed(0)
    if name == "W1":
        return _averaged(mlp(784, 1000, 10, generator=generator), 1000, 31)
    if name == "W4":
        inner = fixup_resnet(8, 8, generator=generator)
        for weight in inner.parameters():  # those that start at zero would hide most of the work
            if not bool(weight.any()):
                nn.init.normal_(weight, std=0.05, generator=generator)
        return _averaged(inner, 500, 11, images="cifar-10")
    return _averaged(cnn(generator=generator) if name == "W2" else lenet(generator=generator), 500, 11)


def mlp_workload(num_data: int, num_samples: int, num_outputs: int, num_hidden: int) -> Workload:
    """An MLP of any size; labels beyond the ten digits are spread over the outputs by position."""
    generator = torch.Generator().manual_seed(0)
    return _averaged(mlp(784, num_hidden, num_outputs, generator=generator), num_data, num_samples, num_outputs)


def training_pass(workload: Workload) -> None:
    """Run forward and backward of the negative log-likelihood over all N images, or N × S of an averaged network."""
    weights = list(workload.model.weights.values())
    for index in torch.arange(len(workload.x)).split(workload.batch_size):
        outputs = _outputs(workload.model.network, workload.x[index], index)
        torch.autograd.grad(nn.functional.cross_entropy(outputs, workload.y[index], reduction="sum"), weights)


def _outputs(network: nn.Module, x: Tensor, index: Tensor) -> Tensor:
    """Outputs, without a graph of the augmentation."""
    if not isinstance(network, Averaged):
        outputs: Tensor = network(x)
        return outputs
    with torch.no_grad():
        noise = network.augment.sample_noise(index, network.num_samples, seed=0)
        samples = network.augment.transform(x, noise)
    return network.network(samples.flatten(0, 1)).unflatten(0, (-1, network.num_samples)).mean(1)


def labeled_images(num_data: int, num_outputs: int, name: str = "mnist-mini") -> tuple[Tensor, Tensor]:
    """Images of a data set and their labels, or labels by position for other numbers of outputs than its ten."""
    images = data.load(name)
    y = images.y_train[:num_data] if num_outputs == 10 else torch.arange(num_data) % num_outputs
    return images.x_train[:num_data], y


def _averaged(
    inner: nn.Module, num_data: int, num_samples: int, num_outputs: int = 10, images: str = "mnist-mini"
) -> Workload:
    x, y = labeled_images(num_data, num_outputs, images)
    network = Averaged(inner.to(x), Affine2d(initial_width=0.1), num_samples)
    return Workload(Model(network), x, y, num_data)
