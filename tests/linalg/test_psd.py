"""Every structure agrees with its dense matrix: values, first derivatives, samples, sums."""

import pytest
import torch
from torch import Tensor

from covary.linalg import AbstractPSD
from oracles import linalg as oracle

from .structures import CASES, Case, normal

EXACT = {"rtol": 1e-10, "atol": 1e-11}  # rounding in float64
SHIFT = 0.7


@pytest.fixture(params=CASES.values(), ids=list(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def flat(statistics: tuple[Tensor, ...] | dict[str, tuple[Tensor, ...]]) -> list[Tensor]:
    """The tensors of a matrix of any structure as one list."""
    if isinstance(statistics, dict):
        return [tensor for group in statistics.values() for tensor in group]
    return list(statistics)


def gradients(case: Case, quantity: str, *arguments: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Derivatives of a quantity of the value, and of its dense definition, by tensors, arguments and shift."""
    found = []
    for definition in (lambda value, *a: getattr(value, quantity)(*a), lambda value, *a: dense(quantity, value, *a)):
        leaves = [*case.leaves(), *(argument.clone().requires_grad_() for argument in arguments)]
        shift = torch.tensor(SHIFT, dtype=torch.float64, requires_grad=True)
        result = definition(case.build(leaves), *leaves[len(case.tensors) :], shift)
        weights = torch.arange(1.0, result.numel() + 1, dtype=torch.float64).reshape(result.shape)
        # `eigh` reads one triangle of a symmetric matrix; derivatives of single entries are not defined.
        derivatives = torch.autograd.grad((weights * result).sum(), [*leaves, shift])
        found.append([symmetric(d) for d in derivatives])
    return found[0], found[1]


def dense(quantity: str, value: AbstractPSD, *arguments: Tensor) -> Tensor:
    return getattr(oracle, quantity)(value.to_dense(), *arguments)


def symmetric(tensor: Tensor) -> Tensor:
    square = tensor.ndim >= 2 and tensor.shape[-1] == tensor.shape[-2]
    return (tensor + tensor.mT) / 2 if square else tensor


def test_reports_size_dtype_and_device(case: Case) -> None:
    value = case.value()
    assert value.to_dense().shape == (value.size, value.size)
    assert (value.dtype, value.device) == (torch.float64, torch.device("cpu"))


def test_products_are_those_of_the_dense_matrix(case: Case) -> None:
    value = case.value()
    vectors = normal(30, 2, 3, value.size)
    torch.testing.assert_close(value.matvec(vectors), vectors @ value.to_dense(), **EXACT)
    torch.testing.assert_close(value.matvec(vectors[0, 0]), value.to_dense() @ vectors[0, 0], **EXACT)


def test_diagonal_and_trace_are_those_of_the_dense_matrix(case: Case) -> None:
    value = case.value()
    torch.testing.assert_close(value.diagonal(), value.to_dense().diagonal(), **EXACT)
    torch.testing.assert_close(value.trace(), value.to_dense().trace(), **EXACT)


@pytest.mark.parametrize("shift", [SHIFT, 2, torch.tensor(1e-3, dtype=torch.float64)], ids=["float", "int", "tensor"])
def test_scalar_shift_gives_the_dense_values(case: Case, shift: float | Tensor) -> None:
    value = case.value()
    vectors = normal(31, 3, value.size)
    matrix = value.to_dense()
    torch.testing.assert_close(value.logdet(shift), oracle.logdet(matrix, shift), **EXACT)
    torch.testing.assert_close(value.solve(vectors, shift), oracle.solve(matrix, vectors, shift), **EXACT)
    expected = oracle.effective_dimension(matrix, shift)
    torch.testing.assert_close(value.effective_dimension(shift), expected, **EXACT)


def test_sampling_covariance_is_the_inverse(case: Case) -> None:
    value = case.value()
    root = value.sample(torch.eye(value.size, dtype=torch.float64), SHIFT).mT  # row i is S eᵢ
    inverse = torch.linalg.inv(oracle.shifted(value.to_dense(), SHIFT))
    torch.testing.assert_close(root @ root.mT, inverse, **EXACT)
    noise = normal(32, 2, 3, value.size)
    torch.testing.assert_close(value.sample(noise, SHIFT), noise @ root.mT, **EXACT)


@pytest.mark.parametrize("quantity", ["logdet", "effective_dimension"])
def test_gradients_are_those_of_the_dense_formula(case: Case, quantity: str) -> None:
    ours, expected = gradients(case, quantity)
    torch.testing.assert_close(ours, expected, **EXACT)


def test_gradients_of_solutions_are_those_of_the_dense_formula(case: Case) -> None:
    ours, expected = gradients(case, "solve", normal(33, 2, case.value().size))
    torch.testing.assert_close(ours, expected, **EXACT)


def test_logdet_passes_gradcheck(case: Case) -> None:
    def through_symmetric(*leaves: Tensor) -> Tensor:
        return case.build([symmetric(leaf) for leaf in leaves[:-1]]).logdet(leaves[-1])

    # Central differences need a spectrum that stays positive; the rank-one case is covered by the other tests.
    eye = [torch.eye(t.shape[-1], dtype=t.dtype) if t.ndim > 1 else torch.ones_like(t) for t in case.tensors]
    leaves = [(t + 0.1 * e).requires_grad_() for t, e in zip(case.tensors, eye, strict=True)]
    shift = torch.tensor(SHIFT, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(through_symmetric, (*leaves, shift))


def test_cotangents_are_the_derivative_of_half_the_dense_logdet(case: Case) -> None:
    leaves = case.leaves()
    half = oracle.logdet(case.build(leaves).to_dense(), SHIFT) / 2
    expected = [symmetric(d) for d in torch.autograd.grad(half, leaves)]
    ours = case.build(leaves).half_logdet_cotangents(SHIFT)
    torch.testing.assert_close(flat(ours), expected, **EXACT)
    assert not any(cotangent.requires_grad for cotangent in flat(ours))


def test_tensors_are_those_of_the_constructor(case: Case) -> None:
    for ours, given in zip(flat(case.value().tensors), case.tensors, strict=True):
        assert ours is given


def test_map_is_applied_to_every_statistic(case: Case) -> None:
    value = case.value()
    torch.testing.assert_close(value.map(lambda t: t.double()).to_dense(), value.to_dense())
    # Doubling A, B and count doubles B ⊗ A / count, so that a count that was not doubled is detected.
    torch.testing.assert_close(value.map(lambda t: 2 * t).to_dense(), 2 * value.to_dense(), **EXACT)
    leaves = case.leaves()
    assert not case.build(leaves).map(torch.Tensor.detach).to_dense().requires_grad


def test_float32_is_close(case: Case) -> None:
    exact, value = case.value(), case.value().map(lambda t: t.float())
    vectors = normal(34, 2, value.size)
    assert value.logdet(SHIFT).dtype == value.solve(vectors.float(), SHIFT).dtype == torch.float32
    # Single precision: eps 1.2e-7 times a condition number of order 100.
    close = {"rtol": 3e-5, "atol": 3e-5, "check_dtype": False}
    torch.testing.assert_close(value.logdet(SHIFT), exact.logdet(SHIFT), **close)
    torch.testing.assert_close(value.solve(vectors.float(), SHIFT), exact.solve(vectors, SHIFT), **close)
    torch.testing.assert_close(value.effective_dimension(SHIFT), exact.effective_dimension(SHIFT), **close)


def test_products_with_numbers_are_exact(case: Case) -> None:
    value = case.value()
    for product in (value * 2.5, 2.5 * value, value * torch.tensor(2.5), torch.tensor(2.5) * value):
        torch.testing.assert_close(product.to_dense(), 2.5 * value.to_dense(), **EXACT)
        torch.testing.assert_close(product.logdet(SHIFT), oracle.logdet(2.5 * value.to_dense(), SHIFT), **EXACT)
    zero = 0 * value
    torch.testing.assert_close(zero.to_dense(), torch.zeros_like(value.to_dense()))
    torch.testing.assert_close(zero.logdet(1.0), torch.zeros((), dtype=torch.float64))


def test_products_differentiate_in_the_number(case: Case) -> None:
    scale = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    (ours,) = torch.autograd.grad((case.value() * scale).logdet(SHIFT), scale)
    (expected,) = torch.autograd.grad(oracle.logdet(scale * case.value().to_dense(), SHIFT), scale)
    torch.testing.assert_close(ours, expected, **EXACT)


def test_accumulation_commutes_with_products(case: Case) -> None:
    value, other = case.value(), case.value() * 0.5
    once = (value.accumulate(other) * 3.0).to_dense()
    torch.testing.assert_close((value * 3.0).accumulate(other * 3.0).to_dense(), once, **EXACT)
    torch.testing.assert_close(value.accumulate(value * 0).to_dense(), value.to_dense(), **EXACT)


def test_degenerate_eigenvalues_have_finite_gradients(case: Case) -> None:
    def equal(tensor: Tensor) -> Tensor:
        if tensor.ndim == 1:
            return torch.ones_like(tensor)
        return torch.eye(tensor.shape[-1], dtype=tensor.dtype).expand(tensor.shape).clone()

    flattened = {"identity": equal, "ones": torch.ones_like, "zero": torch.zeros_like}
    for change in flattened.values():
        ours, expected = gradients(Case(case.build, [change(t) for t in case.tensors]), "logdet")
        torch.testing.assert_close(ours, expected, **EXACT)
        ours, expected = gradients(Case(case.build, [change(t) for t in case.tensors]), "effective_dimension")
        torch.testing.assert_close(ours, expected, **EXACT)


def test_vectors_of_the_wrong_size_are_refused(case: Case) -> None:
    value = case.value()
    wrong = normal(35, value.size + 1)
    for call in (value.matvec, value.solve, value.sample):
        with pytest.raises(ValueError, match=rf"\(\.\.\., {value.size}\).*got \({value.size + 1},\)"):
            call(wrong)


def test_negative_multiples_are_refused(case: Case) -> None:
    with pytest.raises(ValueError, match="at least 0, got -1"):
        -1.0 * case.value()
