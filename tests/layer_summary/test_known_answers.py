"""What γ/P tells where the answer is known: linear maps with Gaussian noise, whose evidence has a closed form."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

import covary
from covary.layer_summary import summarize_layers
from covary.layers import Conv, Dense, Relaxed
from covary.priors import Prior

SIDE, NUM_DATA, NOISE = 4, 60, 0.1
PIXELS, FILTER = SIDE**2, 9


class Fitted(NamedTuple):
    """Maximum of the evidence of y = Φ w + noise, with a precision for each group of columns."""

    log_evidence: float
    effective: Tensor
    precisions: Tensor
    noise: float
    weights: Tensor


def fixed_point(features: Tensor, y: Tensor, groups: Tensor) -> Fitted:
    """MacKay's updates δ = γ / ‖w‖², σ² = ‖y − Φ w‖² / (M − Σ γ), in closed form."""
    gram, moments, number = features.T @ features, features.T @ y, int(groups.max()) + 1
    precisions, variance = torch.ones(number, dtype=torch.float64), float(y.var())
    for _ in range(200):
        covariance = torch.linalg.inv(gram / variance + torch.diag(precisions[groups]))
        weights = covariance @ moments / variance
        shrinkage = 1 - precisions[groups] * covariance.diagonal()
        zeros = torch.zeros(number, dtype=torch.float64)
        effective = zeros.index_add(0, groups, shrinkage)
        precisions = (effective / zeros.index_add(0, groups, weights**2)).clamp(max=1e8)
        variance = float((y - features @ weights).square().sum()) / (len(y) - float(effective.sum()))
    # of the marginal normal distribution of y itself
    marginal = features @ torch.diag(1 / precisions[groups]) @ features.T + variance * torch.eye(len(y)).double()
    normal = torch.distributions.MultivariateNormal(torch.zeros_like(y), marginal)
    covariance = torch.linalg.inv(gram / variance + torch.diag(precisions[groups]))
    weights = covariance @ moments / variance
    effective = zeros.index_add(0, groups, 1 - precisions[groups] * covariance.diagonal())
    return Fitted(float(normal.log_prob(y)), effective, precisions, variance**0.5, weights)


class Known(NamedTuple):
    """A task: its images and outputs, the features of both paths, and the group of each column."""

    x: Tensor
    y: Tensor
    features: Tensor
    groups: Tensor


def known_task(name: str) -> Known:
    """Outputs of a random filter, or of a random matrix, with noise; both paths by unit vectors, weight by weight."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(NUM_DATA, 1, SIDE, SIDE, generator=generator, dtype=torch.float64)
    layer = paths()
    columns = []
    for tensor in (layer.paths["fc"].weight, layer.paths["conv"].weight):
        for number in range(tensor.numel()):
            with torch.no_grad():
                tensor.view(-1)[number] = 1.0
                columns.append(layer(x).flatten())
                tensor.view(-1)[number] = 0.0
    features = torch.stack(columns, 1)
    truth = torch.zeros(features.shape[1], dtype=torch.float64)
    part = slice(PIXELS**2, None) if name == "convolution" else slice(0, PIXELS**2)
    truth[part] = torch.randn(len(truth[part]), generator=generator, dtype=torch.float64) / 4
    noise = torch.randn(len(features), generator=generator, dtype=torch.float64)
    groups = torch.tensor([0] * PIXELS**2 + [1] * FILTER)
    return Known(x, features @ truth + NOISE * noise, features, groups)


def paths() -> Relaxed:
    """A relaxed layer of two paths whose weights, and biases, are zero."""
    layer = Relaxed({"fc": Dense((1, SIDE, SIDE), (1, SIDE, SIDE)), "conv": Conv(1, 1)}).double()
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    return layer


def fitted_model(known: Known, found: Fitted) -> covary.Model:
    """The same model as a network with a prior, at the maximum; biases are frozen at zero."""
    network = nn.Sequential(paths(), nn.Flatten())
    layer = network[0]
    for name, path in layer.paths.items():
        path.bias.requires_grad_(False)
        own = found.weights[known.groups == int(name == "conv")]
        path.weight.data.copy_(own.view_as(path.weight))
    precisions = {f"*{name}*": float(found.precisions[int(name == "conv")]) for name in layer.paths}
    likelihood = covary.Gaussian(found.noise).double()
    return covary.Model(network, likelihood, Prior(network, "layerwise", precisions).double())


@pytest.mark.parametrize("task", ["convolution", "dense"])
def test_numbers_and_evidence_are_those_of_the_closed_form(task):
    known = known_task(task)
    found = fixed_point(known.features, known.y, known.groups)
    model, data = fitted_model(known, found), (known.x, known.y.view(NUM_DATA, -1))
    (layer,) = summarize_layers(model, data, "full")
    assert [path.effective for path in layer.paths] == pytest.approx(found.effective.tolist(), rel=1e-5)
    assert float(covary.log_evidence(model, data, "full").log_evidence) == pytest.approx(found.log_evidence, rel=1e-8)


def test_a_convolution_is_found():
    known = known_task("convolution")
    dense, conv = fixed_point(known.features, known.y, known.groups).effective / torch.tensor([PIXELS**2, FILTER])
    assert conv > 0.99
    assert dense < 0.3  # determined in part, by the noise


def test_of_a_dense_map_a_useless_filter_counts_as_active():
    """γ/P says how well the data determine a path, and a handful of weights are soon determined."""
    known = known_task("dense")
    found = fixed_point(known.features, known.y, known.groups)
    (layer,) = summarize_layers(fitted_model(known, found), (known.x, known.y.view(NUM_DATA, -1)), "full")
    dense, conv = layer.paths
    assert layer.learned == "fc"
    assert dense.normalized > 0.9
    assert not conv.inactive
    without = fixed_point(known.features[:, known.groups == 0], known.y, known.groups[known.groups == 0])
    assert abs(found.log_evidence - without.log_evidence) < 2  # nats: the filter explains nothing
    own = known.groups == 1
    assert (known.features[:, own] @ found.weights[own]).var() < 0.01 * known.y.var()
