r"""Does the evidence depend on the parametrization? Paper 3, Table 1 and App. E.3.1.

150 points :math:`y = \sin x + 0.3\,\epsilon`, x uniform on [0, 8], and a network with one hidden tanh layer, trained
for its log joint with noise 1 and prior precision 1. Its evidence is computed in Cartesian coordinates; under torch's
`weight_norm`, which has a parameter more per row and a prior over its own parameters; and in polar coordinates, weight
normalization without its redundant direction. A second network has ReLU units, one layer scaled up and the next down:
the same function at another point, with another evidence unless the scale is canonical.
"""

import statistics
import warnings
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from ...evidence import ChartEvidence, EvidenceTerms, chart_evidence
from ...geometry import CARTESIAN, Chart, canonical_scale, network_chart, polar_of
from ...likelihoods import Gaussian
from ...models import Model
from ...networks import mlp
from ...noise import fold, normal, uniform
from ...priors import Prior
from ...records import Claim
from .coordinates import Part, row

NUM_DATA, NOISE, NUM_HIDDEN = 150, 0.3, 20
FACTOR = 3.0  # of the ReLU units
Points = tuple[Tensor, Tensor]  # x and y, (N, 1) each
PARAMETRIZATIONS = ("Cartesian", "WeightNorm", "polar")


def evidences(num_seeds: int, epochs: int, seed: int) -> Part:
    """The evidence in three parametrizations, over seeds of the initial weights, at the mode and before it.

    Arguments:
        seed: The seed of the data, and the first of the weights.
    """
    data = sine(seed)
    found: dict[str, list[ChartEvidence]] = {name: [] for name in PARAMETRIZATIONS}
    gaps = []
    for number in range(num_seeds):
        for steps in (epochs // 20, epochs):  # far from a mode the connection matters; the table is at the end
            network = trained(data, steps, seed + number)
            chart = network_chart(dict(network.named_parameters()), {"*.weight": polar_of})
            cartesian, polar = _in_chart(network, data, CARTESIAN), _in_chart(network, data, chart)
            gaps.append(abs(float(polar.proper.log_evidence - cartesian.proper.log_evidence)))
        normalized = _in_chart(_weight_normalized(network), data, CARTESIAN)
        for name, one in zip(PARAMETRIZATIONS, (cartesian, normalized, polar), strict=True):
            found[name].append(one)
    rescaled = _rescaling(data, epochs // 20, seed)
    naive = {name: [_number(one.naive) for one in ones] for name, ones in found.items()}
    moved = {name: min(_differences(naive[name], naive["Cartesian"])) for name in PARAMETRIZATIONS[1:]}
    largest = max(gaps)
    claims = [
        Claim("Table 1: the proper evidence in polar coordinates is the Cartesian one, at a mode or not",
              "to 1e-8 nats", f"{largest:.1e}", largest < 1e-8),
        *(Claim(f"Table 1: the naive evidence under {name} differs for every seed", "> 1 nat", f"{gap:.1f} or more",
                gap > 1) for name, gap in moved.items()),
        Claim("ReLU rescaling is a symmetry: another point, another evidence", "> 1 nat",
              f"{rescaled['rescaled']:.1f}", rescaled["rescaled"] > 1),
        Claim("a canonical scale removes it", "to 1e-8 nats", f"{rescaled['canonical']:.1e}",
              rescaled["canonical"] < 1e-8),
    ]  # fmt: skip
    return Part(_rows(found), {"evidences": _series(found)}, claims)


def sine(seed: int) -> Points:
    """The points x and y, (N, 1) each, in float64."""
    index = torch.arange(NUM_DATA)
    x = 8 * uniform(seed, index, (1,), dtype=torch.float64)
    return x, x.sin() + NOISE * normal(fold(seed, 1), index, (1,), dtype=torch.float64)


def trained(data: Points, epochs: int, seed: int, activation: type[nn.Module] = nn.Tanh) -> nn.Sequential:
    """The network after training by Adam on the log joint of all data."""
    network = mlp(1, NUM_HIDDEN, 1, activation, generator=torch.Generator().manual_seed(seed)).double()
    likelihood, prior = Gaussian(1.0), Prior(network, "scalar")
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    for _ in range(epochs):
        optimizer.zero_grad()
        x, y = data
        (-likelihood.log_prob(network(x), y) - prior.log_density(dict(network.named_parameters()))).backward()
        optimizer.step()
    return network


def _in_chart(network: nn.Module, data: Points, chart: Chart) -> ChartEvidence:
    with warnings.catch_warnings():
        # torch's weight_norm is differentiated one row at a time
        warnings.filterwarnings("ignore", message="There is a performance drop")
        return chart_evidence(Model(network, Gaussian(1.0), Prior(network, "scalar")), data, chart)


def _weight_normalized(network: nn.Sequential) -> nn.Sequential:
    """A copy of the network whose weights are computed from lengths and directions, by torch."""
    copy = deepcopy(network)
    for module in copy:
        if isinstance(module, nn.Linear):
            weight_norm(module)
    return copy


@torch.no_grad()
def _rescaled(network: nn.Sequential) -> nn.Sequential:
    """A copy with the same function: the hidden units' incoming weights times a factor, the outgoing ones divided."""
    copy = deepcopy(network)
    first, last = (module for module in copy if isinstance(module, nn.Linear))
    first.weight.mul_(FACTOR)
    first.bias.mul_(FACTOR)
    last.weight.div_(FACTOR)
    return copy


def _rescaling(data: Points, epochs: int, seed: int) -> dict[str, float]:
    """Differences of the evidences of a network and its rescaled copy, before and after `canonical_scale`."""
    network = trained(data, epochs, seed, nn.ReLU)
    pair = network, _rescaled(network)
    pairs = {"rescaled": pair, "canonical": tuple(canonical_scale(one) for one in pair)}
    numbers = {name: [_number(_in_chart(one, data, CARTESIAN).proper) for one in two] for name, two in pairs.items()}
    return {name: abs(here - there) for name, (here, there) in numbers.items()}


def _number(terms: EvidenceTerms) -> float:
    return float(terms.log_evidence)


def _differences(values: list[float], others: list[float]) -> list[float]:
    return [abs(value - other) for value, other in zip(values, others, strict=True)]


def _series(found: dict[str, list[ChartEvidence]]) -> dict[str, Any]:
    """The evidences of all seeds by parametrization; weight normalization is not a chart and has no proper one."""
    return {
        name: {
            "naive": [_number(one.naive) for one in ones],
            "proper": None if name == "WeightNorm" else [_number(one.proper) for one in ones],
        }
        for name, ones in found.items()
    }


def _rows(found: dict[str, list[ChartEvidence]]) -> list[dict[str, Any]]:
    """Table 1: means over seeds of log Z, of −L, the log-likelihood, and of the rest."""
    rows = []
    for name, ones in found.items():
        naive, proper = _means([one.naive for one in ones]), _means([one.proper for one in ones])
        for quantity, value in naive.items():
            rows.append(row("Table 1", name, quantity, value, None if name == "WeightNorm" else proper[quantity]))
    return rows


def _means(terms: list[EvidenceTerms]) -> dict[str, float]:
    total = statistics.fmean(_number(one) for one in terms)
    fit = statistics.fmean(float(one.log_likelihood) for one in terms)
    return {"log Z": total, "−L": fit, "Rest": total - fit}
