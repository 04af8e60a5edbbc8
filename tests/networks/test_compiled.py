from functools import partial

import pytest
import torch
from torch import nn

import covary
from covary import Averaged, FitConfig
from covary.augment import Affine2d
from covary.errors import StructureError
from covary.networks import mlp
from covary.networks.compiled import compiled

SETTINGS = FitConfig().replace(
    epochs=2, weights={"batch_size": 8}, hyper={"burn_in": 1, "num_samples": 2}, evaluation={"num_error_data": 0}
)


class Counting:
    """A backend of `torch.compile` that runs what it is given, and counts how often."""

    def __init__(self):
        self.calls = 0

    def __call__(self, graph, inputs):
        def run(*arguments):
            self.calls += 1
            return graph(*arguments)

        return run


def averaged():
    torch.manual_seed(0)
    return Averaged(mlp(16, 5, 3).double(), Affine2d(("rotation",), initial_width=0.3), num_samples=2)


def data():
    generator = torch.Generator().manual_seed(0)
    return torch.rand(24, 1, 4, 4, generator=generator).double(), torch.arange(24) % 3


@pytest.fixture
def backend(monkeypatch):
    counting = Counting()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=counting))
    yield counting
    torch._dynamo.reset()


def test_a_compiled_network_shares_parameters_and_draws_the_same_samples(backend):
    network = averaged()
    other = compiled(network)
    assert [id(p) for p in other.parameters()] == [id(p) for p in network.parameters()]
    x = data()[0]
    assert other(x, seed=3).equal(network(x, seed=3))
    assert backend.calls > 0


def test_a_fit_with_compiled_weight_steps_is_the_fit_without(backend):
    runs = [covary.fit(averaged(), data(), SETTINGS.replace(**{"weights.compile": value})) for value in (False, True)]
    assert backend.calls == 2 * 3, "every weight step, and nothing else"
    first, second = (run.network.state_dict() for run in runs)
    assert list(first) == list(second), "the run has the network that was passed"
    for name, value in first.items():
        torch.testing.assert_close(value, second[name], rtol=1e-12, atol=1e-12)


def test_a_network_that_cannot_be_compiled_is_one_line(monkeypatch):
    def refuse(graph, inputs):
        raise RuntimeError("no compiler found")

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=refuse))
    with pytest.raises(StructureError, match=r"no compiler found.*Set weights\.compile=false"):
        covary.fit(averaged(), data(), SETTINGS.replace(**{"weights.compile": True}))
    torch._dynamo.reset()


def test_errors_of_the_network_itself_pass_through(backend):
    class Broken(nn.Module):
        def forward(self, x):
            raise ZeroDivisionError("its own")

    with pytest.raises(ZeroDivisionError):
        compiled(Broken())(torch.ones(1))
