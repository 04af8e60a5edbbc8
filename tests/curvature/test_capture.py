"""Captured passes: any control flow, no side effects on the network, errors for mistakes."""

import gc

import pytest
import torch
from torch import nn

import covary
from cases import CASES, NUM_OUTPUTS, targets
from covary.curvature import diag, full, kfac
from covary.curvature.capture import capture
from covary.curvature.exact import full_blocks
from covary.curvature.passes import root_probes
from covary.errors import CaptureError, DataError, ShapeError, UnsupportedLayerError
from covary.priors import weights_of
from oracles.curvature import ggn, loss_of


def traces(network: nn.Module) -> list[object]:
    """The state of a network that a capture could change."""
    found: list[object] = []
    for name, module in network.named_modules():
        found += [(name, sorted(module.__dict__)), (name, len(module._forward_hooks), len(module._backward_hooks))]
    found += [(name, p.grad, sorted(vars(p)), p._backward_hooks) for name, p in network.named_parameters()]
    return found


@pytest.mark.parametrize("case", ["encoder layer", "cross attention", "tied embedding", "conv2d grouped"])
def test_the_network_is_unchanged(case):
    network, x = CASES[case].make(3)
    before = traces(network)
    logdet = kfac(network, (x, targets("categorical", 3))).logdet(1.0)
    torch.autograd.grad(logdet, list(network.parameters()), allow_unused=True)
    assert traces(network) == before


def test_the_network_is_unchanged_when_the_forward_fails():
    network, _ = CASES["encoder layer"].make(3)
    before = traces(network)
    with pytest.raises(RuntimeError):
        capture(network, torch.randn(3, 3, 7), weights_of(network))
    assert traces(network) == before


def test_no_memory_growth_over_fifty_differentiable_captures():
    network, x = CASES["conv2d"].make(3)
    y = targets("categorical", 3)
    angle = torch.tensor(1.1, requires_grad=True)

    def live_tensors() -> int:
        gc.collect()
        return sum(isinstance(o, torch.Tensor) for o in gc.get_objects())

    def step() -> None:
        logdet = kfac(network, (x * angle, y), probes=1).logdet(1.0)
        torch.autograd.grad(logdet, angle)

    step()
    before = live_tensors()
    for _ in range(50):
        step()
    assert live_tensors() == before


def test_graphs_are_freed_without_the_garbage_collector():
    network, x = CASES["conv2d"].make(3)
    gc.collect()
    gc.disable()
    try:
        count = sum(isinstance(o, torch.Tensor) for o in gc.get_objects())
        kfac(network, (x, targets("categorical", 3)))
        assert sum(isinstance(o, torch.Tensor) for o in gc.get_objects()) <= count
    finally:
        gc.enable()


def test_two_networks_in_one_process_are_independent():
    first, x = CASES["conv2d"].make(3, seed=0)
    second, _ = CASES["conv2d"].make(3, seed=1)
    y = targets("categorical", 3)
    alone = [full(n, (x, y)).to_dense() for n in (first, second)]
    captured = [capture(n, x, weights_of(n)) for n in (first, second)]
    for ours, capt in zip(alone, captured, strict=True):
        interleaved = full_blocks(capt, root_probes(covary.Categorical(), capt.outputs, None))["all weights"]
        torch.testing.assert_close(interleaved.to_dense(), ours)


class Branching(nn.Module):
    """Which layer runs depends on the data."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, NUM_OUTPUTS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.left(x) if x.sum() > 0 else self.right(self.right(x))))


def test_control_flow_that_depends_on_the_data():
    network = Branching()
    x, y = torch.randn(4, 4).abs(), targets("categorical", 4)
    for inputs in (x, -x):
        ours = full(network, (inputs, y)).to_dense()
        torch.testing.assert_close(ours, ggn(network, inputs, loss_of("categorical", y)), rtol=1e-9, atol=1e-12)


def test_an_input_changed_in_place_is_refused():
    class Overwriting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, NUM_OUTPUTS)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = x.clone()
            out = self.first(h)
            h.add_(1.0)
            return self.second(torch.tanh(out))

    with pytest.raises(CaptureError, match="input of module 'first'.*in place"):
        full(Overwriting(), (torch.randn(3, 4), targets("categorical", 3)))


class Positions(nn.Module):
    """Position embeddings looked up once for the whole batch."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.table, self.head, self.length = nn.Embedding(length, 4), nn.Linear(4 * length, NUM_OUTPUTS), length

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head((x + torch.tanh(self.table(torch.arange(self.length)))).flatten(1))


@pytest.mark.parametrize("num_data", [2, 3, 4])  # also if there are as many positions as data
def test_a_layer_called_once_for_the_whole_batch_is_refused(num_data):
    with pytest.raises(ShapeError, match="expand an input that is shared by the batch"):
        kfac(Positions(3), (torch.randn(num_data, 3, 4), targets("categorical", num_data)))


def test_a_fold_that_is_not_declared_is_refused():
    class Undeclared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.head = nn.Linear(2, 3), nn.Linear(6, NUM_OUTPUTS)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.linear(x.reshape(-1, 2)).reshape(-1, 6))

    with pytest.raises(ShapeError, match=r"folded_batch = F"):
        kfac(Undeclared(), (torch.randn(3, 2, 2), targets("categorical", 3)))


def test_a_weight_used_outside_its_module_is_refused():
    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(NUM_OUTPUTS, 4)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return nn.functional.linear(self.table(tokens).sum(1), self.table.weight)

    with pytest.raises(UnsupportedLayerError, match=r"'table.weight' only in part.*outside the module"):
        diag(Functional(), (torch.randint(0, NUM_OUTPUTS, (3, 2)), targets("categorical", 3)))


def test_outputs_of_a_wrong_shape_are_refused():
    with pytest.raises(ShapeError, match=r"one class per datum, got \(1, 2, 4\) .*num_classes"):
        kfac(nn.Linear(4, 4), (torch.randn(3, 2, 4), targets("categorical", 3)))


def test_an_empty_batch_is_refused():
    with pytest.raises(DataError, match="empty"):
        kfac(nn.Linear(4, 3), (torch.randn(0, 4), torch.zeros(0, dtype=torch.long)))


def test_inference_mode_is_refused():
    with torch.inference_mode(), pytest.raises(CaptureError, match="inference_mode"):
        kfac(nn.Linear(4, 3), (torch.randn(2, 4), targets("categorical", 2)))


def test_results_have_a_graph_only_in_grad_mode():
    network, x = CASES["conv2d"].make(2)
    batch = (x, targets("categorical", 2))
    assert kfac(network, batch).logdet(1.0).requires_grad
    with torch.no_grad():
        assert not kfac(network, batch).logdet(1.0).requires_grad


def test_an_averaged_network_equals_the_explicit_loop():
    augment = covary.augment.Affine2d(initial_width=0.3)
    inner = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(8, NUM_OUTPUTS))
    network = covary.Averaged(inner, augment, 5)
    x, y = torch.randn(3, 1, 4, 4), targets("categorical", 3)

    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = inner

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            noise = augment.sample_noise(torch.arange(len(images)), 5, seed=0)
            copies = augment.transform(images, noise).detach()
            return sum(self.network(copies[:, s]) for s in range(5)) / 5

    ours = full(network, (x, y)).to_dense()
    torch.testing.assert_close(ours, ggn(Loop(), x, loss_of("categorical", y)), rtol=1e-9, atol=1e-12)


def test_a_gradient_that_vanishes_by_symmetry_is_accepted():
    """A bias of the keys shifts all scores equally: its gradient is rounding error, on both sides of the check."""

    class Scores(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, NUM_OUTPUTS)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weights = (self.query(x) @ self.key(x).transpose(1, 2)).softmax(-1)
            return self.head((weights @ x).mean(1))

    for seed in range(5):
        torch.manual_seed(seed)
        kfac(Scores(), (torch.randn(2, 3, 4), targets("categorical", 2)))
