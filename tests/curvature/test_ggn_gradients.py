"""Gradients of each curvature's log-determinant with respect to whatever the network depends on."""

import pytest
import torch
from torch import Tensor, nn

import covary
from cases import CASES, NUM_OUTPUTS, targets
from covary.curvature import diag, full, kfac, tkfac

CURVATURES = {"full": full, "diag": diag, "kfac": kfac, "tkfac": tkfac}
STEP = 1e-6


def central_difference(function, value: float) -> float:
    with torch.no_grad():
        up, down = function(torch.tensor(value + STEP)), function(torch.tensor(value - STEP))
    return float(up - down) / (2 * STEP)


def assert_gradient(function, value: float) -> None:
    parameter = torch.tensor(value, requires_grad=True)
    (gradient,) = torch.autograd.grad(function(parameter), parameter)
    expected = central_difference(function, value)
    assert abs(expected) > 1e-4, "the test needs a gradient to see"
    assert float(gradient) == pytest.approx(expected, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize(
    "case", ["linear", "conv2d", "conv transpose", "layer norm", "residual, tied module", "encoder layer"]
)
def test_gradient_with_respect_to_a_turn_of_the_input(case, curvature):
    network, x = CASES[case].make(3)
    y = targets("categorical", 3)
    half = x.shape[-1] // 2

    def logdet(angle: Tensor) -> Tensor:
        a, b = x[..., :half], x[..., half : 2 * half]
        turned = [a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos(), x[..., 2 * half :]]
        return CURVATURES[curvature](network, (torch.cat(turned, -1), y)).logdet(0.5)

    assert_gradient(logdet, 0.4)


class Sharpened(nn.Module):
    """A layer with a hyperparameter of its own, the slope of its activation."""

    hyperparameters = ("slope",)

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 5), nn.Linear(5, NUM_OUTPUTS)
        self.slope = nn.Parameter(torch.tensor(0.8))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.slope * self.first(x)))


@pytest.mark.parametrize("curvature", CURVATURES)
def test_gradient_with_respect_to_a_hyperparameter_of_a_layer(curvature):
    torch.manual_seed(0)
    network = Sharpened()
    x, y = torch.randn(4, 4), targets("categorical", 4)

    def logdet() -> Tensor:
        return CURVATURES[curvature](network, (x, y)).logdet(0.5)

    (gradient,) = torch.autograd.grad(logdet(), network.slope)
    values = []
    for step in (STEP, -STEP):
        with torch.no_grad():
            network.slope.add_(step)
            values.append(logdet())
            network.slope.sub_(step)
    assert float(gradient) == pytest.approx(float(values[0] - values[1]) / (2 * STEP), rel=1e-6)


@pytest.mark.parametrize("curvature", CURVATURES)
def test_gradient_with_respect_to_the_widths_of_an_augmentation(curvature):
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, NUM_OUTPUTS))
    augment = covary.augment.Rotation2d(initial_width=0.7)
    network = covary.Averaged(inner, augment, 4)
    x, y = torch.randn(5, 2), targets("categorical", 5)

    def logdet() -> Tensor:
        return CURVATURES[curvature](network, (x, y)).logdet(0.5)

    (raw,) = augment.parameters()
    (gradient,) = torch.autograd.grad(logdet(), raw)
    values = []
    for step in (STEP, -STEP):
        with torch.no_grad():
            raw.add_(step)
            values.append(logdet())
            raw.sub_(step)
    assert float(gradient) == pytest.approx(float(values[0] - values[1]) / (2 * STEP), rel=1e-6)


@pytest.mark.parametrize(("likelihood", "name"), [
    (covary.Gaussian(0.6), "log_sigma_noise"),
    (covary.Categorical(temperature=1.3, learn_temperature=True), "log_temperature"),
])  # fmt: skip
def test_gradient_with_respect_to_noise_and_temperature(likelihood, name):
    network, x = CASES["linear"].make(4)
    y = targets("gaussian" if name == "log_sigma_noise" else "categorical", 4)
    parameter = getattr(likelihood, name)
    (gradient,) = torch.autograd.grad(kfac(covary.Model(network, likelihood), (x, y)).logdet(0.5), parameter)
    values = []
    for step in (STEP, -STEP):
        with torch.no_grad():
            parameter.add_(step)
            values.append(kfac(covary.Model(network, likelihood), (x, y)).logdet(0.5))
            parameter.sub_(step)
    assert float(gradient) == pytest.approx(float(values[0] - values[1]) / (2 * STEP), rel=1e-6)


def test_attention_of_the_users_own_has_a_second_derivative():
    """The fused kernel has none: the pass must run with one that has, and only when it is needed."""

    class Mixing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.head = nn.Linear(4, 4), nn.Linear(4, NUM_OUTPUTS)

        def forward(self, x: Tensor) -> Tensor:
            q = self.query(x).unsqueeze(1)
            return self.head(nn.functional.scaled_dot_product_attention(q, q, q).squeeze(1).mean(1))

    torch.manual_seed(0)
    network, x, y = Mixing(), torch.randn(3, 5, 4), targets("categorical", 3)
    assert_gradient(lambda scale: kfac(network, (x * scale, y)).logdet(0.5), 1.1)
