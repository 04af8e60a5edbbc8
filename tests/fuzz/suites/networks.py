"""Curvature, evidence and its gradient of random networks against brute force, one kind for each layer."""

import math
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import covary
from cases import diagonal_blocks
from covary import hypergrad
from covary.curvature import diag, full, kfac, tkfac
from covary.linalg import Kron
from fuzz.outcome import Row
from fuzz.random_networks import LAYERS, Problem, assert_same, problems
from oracles.curvature import ggn

NUM_CASES = 2000
STRUCTURES = ("full", "diag", "kron", "kron-traced", "kron-shared")
PRECISIONS = st.lists(st.floats(-2, 2), min_size=3, max_size=3)


def run(num_cases: int, seed: int) -> Iterator[Row]:
    """A row for each layer; cases of one layer end with the first that fails, which is then made smaller."""
    for kind in LAYERS:
        yield _row(kind, math.ceil(num_cases / len(LAYERS)), seed)


def show(case: str, seed: int) -> int:
    """Run the cases of one kind, KIND:SEED, and print what fails."""
    kind, _, number = case.rpartition(":")
    row = _row(kind, math.ceil(NUM_CASES / len(LAYERS)), int(number or seed), full_report=True)
    print("\n".join(row.failures) or f"{row.tried} cases held")
    return 1 if row.failures else 0


def _row(kind: str, num_cases: int, number: int, full_report: bool = False) -> Row:
    seconds, failures = [], []

    def case(data: st.DataObject, precisions: list[float], structure: str, with_gradient: bool) -> None:
        started = time.perf_counter()
        problem = data.draw(problems(kind))
        check_curvature(problem, precisions)
        if with_gradient:
            check_gradient(problem, precisions, structure)
        seconds.append(time.perf_counter() - started)

    drawn = given(st.data(), PRECISIONS, st.sampled_from(STRUCTURES), st.integers(0, 2).map(lambda n: n == 0))
    try:
        with in_double_precision():
            search(num_cases)(seed(number)(drawn(case)))()
    except Exception as error:
        text = traceback.format_exc() if full_report else str(error).strip().splitlines()[0]
        failures.append(f"{kind}:{number} {text}")
    return Row(kind, max(1, len(seconds)), failures, max(seconds, default=0.0))


def search(num_cases: int) -> Callable:
    """The settings of a search for a case that fails."""
    return settings(
        max_examples=num_cases,
        database=None,
        deadline=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
    )


@contextmanager
def in_double_precision() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_default_dtype(before)


def model_of(problem: Problem, log_precisions: list[float]) -> covary.Model:
    """The model with a random precision for each weight."""
    prior = covary.Prior(problem.network)
    with torch.no_grad():
        prior.log_precision.copy_(torch.tensor(log_precisions)[torch.arange(len(prior.log_precision)) % 3])
    return covary.Model(problem.network, problem.likelihood, prior)


@torch.no_grad()
def check_curvature(problem: Problem, precisions: list[float]) -> None:
    """Compare every structure, and the evidence of those that are exact, with the dense matrix."""
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


def check_gradient(problem: Problem, precisions: list[float], structure: str) -> None:
    """Compare the gradient of an evidence, in one graph and in two passes, with differences of evidences."""
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
