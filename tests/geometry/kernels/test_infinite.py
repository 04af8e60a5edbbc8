"""Kernels of infinite networks against numerical integrals, closed cases, random networks, and their own gradients."""

import math

import pytest
import torch
from torch import Tensor

from covary.errors import DataError, ShapeError, StructureError
from covary.geometry import InfiniteNetwork, draw_network, nngp, ntk, standard_ntk
from oracles.kernels import moments, tangent_kernel

NETWORKS = [
    InfiniteNetwork(num_hidden, activation, 1.7, bias)
    for num_hidden in (1, 3)
    for activation in ("relu", "erf")
    for bias in (0.0, 0.4)
]


def inputs(num_data: int = 4, num_features: int = 3, seed: int = 0) -> Tensor:
    return torch.randn(num_data, num_features, generator=torch.Generator().manual_seed(seed))


def by_integrals(network: InfiniteNetwork, x: Tensor) -> tuple[Tensor, Tensor]:
    """NNGP and NTK of two inputs, the moments by numerical integration, the recursion entry by entry."""
    covariance = network.weight_variance * x @ x.T / x.shape[1] + network.bias_variance
    tangent = covariance
    for _ in range(network.num_hidden):
        product, derivative = torch.zeros(2, 2), torch.zeros(2, 2)
        for i, j in [(0, 0), (0, 1), (1, 1)]:
            if i == j:  # a pair (u, u) has no density in the plane; (u, w) with w independent has, and φ of u alone
                product[i, i], derivative[i, i] = single_moments(network.activation, covariance[i, i])
            else:
                found = moments(network.activation, covariance)
                product[i, j], derivative[i, j] = product[j, i], derivative[j, i] = found
        covariance = network.weight_variance * product + network.bias_variance
        tangent = covariance + network.weight_variance * derivative * tangent
    return covariance, tangent


def single_moments(activation: str, variance: Tensor) -> tuple[float, float]:
    """E[φ(u)²] and E[φ'(u)²] by the trapezium rule, which is exact to rounding for smooth functions; ReLU by halves."""
    if activation == "relu":
        return float(variance) / 2, 0.5
    u = torch.linspace(-14, 14, 20001)
    density = torch.exp(-u.square() / 2) / math.sqrt(2 * math.pi) * (u[1] - u[0])
    z = u * variance.sqrt()
    derivative = 2 / math.sqrt(math.pi) * torch.exp(-z.square())
    return float((density * torch.erf(z).square()).sum()), float((density * derivative.square()).sum())


@pytest.mark.parametrize("activation", ["relu", "erf"])
@pytest.mark.parametrize(("num_hidden", "bias"), [(1, 0.0), (1, 0.4), (2, 0.4)])
def test_kernels_are_the_integrals(activation, num_hidden, bias):
    network, x = InfiniteNetwork(num_hidden, activation, 1.7, bias), inputs(2)
    covariance, tangent = by_integrals(network, x)
    torch.testing.assert_close(nngp(network, x), covariance, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(ntk(network, x), tangent, rtol=1e-9, atol=1e-10)


def test_without_hidden_layers_both_are_the_linear_kernel():
    network, x, other = InfiniteNetwork(0, "erf", 1.7, 0.4), inputs(4), inputs(2, seed=1)
    expected = 1.7 * x @ other.T / 3 + 0.4
    torch.testing.assert_close(nngp(network, x, other), expected)
    torch.testing.assert_close(ntk(network, x, other), expected)
    torch.testing.assert_close(standard_ntk(network, 50, x, other), x @ other.T + 1)


def test_relu_without_bias_scales_with_its_inputs():
    network, x = InfiniteNetwork(3, "relu", 1.7), inputs()
    scales = torch.tensor([0.1, 1.0, 2.0, 30.0])
    for kernel in (nngp, ntk):
        scaled = kernel(network, x * scales[:, None])
        torch.testing.assert_close(scaled, kernel(network, x) * torch.outer(scales, scales), rtol=1e-10, atol=0)
        biased = InfiniteNetwork(3, "relu", 1.7, 0.5)
        assert not torch.allclose(
            kernel(biased, x * scales[:, None]), kernel(biased, x) * torch.outer(scales, scales), rtol=0.1
        )


def test_variance_two_keeps_the_scale_of_relu_layers():
    x = inputs()
    size = 2 * x.square().mean(1)
    for depth in (1, 7):
        torch.testing.assert_close(nngp(InfiniteNetwork(depth), x).diagonal(), size)
        torch.testing.assert_close(ntk(InfiniteNetwork(depth), x).diagonal(), (depth + 1) * size)


@pytest.mark.parametrize("network", NETWORKS, ids=str)
@pytest.mark.parametrize("kernel", [nngp, ntk])
def test_blocks_of_one_kernel(network, kernel):
    x = inputs(5)
    whole = kernel(network, x)
    torch.testing.assert_close(kernel(network, x[:2], x[2:]), whole[:2, 2:], rtol=1e-11, atol=0)
    torch.testing.assert_close(whole, whole.T, rtol=0, atol=1e-14)
    assert torch.linalg.eigvalsh(whole).min() > 0


@pytest.mark.parametrize("activation", ["relu", "erf"])
def test_the_tangent_kernel_is_the_mean_over_networks_of_any_width_with_one_hidden_layer(activation, generator):
    """Width 3, 3,000 draws: within four standard errors, where a kernel 20 % larger is not; the standard one too."""
    network, x = InfiniteNetwork(1, activation, 1.7, 0.4), inputs(3)
    by_ntk, by_standard = [], []
    for _ in range(3000):
        weights = draw(network, 3, 3, generator)
        terms = tangent_terms(activation, weights, x)
        by_standard.append(sum(terms))
        by_ntk.append(1.7 / 3 * terms[0] + 0.4 * terms[1] + 1.7 / 3 * terms[2] + 0.4 * terms[3])
    for draws, expected in ((by_ntk, ntk(network, x)), (by_standard, standard_ntk(network, 3, x))):
        mean, error = torch.stack(draws).mean(0), torch.stack(draws).std(0) / math.sqrt(len(draws))
        assert ((mean - expected).abs() < 4 * error).all()
        assert ((mean - 1.2 * expected).abs() > 4 * error).any()


def draw(network: InfiniteNetwork, num_inputs: int, width: int, generator) -> list[Tensor]:
    shapes = [(width, num_inputs), (width,), (width,)]
    first, bias, last = (torch.randn(shape, generator=generator) for shape in shapes)
    return [
        first * math.sqrt(network.weight_variance / num_inputs),
        bias * math.sqrt(network.bias_variance),
        last * math.sqrt(network.weight_variance / width),
    ]


def tangent_terms(activation: str, weights: list[Tensor], x: Tensor) -> list[Tensor]:
    """What each of first weight, first bias, last weight and last bias adds to JJᵀ, by hand."""
    first, bias, last = weights
    u = x @ first.T + bias
    if activation == "relu":
        features, derivatives = u.clamp(min=0), (u > 0).to(u)
    else:
        features, derivatives = torch.erf(u), 2 / math.sqrt(math.pi) * torch.exp(-u.square())
    back = derivatives * last
    return [(back @ back.T) * (x @ x.T), back @ back.T, features @ features.T, torch.ones(len(x), len(x))]


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_gradients_agree_with_central_differences(network):
    def total(kernel, weight_variance, bias_variance, x) -> Tensor:
        varied = InfiniteNetwork(network.num_hidden, network.activation, weight_variance, bias_variance)
        return (kernel(varied, x) * torch.arange(1.0, 17.0).view(4, 4).cos()).sum()

    for kernel in (nngp, ntk):
        start = [torch.tensor(1.7), torch.tensor(network.bias_variance + 0.1), inputs()]
        leaves = [value.clone().requires_grad_() for value in start]
        gradients = torch.autograd.grad(total(kernel, *leaves), leaves)
        for position, gradient in enumerate(gradients):
            direction = torch.randn(gradient.shape, generator=torch.Generator().manual_seed(1))
            sides = []
            for sign in (1, -1):
                moved = list(start)
                moved[position] = start[position] + sign * 1e-5 * direction
                sides.append(total(kernel, *moved))
            torch.testing.assert_close((gradient * direction).sum(), (sides[0] - sides[1]) / 2e-5, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kernel", [nngp, ntk])
def test_parallel_and_vanishing_inputs_have_finite_kernels_and_gradients(kernel):
    x = torch.tensor([[1.0, 2.0], [1.0, 2.0], [-2.0, -4.0], [0.0, 0.0]], requires_grad=True)
    variance = torch.tensor(2.0, requires_grad=True)
    found = kernel(InfiniteNetwork(2, "relu", variance), x)
    gradients = torch.autograd.grad(found.sum(), [x, variance])
    assert all(value.isfinite().all() for value in (found, *gradients))
    assert (found[3] == 0).all()
    # opposite inputs never fire together in the first layer; in the second they are orthogonal, of variances 5 and 20
    torch.testing.assert_close(found[0, 2], torch.tensor(10 / math.pi))


def test_nngp_of_equal_points_keeps_its_derivative():
    """d/dσ² of a point's own variance, σ^{2(L+1)}|x|²/(D·2^L): rounding past a cosine of 1 must not cut it off."""
    x = inputs(50)
    variance = torch.tensor(1.3, requires_grad=True)
    crossed = nngp(InfiniteNetwork(2, "relu", variance), x, x.clone()).diagonal()
    (gradient,) = torch.autograd.grad(crossed.sum(), variance)
    torch.testing.assert_close(gradient, 3 * 1.3**2 * x.square().mean(1).sum() / 4, rtol=1e-7, atol=0)


def test_double_inputs_get_double_kernels_whatever_the_default():
    x = torch.tensor([[1.0, 2.0], [-2.0, -4.0], [0.3, 0.1]])  # two of them opposite, where the angle is π itself
    network = InfiniteNetwork(2, "relu", 1.7)
    expected = nngp(network, x), ntk(network, x)
    torch.set_default_dtype(torch.float32)
    for kernel, value in zip((nngp, ntk), expected, strict=True):
        assert torch.equal(kernel(network, x), value)


def test_the_standard_kernel_grows_with_the_width():
    network, x = InfiniteNetwork(2, "relu", 1.7, 0.4), inputs()
    steps = [standard_ntk(network, h, x) - standard_ntk(network, h // 2, x) for h in (200, 400)]
    torch.testing.assert_close(steps[1], 2 * steps[0])  # linear in h
    assert (steps[0].diagonal() > 10).all()


def test_drawn_networks_with_several_layers_are_around_the_limit(generator):
    """At width 300 one kernel is off by about 1/√300 = 6 %, the mean of 20 by less than 4 %, another limit by much."""
    network, x = InfiniteNetwork(2, "erf", 1.7, 0.4), inputs()
    kernels = []
    for _ in range(20):
        drawn = draw_network(network, (3, 300, 1), generator)
        metric = torch.cat(
            [torch.full((p.numel(),), 0.4 if p.ndim == 1 else 1.7 / p.shape[1]) for p in drawn.parameters()]
        )
        kernels.append(tangent_kernel(drawn, x, 1 / metric)[:, 0, :, 0])
    mean = torch.stack(kernels).mean(0)

    def error(limit: Tensor) -> Tensor:
        return (mean - limit).norm() / limit.norm()

    assert error(ntk(network, x)) < 0.04
    assert error(ntk(InfiniteNetwork(2, "erf", 0.85, 0.4), x)) > 0.4


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((-1,), StructureError, "0 or more"),
        ((1, "tanh"), StructureError, "relu, erf"),
        ((1, "relu", 0.0), DataError, "above 0"),
        ((1, "relu", 1.0, -0.1), DataError, "at least 0"),
        ((1, "relu", math.inf), DataError, "finite"),
    ],
)
def test_impossible_networks(arguments, error, words):
    with pytest.raises(error, match=words):
        InfiniteNetwork(*arguments)


def test_impossible_inputs():
    network = InfiniteNetwork(1)
    with pytest.raises(ShapeError, match="3 and 2"):
        nngp(network, inputs(2, 3), inputs(2, 2))
    with pytest.raises(DataError, match="finite"):
        ntk(network, torch.tensor([[1.0, math.nan]]))
    with pytest.raises(ShapeError, match="at least one feature"):
        ntk(network, torch.ones(3))
    with pytest.raises(StructureError, match="width of at least 1, got 0"):
        standard_ntk(network, 0, inputs())
