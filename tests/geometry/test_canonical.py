"""Rescaled units: the function does not change, Euclidean curvature does, and the canonical scale undoes it."""

import pytest
import torch
from torch import nn

from covary.errors import UnsupportedLayerError
from covary.geometry import canonical_scale, loss_hessian

NETWORKS = {
    "linear": lambda: nn.Sequential(
        nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.LeakyReLU(0.1), nn.Dropout(0.5), nn.Linear(5, 3)
    ),
    "no bias": lambda: nn.Sequential(nn.Linear(4, 6, bias=False), nn.ReLU(), nn.Linear(6, 3, bias=False)),
    "convolutions": lambda: nn.Sequential(
        *(nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)), nn.Conv2d(4, 6, 2, groups=2)),
        *(nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)),
    ),
    "flattened": lambda: nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 16, 3)),
    "a tanh between": lambda: nn.Sequential(
        nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)
    ),
}


def inputs(network, generator):
    first = next(m for m in network.modules() if isinstance(m, nn.Linear | nn.Conv2d))
    return torch.randn(7, *((4,) if isinstance(first, nn.Linear) else (1, 6, 6)), generator=generator)


def rescaled(network, generator):
    """The same function with each hidden unit of the first pair of layers scaled by a random factor, by loops."""
    state = {name: value.clone() for name, value in network.state_dict().items()}
    layers = [n for n, m in network.named_modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    before, after = layers[:2]
    groups = getattr(network.get_submodule(after), "groups", 1)
    num_units = len(state[f"{before}.weight"])
    for unit in range(num_units):
        factor = 4 * torch.rand((), generator=generator) + 0.3
        for kind in ("weight", "bias"):
            if f"{before}.{kind}" in state:
                state[f"{before}.{kind}"][unit] *= factor
        weight = state[f"{after}.weight"]
        if groups > 1:
            per_group, outputs = num_units // groups, len(weight) // groups
            group = unit // per_group
            weight[group * outputs : (group + 1) * outputs, unit % per_group] /= factor
        else:
            width = weight.shape[1] // num_units
            weight[:, unit * width : (unit + 1) * width] /= factor
    copy = NETWORKS_BY_ID[id(network)]()
    copy.load_state_dict(state)
    return copy.eval()


NETWORKS_BY_ID = {}


@pytest.fixture(params=NETWORKS)
def network(request):
    torch.manual_seed(0)
    made = NETWORKS[request.param]().eval()
    NETWORKS_BY_ID[id(made)] = NETWORKS[request.param]
    return made


def test_the_function_is_unchanged(network, generator):
    x = inputs(network, generator)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    torch.testing.assert_close(canonical_scale(network)(x), network(x), rtol=1e-12, atol=1e-13)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_every_rescaled_network_has_the_same_canonical_scale(network, generator):
    other, x = rescaled(network, generator), inputs(network, generator)
    torch.testing.assert_close(other(x), network(x), rtol=1e-12, atol=1e-13)
    assert any((p - q).abs().max() > 0.01 for p, q in zip(network.parameters(), other.parameters(), strict=True))
    ours, theirs = canonical_scale(network).state_dict(), canonical_scale(other).state_dict()
    for name, value in ours.items():
        torch.testing.assert_close(value, theirs[name], rtol=1e-11, atol=1e-13)


def test_euclidean_curvature_changes_and_the_canonical_scale_removes_that(network, generator):
    other, x = rescaled(network, generator), inputs(network, generator)
    data = (x, torch.arange(7) % 3)
    traces = [
        float(loss_hessian(each, data).to_dense().trace())
        for each in (network, other, canonical_scale(network), canonical_scale(other))
    ]
    assert abs(traces[1] / traces[0] - 1) > 0.05  # the control: one function, two Euclidean traces
    assert traces[3] == pytest.approx(traces[2], rel=1e-10)


def test_norms_are_equal_on_both_sides():
    network = canonical_scale(NETWORKS["linear"]())
    first, second, third = (m for m in network if isinstance(m, nn.Linear))
    for before, after in ((first, second), (second, third)):
        incoming = torch.cat([before.weight, before.bias.unsqueeze(1)], 1).norm(dim=1)
        torch.testing.assert_close(incoming, after.weight.norm(dim=0), rtol=1e-12, atol=0)


def test_a_unit_that_is_not_used_does_not_change():
    network = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    with torch.no_grad():
        network[2].weight[:, 1] = 0.0
    torch.testing.assert_close(canonical_scale(network)[0].weight[1], network[0].weight[1], rtol=0, atol=0)


def tied():
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.ReLU(), layer, nn.ReLU(), nn.Linear(4, 3))


@pytest.mark.parametrize("make", [
    lambda: nn.TransformerEncoderLayer(4, 2),
    tied,
    lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 5)), nn.ReLU(), nn.Linear(5, 3)),
    lambda: nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 3)),  # tokens, flattened
    lambda: nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.MaxPool1d(2), nn.Linear(3, 3)),  # a pool over units
    lambda: nn.Sequential(nn.Conv1d(1, 3, 2), nn.ReLU(), nn.Linear(3, 3)),  # a linear layer along positions
])  # fmt: skip
def test_what_cannot_be_rescaled_is_refused(make):
    with pytest.raises(UnsupportedLayerError, match=r"nn.Sequential|cannot be rescaled"):
        canonical_scale(make())
