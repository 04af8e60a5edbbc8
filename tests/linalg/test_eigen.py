"""Eigen-decompositions: computed once, without graph, without changing the caller's threads."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from covary.data import load
from covary.errors import NotPositiveDefiniteError, StructureError
from covary.linalg import Block, Dense, Kron, eigen
from covary.linalg.eigen import eigh_all, eigvalsh_all

from .structures import gram
from .test_psd import EXACT


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def counting(name: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """(threads, grad mode) of every call of the function of `torch.linalg`."""
    seen: list[tuple[int, bool]] = []
    original = getattr(torch.linalg, name)

    def counted(matrix: Tensor):
        seen.append((torch.get_num_threads(), torch.is_grad_enabled()))
        return original(matrix)

    monkeypatch.setattr(torch.linalg, name, counted)
    return seen


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    return counting("eigh", monkeypatch)


@pytest.fixture
def value_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    return counting("eigvalsh", monkeypatch)


def threads_of_a_new_thread() -> int:
    with ThreadPoolExecutor(1) as worker:
        return worker.submit(torch.get_num_threads).result()


@pytest.mark.parametrize("size", [3, 410], ids=["in the caller", "side by side"])
def test_spectra_rebuild_their_matrices(size: int, two_threads: None) -> None:
    matrices = [gram(0, size, size), gram(1, 2, size, size), gram(2, 1, size, size), gram(3, 5, 5)]
    for matrix, (values, vectors) in zip(matrices, eigh_all(matrices), strict=True):
        assert values.shape == matrix.shape[:-1]
        rebuilt = (vectors * values.unsqueeze(-2)) @ vectors.mT
        torch.testing.assert_close(rebuilt, matrix, rtol=1e-10, atol=1e-10 * float(matrix.abs().max()))


@pytest.mark.parametrize("size", [3, 410], ids=["in the caller", "side by side"])
def test_threads_are_one_inside_and_the_callers_afterwards(
    size: int, two_threads: None, calls: list[tuple[int, bool]]
) -> None:
    eigh_all([gram(0, size, size).requires_grad_(), gram(1, size, size)])
    assert calls == [(1, False), (1, False)]
    assert torch.get_num_threads() == 2
    assert threads_of_a_new_thread() == 2
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("size", [3, 410], ids=["in the caller", "side by side"])
def test_threads_are_the_callers_after_an_error(size: int, two_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(matrix: Tensor):
        raise torch.linalg.LinAlgError("no convergence")

    monkeypatch.setattr(torch.linalg, "eigh", failing)
    with pytest.raises(NotPositiveDefiniteError, match=r"first did not converge.*not finite"):
        eigh_all([gram(0, size, size), gram(1, size, size)], ["first", "second"])
    assert torch.get_num_threads() == 2
    assert threads_of_a_new_thread() == 2


@pytest.mark.parametrize("estimated", [False, True])
def test_low_rank_in_single_precision(estimated: bool) -> None:
    """Few digits with black borders: LAPACK in single precision fails, or gives NaN, on several of these."""
    images = load("mnist-mini").x_train
    for start in range(0, 600, 60):
        rows = images[start : start + 60].flatten(1)
        (spectrum,) = eigh_all([rows.T @ rows], ["digits"], [estimated])
        assert spectrum.values.dtype == torch.float32
        rebuilt = (spectrum.vectors * spectrum.values) @ spectrum.vectors.T
        torch.testing.assert_close(rebuilt, rows.T @ rows, rtol=0, atol=1e-4 * float(spectrum.values.max()))


@pytest.mark.parametrize("name", ["eigh", "eigvalsh"])
def test_estimates_stay_in_single_precision_unless_it_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original, types, broken = getattr(torch.linalg, name), [], [""]
    matrix = gram(0, 40, 40).float()
    solver = {"eigh": lambda *a: eigh_all(*a)[0].values, "eigvalsh": lambda *a: eigvalsh_all(*a)[0]}[name]

    def solved(m: Tensor):
        types.append(m.dtype)
        if m.dtype == torch.float32 and broken[0] == "raises":
            raise torch.linalg.LinAlgError("no convergence")
        if m.dtype == torch.float32 and broken[0] == "nan":
            return _nan(original(m))
        return original(m)

    monkeypatch.setattr(torch.linalg, name, solved)
    exact = solver([matrix])
    assert types == [torch.float64]
    torch.testing.assert_close(solver([matrix], [], [True]), exact, rtol=1e-4, atol=1e-5 * float(exact.max()))
    assert types[1:] == [torch.float32]
    for failure in ("raises", "nan"):
        broken[0] = failure
        types.clear()
        torch.testing.assert_close(solver([matrix], [], [True]), exact, rtol=0, atol=0)
        assert types == [torch.float32, torch.float64]


def _nan(found: object) -> object:
    if isinstance(found, Tensor):
        return torch.full_like(found, torch.nan)
    values, vectors = found  # type: ignore[misc]
    return torch.full_like(values, torch.nan), vectors


@pytest.mark.parametrize("size", [3, 410], ids=["in the caller", "side by side"])
def test_eigenvalues_alone_are_those_of_the_spectra(
    size: int, two_threads: None, value_calls: list[tuple[int, bool]]
) -> None:
    matrices = [gram(0, size, size), gram(1, 2, size, size), gram(3, 5, 5)]
    for values, spectrum in zip(eigvalsh_all(matrices), eigh_all(matrices), strict=True):
        torch.testing.assert_close(values, spectrum.values, rtol=1e-10, atol=1e-10 * float(values.max()))
    assert set(value_calls) == {(1, False)}
    assert torch.get_num_threads() == 2


def test_a_value_is_decomposed_once(calls: list[tuple[int, bool]], value_calls: list[tuple[int, bool]]) -> None:
    for value, matrices in ((Dense(gram(0, 3, 3)), 1), (Kron(gram(1, 3, 3), gram(2, 2, 2)), 2)):
        calls.clear()
        value_calls.clear()
        value.to_dense(), value.matvec(torch.ones(value.size)), value.trace()
        assert len(calls) == len(value_calls) == 0
        value.logdet(1.0), value.logdet(2.0), value.effective_dimension(1.0)
        assert (len(calls), len(value_calls)) == (0, matrices), "a log-determinant needs no eigenvectors"
        value.solve(torch.ones(value.size), 0.5), value.sample(torch.ones(value.size), 0.5)
        value.half_logdet_cotangents(1.0), value.logdet(3.0)
        assert (len(calls), len(value_calls)) == (matrices, matrices)


def test_a_block_that_is_decomposed_in_full_first_is_decomposed_once(
    calls: list[tuple[int, bool]], value_calls: list[tuple[int, bool]]
) -> None:
    block = Block({"a": Dense(gram(0, 3, 3)), "b": Kron(gram(1, 3, 3), gram(2, 2, 2))})
    block.decompose(1.0)
    block.logdet(1.0), block.half_logdet_cotangents(2.0), block.effective_dimension(1.0)
    assert (len(calls), len(value_calls)) == (3, 0)


def test_negative_eigenvalues_of_an_estimate_are_noise() -> None:
    noisy = torch.diag(torch.tensor([-0.2, 1.0, 0.5]))
    with pytest.raises(NotPositiveDefiniteError, match="below zero by more than rounding"):
        Kron(noisy, torch.eye(1)).logdet(1.0)
    value = Kron(noisy, torch.eye(1), estimated=True)
    clean = Kron(torch.diag(torch.tensor([0.0, 1.0, 0.5])), torch.eye(1))
    for kept in (value, value.map(torch.clone), value.named("x")):
        torch.testing.assert_close(kept.logdet(2.0), clean.logdet(2.0), **EXACT)
        for ours, theirs in zip(kept.half_logdet_cotangents(2.0), clean.half_logdet_cotangents(2.0), strict=True):
            torch.testing.assert_close(ours, theirs, **EXACT)
    assert value.accumulate(clean).estimated


def test_a_graph_recorded_after_the_decomposition_is_complete() -> None:
    matrix = gram(0, 3, 3).requires_grad_()
    value = Dense(matrix)
    with torch.no_grad():
        value.logdet(1.0)
    (ours,) = torch.autograd.grad(value.logdet(1.0), matrix)
    torch.testing.assert_close(ours, torch.linalg.inv(matrix.detach() + torch.eye(3)), **EXACT)


def test_rounding_below_zero_is_set_to_zero() -> None:
    eps = torch.finfo(torch.float64).eps
    (spectrum,) = eigh_all([torch.diag(torch.tensor([-29 * eps, 1.0, 0.5]))])  # the limit is 30 eps
    assert spectrum.values.min() == 0
    with pytest.raises(NotPositiveDefiniteError, match=r"'x' .* is -6\.883e-15, below zero by more than rounding"):
        eigh_all([torch.diag(torch.tensor([-31 * eps, 1.0, 0.5]))], ["'x'"])


def test_products_too_small_for_normal_numbers_are_rounded_absolutely() -> None:
    """An inactive path: entries of 1e-40 in single precision have lost most of their digits."""
    matrix = torch.diag(torch.tensor([4e-39, -2.2e-42], dtype=torch.float32))
    (spectrum,) = eigh_all([matrix])
    assert bool((spectrum.values >= 0).all())
    with pytest.raises(NotPositiveDefiniteError, match=r"is -2\.200e-33"):  # the control
        eigh_all([torch.diag(torch.tensor([4e-30, -2.2e-33], dtype=torch.float32))])


def test_rounding_is_relative_to_each_matrix_of_a_stack() -> None:
    small, large = torch.diag(torch.tensor([-1e-9, 1e-3])), torch.diag(torch.tensor([1.0, 1e9]))
    with pytest.raises(NotPositiveDefiniteError):
        eigh_all([torch.stack([small, large])])


def test_bad_entries_are_refused_before_the_decomposition(calls: list[tuple[int, bool]]) -> None:
    with pytest.raises(NotPositiveDefiniteError, match="'x' must be finite; 1 are not"):
        eigh_all([torch.eye(2), torch.tensor([[torch.nan]])], ["'w'", "'x'"])
    with pytest.raises(StructureError, match="must be symmetric"):
        eigh_all([torch.ones(2, 2).tril()])
    assert calls == []


def test_an_empty_list_of_matrices() -> None:
    assert eigh_all([]) == []
    eigen.decompose({})
