"""Weights without a rule: products by autograd, for every datum by itself."""

import pytest
import torch
from torch import Tensor, nn

import covary
from cases import CASES, NUM_OUTPUTS, Recurrent, sequential, targets, weight_norm
from covary import hypergrad
from covary.curvature import full, kfac, passes
from covary.curvature.capture import capture
from covary.curvature.per_datum import per_datum_pass
from covary.errors import UnsupportedLayerError
from covary.priors import weights_of
from oracles.curvature import flat_function, ggn, loss_of

BY_AUTOGRAD = ("class token", "lstm", "bilinear", "prelu, instance norm", "weight norm", "shared positions")
RECURRENT = {
    "rnn": lambda: nn.RNN(2, 3, num_layers=2, bidirectional=True, batch_first=True),
    "gru": lambda: nn.GRU(2, 3, batch_first=True),
    "lstm": lambda: nn.LSTM(2, 3, proj_size=2, batch_first=True),
}
PARAMETRIZED = {
    "weight norm": nn.utils.parametrizations.weight_norm,
    "spectral norm": nn.utils.parametrizations.spectral_norm,
    "orthogonal": nn.utils.parametrizations.orthogonal,
}


def jacobian(network: nn.Module, x: Tensor) -> Tensor:
    function, theta = flat_function(network, x)
    return torch.func.jacrev(function)(theta)


@pytest.mark.parametrize("case", BY_AUTOGRAD)
def test_products_of_each_datum_are_rows_of_the_jacobian(case):
    network, x = CASES[case].make(4)
    captured, probe = capture(network, x, weights_of(network)), torch.randn(4, NUM_OUTPUTS)
    ours = torch.cat([captured.vjp(name, captured.pull(probe), slice(0, 4)) for name in captured.weights], 1)
    torch.testing.assert_close(ours, torch.einsum("nc,ncp->np", probe, jacobian(network, x)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", BY_AUTOGRAD)
def test_all_data_at_once_and_one_after_the_other_agree(case):
    network, x = CASES[case].make(4)
    weights, index, calls = weights_of(network), torch.arange(4), []

    def forward(expanded: dict[str, Tensor], inputs: Tensor, identity: Tensor) -> Tensor:
        batched = torch._C._functorch.is_batchedtensor(inputs)
        calls.append(batched)
        if batched and loop:
            raise TypeError("an operation without batching rule")
        return torch.func.functional_call(network, expanded, (inputs,))

    products = []
    for loop in (False, True):
        calls.clear()
        found = per_datum_pass(forward, weights, x, index)
        probe = torch.ones_like(found.outputs)
        products.append(found.pull(probe, keep=False, differentiable=False))
        assert len(calls) == (5 if loop or case == "lstm" else 1)
    torch.testing.assert_close(products[0], products[1])


@pytest.mark.parametrize("layer", RECURRENT)
def test_recurrent_layers(layer):
    torch.manual_seed(0)
    inner = RECURRENT[layer]()
    network = Recurrent(inner)
    network.head = nn.Linear(inner(torch.randn(1, 2, 2))[0].shape[-1], NUM_OUTPUTS)
    x, y = torch.randn(3, 4, 2), targets("categorical", 3)
    torch.testing.assert_close(full(network, (x, y)).to_dense(), ggn(network, x, loss_of("categorical", y)))


@pytest.mark.parametrize("parametrization", PARAMETRIZED)
def test_parametrized_layers(parametrization):
    torch.manual_seed(0)
    layer = PARAMETRIZED[parametrization](nn.Linear(4, 3))
    network = nn.Sequential(layer, nn.Tanh(), nn.Linear(3, NUM_OUTPUTS)).eval()
    x, y = torch.randn(3, 4), targets("categorical", 3)
    torch.testing.assert_close(full(network, (x, y)).to_dense(), ggn(network, x, loss_of("categorical", y)))


def averaged(layer: nn.Module, num_samples: int, dtype: torch.dtype = torch.float64) -> covary.Averaged:
    torch.manual_seed(0)
    inner = sequential(nn.Conv2d(1, 2, 3), layer, nn.Tanh(), flat=32).to(dtype)
    return covary.Averaged(inner, covary.augment.Affine2d(("rotation",), initial_width=0.3).to(dtype), num_samples)


@pytest.mark.parametrize("layer", [nn.PReLU(2), weight_norm(nn.Conv2d(2, 2, 1))], ids=["prelu", "weight norm"])
def test_an_averaged_network(layer):
    network = averaged(layer, 3)
    x, y = torch.randn(3, 1, 6, 6), targets("categorical", 3)
    names = list(weights_of(network))
    expected = ggn(network, x, loss_of("categorical", y), names)
    torch.testing.assert_close(full(network, (x, y)).to_dense(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("structure", ["kron", "kron-traced", "full", "diag"])
def test_the_gradient_by_the_widths_is_a_difference_of_evidences(structure):
    network = averaged(nn.PReLU(2), 3)
    data = torch.randn(4, 1, 6, 6), targets("categorical", 4)
    (name, parameter), step = next(iter(network.augment.named_parameters())), 1e-5
    expected = torch.zeros_like(parameter)
    for i in range(parameter.numel()):
        for sign in (1, -1):
            with torch.no_grad():
                parameter.view(-1)[i] += sign * step
                value = covary.log_evidence(network, data, structure).log_evidence
                parameter.view(-1)[i] -= sign * step
            expected.view(-1)[i] += sign * value / (2 * step)
    for way in (hypergrad.direct, hypergrad.two_pass):
        found = way(network, data, structure)[f"augment.{name}"]
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_fused_recurrent_kernels_of_single_precision_have_a_gradient():
    torch.manual_seed(0)

    class Scaled(Recurrent):
        hyperparameters = ("scale",)

        def __init__(self) -> None:
            super().__init__(nn.LSTM(2, 3, batch_first=True))
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(self.scale * x)

    network, data = Scaled(), (torch.randn(5, 4, 2), targets("categorical", 5))
    exact = hypergrad.two_pass(network, data)["scale"]
    single = hypergrad.two_pass(network.float(), (data[0].float(), data[1]))["scale"]
    torch.testing.assert_close(single.double(), exact, rtol=1e-3, atol=1e-4)


def test_chunks_bound_the_expanded(monkeypatch):
    network, x = CASES["bilinear"].make(6)
    y, sizes = targets("categorical", 6), []
    whole = kfac(network, (x, y)).to_dense()
    monkeypatch.setattr(passes, "CHUNK_ENTRIES", 2 * network.form.weight.numel() + 2 * NUM_OUTPUTS)
    original = passes.capture
    monkeypatch.setattr(passes, "capture", lambda n, x, *a, **k: sizes.append(len(x)) or original(n, x, *a, **k))
    torch.testing.assert_close(kfac(network, (x, y)).to_dense(), whole)
    assert sizes == [2, 2, 2]


def test_control_flow_that_depends_on_the_datum():
    class Either(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right, self.head = nn.PReLU(), nn.PReLU(), nn.Linear(4, NUM_OUTPUTS)

        def forward(self, x: Tensor) -> Tensor:
            rows = [self.left(row) if row.sum() > 0 else self.right(row) for row in x]
            return self.head(torch.stack(rows))

    torch.manual_seed(0)
    network, x, y = Either(), torch.randn(5, 4), targets("categorical", 5)
    torch.testing.assert_close(full(network, (x, y)).to_dense(), ggn(network, x, loss_of("categorical", y)))


def test_data_that_depend_on_each_other_are_refused_here_too():
    class Centered(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(NUM_OUTPUTS, 4))

        def forward(self, x: Tensor) -> Tensor:
            return (x - x.mean(0)) @ self.weight.T

    with pytest.raises(UnsupportedLayerError, match="depend on this datum alone"):
        full(Centered(), (torch.randn(5, 4), targets("categorical", 5)))


def test_a_parameter_that_is_never_used_has_no_curvature():
    network = nn.Sequential(nn.Linear(4, NUM_OUTPUTS))
    network.register_parameter("unused", nn.Parameter(torch.ones(2)))
    assert kfac(network, (torch.randn(3, 4), targets("categorical", 3)))["unused"].trace() == 0
