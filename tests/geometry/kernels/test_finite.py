"""Standard against NTK parametrization: a chart, which metric it keeps, and what that does as the width grows."""

import math

import pytest
import torch
from torch import Tensor, nn

from covary.errors import DataError, UnsupportedLayerError
from covary.geometry import (
    BilinearForm,
    InfiniteNetwork,
    Point,
    draw_network,
    empirical_ntk,
    finite_kernels,
    flat_outputs,
    flatten,
    nngp,
    ntk,
    ntk_chart,
    ntk_in_chart,
    ntk_metric,
    standard_ntk,
)
from covary.geometry.kernels.finite import ntk_scales
from oracles.kernels import tangent_kernel

WEIGHT, BIAS = 1.7, 0.4
X = torch.tensor([[0.3, -1.2, 0.5], [1.1, 0.4, -0.2], [-0.6, 0.8, 1.5]], dtype=torch.float64)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class NTKNetwork(nn.Module):
    """A network written in the NTK parametrization: standard normal parameters, scaled where they are used."""

    def __init__(self, standard: nn.Sequential) -> None:
        super().__init__()
        linear = [module for module in standard if isinstance(module, nn.Linear)]
        factors = [math.sqrt(WEIGHT / module.in_features) for module in linear]
        self.weights = nn.ParameterList([m.weight.detach() / f for m, f in zip(linear, factors, strict=True)])
        self.biases = nn.ParameterList([m.bias.detach() / math.sqrt(BIAS) for m in linear])

    def forward(self, x: Tensor) -> Tensor:
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = (x.relu() if layer else x) @ weight.T * math.sqrt(WEIGHT / weight.shape[1]) + bias * math.sqrt(BIAS)
        return x


def test_the_metric_of_the_ntk_parametrization_gives_the_kernel_of_a_network_written_in_it():
    standard = draw_network(InfiniteNetwork(2, "relu", WEIGHT, BIAS), (3, 7, 2), seeded(0))
    written = NTKNetwork(standard)
    torch.testing.assert_close(written(X), standard(X))
    expected = tangent_kernel(written, X)
    metric = ntk_metric(standard, WEIGHT, BIAS)
    torch.testing.assert_close(empirical_ntk(standard, X, metric), expected)
    assert not torch.allclose(empirical_ntk(standard, X), expected, rtol=0.1)


def test_drawn_weights_have_the_variances_of_the_prior():
    drawn = draw_network(InfiniteNetwork(1, "erf", WEIGHT, BIAS), (40, 500, 20), seeded(0))
    for name, parameter in drawn.named_parameters():
        variance = BIAS if parameter.ndim == 1 else WEIGHT / parameter.shape[1]
        error = 4 * math.sqrt(2 / parameter.numel())
        assert abs(parameter.var().item() / variance - 1) < error, name
    again = draw_network(InfiniteNetwork(1, "erf", WEIGHT, BIAS), (40, 500, 20), seeded(0))
    assert all(torch.equal(a, b) for a, b in zip(drawn.parameters(), again.parameters(), strict=True))
    assert draw_network(InfiniteNetwork(1), (3, 4, 1), seeded(0), torch.float32)(X.float()).dtype == torch.float32
    assert [name for name, _ in draw_network(InfiniteNetwork(0), (3, 9, 1), seeded(0)).named_parameters()] == [
        "1.weight"
    ]


def test_scales_of_convolutions_follow_their_fan_in():
    network = nn.Sequential(nn.Conv2d(3, 5, (2, 4)), nn.Flatten(), nn.Linear(10, 2, bias=False))
    scales = ntk_scales(network, WEIGHT, BIAS)
    expected = {"0.weight": WEIGHT / 24, "0.bias": BIAS, "2.weight": WEIGHT / 10}
    assert {name: scale.item() ** 2 for name, scale in scales.items()} == pytest.approx(expected)


def test_scales_have_the_precision_of_the_weights_whatever_the_default():
    network = nn.Sequential(nn.Linear(3, 1, bias=False))
    torch.set_default_dtype(torch.float32)
    assert ntk_scales(network, 1.7, 1)["0.weight"].item() == pytest.approx(math.sqrt(1.7 / 3), rel=1e-15)


def test_networks_without_scales():
    with pytest.raises(DataError, match="'0.bias', got 0"):
        ntk_scales(nn.Sequential(nn.Linear(2, 2)), WEIGHT, 0.0)
    with pytest.raises(UnsupportedLayerError, match="LayerNorm"):
        ntk_scales(nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)), WEIGHT, BIAS)


# Appendix E.1. The map between the parametrizations is a chart: carried through it, the Euclidean metric of θ gives the
# kernel of θ, which diverges; a Euclidean metric put there anew gives the NTK, which converges.


def kernels_in_psi(network: InfiniteNetwork, width: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """The kernel in θ, the one carried to ψ, and the Euclidean one of ψ; the last two by derivatives in ψ."""
    drawn = draw_network(network, (3, width, 1), seeded(seed))
    theta = flatten(dict(drawn.named_parameters())).detach()
    chart, function = ntk_chart(drawn, WEIGHT, network.bias_variance), flat_outputs(drawn, X)
    euclidean = BilinearForm(torch.eye(len(theta)), Point(theta))
    anew = BilinearForm(euclidean.components, euclidean.point.to(chart))
    found = (ntk_in_chart(function, metric) for metric in (euclidean, euclidean.to(chart), anew))
    return tuple(kernel[:, 0, :, 0] for kernel in found)


def test_the_chart_carries_drawn_weights_to_standard_normal_ones():
    drawn = draw_network(InfiniteNetwork(1, "relu", WEIGHT, BIAS), (3, 4000, 1), seeded(0))
    theta = flatten(dict(drawn.named_parameters())).detach()
    psi = ntk_chart(drawn, WEIGHT, BIAS).forward(theta)
    assert abs(psi.var().item() - 1) < 4 * math.sqrt(2 / len(psi))
    assert abs(theta.var().item() - 1) > 0.5


@pytest.mark.parametrize("network", [InfiniteNetwork(1, "relu", WEIGHT, BIAS), InfiniteNetwork(2, "erf", WEIGHT, BIAS)])
def test_the_kernel_that_is_carried_is_the_one_of_theta(network):
    for width in (4, 16):
        theta, carried, anew = kernels_in_psi(network, width, seed=1)
        torch.testing.assert_close(carried, theta, rtol=1e-10, atol=0)
        assert not torch.allclose(anew, theta, rtol=0.1)  # the control: a new metric, a new kernel
        engine = finite_kernels(network, X, width, seeded(1))
        torch.testing.assert_close(engine.standard, theta)
        torch.testing.assert_close(engine.ntk, anew)


def relative_errors(network: InfiniteNetwork, width: int, num_draws: int) -> Tensor:
    """Root mean squares of relative errors: NNGP and NTK against their limits, the standard kernel against its mean."""
    limits = (nngp(network, X), ntk(network, X), standard_ntk(network, width, X))
    draws = (finite_kernels(network, X, width, seeded(seed)) for seed in range(num_draws))
    found = [[(k - limit).norm() / limit.norm() for k, limit in zip(kernels, limits, strict=True)] for kernels in draws]
    return torch.tensor(found).square().mean(0).sqrt()


def exponent(widths: list[int], values: list[Tensor]) -> Tensor:
    """The exponent of a power law, by least squares on logarithms."""
    logs = torch.tensor(widths, dtype=torch.float64).log()
    centered = logs - logs.mean()
    return torch.tensordot(centered, torch.stack(values).log(), 1) / centered.square().sum()


@pytest.mark.parametrize("network", [InfiniteNetwork(1, "relu", WEIGHT, BIAS), InfiniteNetwork(2, "erf", WEIGHT, BIAS)])
def test_errors_fall_with_the_root_of_the_width(network):
    """The exponent is −½. With 40 draws at three widths its standard deviation is at most 0.07."""
    widths = [16, 64, 256]
    errors = [relative_errors(network, width, 40) for width in widths]
    assert (exponent(widths, errors) + 0.5).abs().max() < 0.15
    assert errors[-1].max() < 0.2
    assert errors[0].min() > 0.15


def test_the_carried_kernel_diverges_and_the_euclidean_one_of_the_ntk_parametrization_converges():
    network, widths = InfiniteNetwork(1, "relu", WEIGHT), [64, 256, 1024]
    carried, anew = [], []
    for width in widths:
        kernels = [finite_kernels(network, X, width, seeded(seed)) for seed in range(10)]
        carried.append(torch.stack([k.standard for k in kernels]).mean(0).norm())
        anew.append(torch.stack([k.ntk for k in kernels]).mean(0).norm())
    assert abs(exponent(widths, carried) - 1) < 0.05
    assert abs(exponent(widths, anew)) < 0.05
    torch.testing.assert_close(anew[-1], ntk(network, X).norm(), rtol=0.05, atol=0)


def test_scaled_by_the_layers_own_width_as_printed_the_kernel_has_no_limit_but_zero():
    """App. E.1 prints f = (σ/√h) w·φ((σ/√h) W x) with W of h rows: it falls like 1/h, where fan-in gives the NTK."""
    sigma, widths = math.sqrt(WEIGHT), [64, 256, 1024]
    printed, corrected = [], []
    for width in widths:
        sizes = []
        for own in (width, X.shape[1]):  # what divides the first layer: its own width, or its fan-in
            first, last = torch.randn(width, 3, generator=seeded(0)), torch.randn(width, generator=seeded(1))
            u = sigma / math.sqrt(own) * X @ first.T
            back = sigma**2 / math.sqrt(own * width) * last * (u > 0)
            sizes.append((sigma**2 / width * u.relu() @ u.relu().T + (back @ back.T) * (X @ X.T)).norm())
        printed.append(sizes[0])
        corrected.append(sizes[1])
    assert abs(exponent(widths, printed) + 1) < 0.1
    torch.testing.assert_close(corrected[-1], ntk(InfiniteNetwork(1, "relu", WEIGHT), X).norm(), rtol=0.1, atol=0)
