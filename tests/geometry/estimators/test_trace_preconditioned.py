"""The log-determinant near the identity against the dense one."""

import pytest
import torch

from covary.errors import DataError, NotPositiveDefiniteError
from covary.geometry import MatrixFree, estimate_log_det_preconditioned
from covary.geometry.estimators.estimate import NORMAL_95, accuracy


def near_identity(size: int = 150) -> torch.Tensor:
    """A dense matrix, a third of whose eigenvalues are far from 1, to either side."""
    generator = torch.Generator().manual_seed(0)
    basis, _ = torch.linalg.qr(torch.randn(size, size, generator=generator))
    logs = torch.zeros(size)
    logs[: size // 3] = torch.linspace(-4, 2, size // 3)
    return (basis * logs.exp()) @ basis.T


def operator(matrix: torch.Tensor) -> MatrixFree:
    return MatrixFree(lambda vectors: vectors @ matrix, len(matrix), matrix.dtype)


def test_estimates_are_calibrated_over_seeds():
    matrix = near_identity()
    truth = torch.linalg.slogdet(matrix).logabsdet
    found = [estimate_log_det_preconditioned(operator(matrix), num_probes=8, num_steps=8, seed=s) for s in range(60)]
    assert accuracy(found, truth).num_covered >= 55
    scores = torch.stack([(each.value - truth) / (each.error / NORMAL_95) for each in found])
    assert 0.5 < float(scores.square().mean().sqrt()) < 1.1
    assert abs(float(scores.mean())) < 0.4  # no bias that many probes would show
    assert abs(float(truth)) > 3 * float(found[0].error)  # the control: 0 is no answer


def test_it_is_exact_on_the_whole_space_and_of_the_identity():
    matrix = near_identity(24)
    whole = estimate_log_det_preconditioned(operator(matrix), num_probes=4, num_steps=6)
    torch.testing.assert_close(whole.value, torch.linalg.slogdet(matrix).logabsdet.double(), rtol=1e-10, atol=0)
    assert whole.error == 0
    identity = estimate_log_det_preconditioned(operator(torch.eye(200)), num_probes=4, num_steps=5)
    assert abs(float(identity.value)) < 1e-10
    assert float(identity.error) < 1e-10


def test_more_probes_lower_the_error_and_seeds_repeat():
    matrix = operator(near_identity())
    few, many, again = (
        estimate_log_det_preconditioned(matrix, num_probes=number, num_steps=8, seed=3) for number in (4, 16, 4)
    )
    assert many.error < few.error
    assert few == again


def test_what_it_cannot_do_is_refused():
    with pytest.raises(DataError, match="at least 3 steps"):
        estimate_log_det_preconditioned(operator(torch.eye(9)), num_steps=2)
    with pytest.raises(NotPositiveDefiniteError, match="positive definite"):
        estimate_log_det_preconditioned(operator(torch.diag(torch.linspace(-1, 2, 60))))
