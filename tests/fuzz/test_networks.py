"""Random networks, likelihoods, averages and curvatures against brute force, as many as `FUZZ_EXAMPLES` says.

`FUZZ_EXAMPLES=2000 pytest tests/fuzz` draws new ones each time, and prints how to repeat one that fails; without it
the same few are drawn each time.
"""

import math
import os

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import covary
from cases import diagonal_blocks
from covary import hypergrad
from covary.curvature import diag, full, kfac, tkfac
from covary.linalg import Kron
from fuzz.random_networks import AUTOGRAD_LAYERS, LAYERS, Problem, assert_same, problems
from oracles.curvature import ggn

pytestmark = [
    pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths"),
    pytest.mark.filterwarnings("ignore:Weights without a rule"),
]
NUM_EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
NAMES = st.sampled_from(sorted(LAYERS)) | st.sampled_from(sorted(AUTOGRAD_LAYERS))


def fuzzed(few: int, share: float) -> settings:
    """The settings of a test with a share of the examples; a few that are always the same if no number is given."""
    return settings(
        max_examples=max(1, round(share * NUM_EXAMPLES)) if NUM_EXAMPLES else few,
        derandomize=not NUM_EXAMPLES,
        print_blob=True,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
    )


def model_of(problem: Problem, log_precisions: list[float]) -> covary.Model:
    """The model with a random precision for each weight."""
    prior = covary.Prior(problem.network)
    with torch.no_grad():
        prior.log_precision.copy_(torch.tensor(log_precisions)[torch.arange(len(prior.log_precision)) % 3])
    return covary.Model(problem.network, problem.likelihood, prior)


PRECISIONS = st.lists(st.floats(-2, 2), min_size=3, max_size=3)


@fuzzed(few=6, share=0.7)
@given(data=st.data(), name=NAMES, precisions=PRECISIONS)
@torch.no_grad()
def test_curvature_and_evidence_are_those_of_the_dense_matrix(data, name, precisions):
    problem = data.draw(problems(name))
    model, batch = model_of(problem, precisions), (problem.x, problem.y)
    expected = ggn(problem.network, problem.x, problem.loss(), problem.weights)
    largest = expected.abs().max()
    assert_same(full(model, batch).to_dense(), expected, "full", largest)
    assert_same(diag(model, batch).diagonal(), expected.diagonal(), "diag", largest)
    for curvature in (kfac, tkfac):
        blocks = curvature(model, batch).blocks
        exact = diagonal_blocks(expected, [block.size for block in blocks.values()])
        for (weight, block), part in zip(blocks.items(), exact, strict=True):
            if not isinstance(block, Kron):
                assert_same(block.to_dense(), part, f"{curvature.__name__} {weight}", largest)
    shifts = torch.cat([model.prior.shifts()[n].expand(w.numel()) for n, w in model.weights.items()])
    for structure, matrix in (("full", expected), ("kernel", expected), ("diag", expected.diagonal().diag())):
        volume = 0.5 * len(shifts) * math.log(2 * math.pi) - 0.5 * torch.logdet(matrix + shifts.diag())
        found = covary.log_evidence(model, batch, structure)
        torch.testing.assert_close(found.log_volume.double(), volume, rtol=1e-9, atol=1e-7)


def bends(network: nn.Module) -> bool:
    """Whether a difference of evidences may step over a bend."""
    return any(isinstance(m, nn.ReLU | nn.PReLU | nn.modules.pooling._MaxPoolNd) for m in network.modules())


@fuzzed(few=5, share=0.3)
@given(
    data=st.data(),
    name=NAMES,
    structure=st.sampled_from(("full", "diag", "kron", "kron-traced")),
    precisions=PRECISIONS,
)
def test_gradients_are_differences_of_evidences(data, name, structure, precisions):
    problem = data.draw(problems(name))
    model, batch = model_of(problem, precisions), (problem.x, problem.y)
    found = hypergrad.direct(model, batch, structure)
    split = hypergrad.two_pass(model, batch, structure)
    for key, gradient in found.items():
        torch.testing.assert_close(split[key], gradient, rtol=1e-6, atol=1e-8)
    parameters = dict(problem.network.named_parameters()) | {"prior.log_precision": model.prior.log_precision}
    for key in found:
        if key in parameters and not (bends(problem.network) and key != "prior.log_precision"):
            expected = difference(model, batch, structure, parameters[key])
            torch.testing.assert_close(
                found[key].sum(), expected, rtol=1e-4, atol=1e-4, msg=lambda m, k=key: f"{k}: {m}"
            )


@torch.no_grad()
def difference(model: covary.Model, batch: tuple[Tensor, Tensor], structure: str, parameter: Tensor) -> Tensor:
    """The central difference of the evidence along the sum of all entries of a parameter."""
    values, step = [], 1e-5
    for sign in (1, -1):
        parameter += sign * step
        values.append(covary.log_evidence(model, batch, structure).log_evidence)
        parameter -= sign * step
    return (values[0] - values[1]) / (2 * step)
