"""The stated errors and the accuracy of the estimates on networks of 2,000 weights."""

import pytest
import torch

import covary
from covary.errors import DataError
from covary.geometry import Effort, Estimate, MatrixFree, gauss_newton, loss_hessian, sharpness_accuracy
from covary.geometry.estimators.accuracy import accuracy
from geometry.small_networks import trained


def dense(matrix):
    return MatrixFree(lambda vectors: vectors @ matrix, len(matrix))


def test_it_counts():
    estimates = [Estimate(torch.tensor([v, 2.0]), torch.tensor([0.5, 0.1]), 3) for v in (1.0, 1.4, 1.6, 0.0)]
    assert accuracy(estimates, torch.tensor([1.0, 2.0])) == (2, 4, 1.0, 3)
    with pytest.raises(DataError, match="at least one seed"):
        accuracy([], torch.tensor(1.0))


@pytest.mark.slow
def test_networks_of_2000_weights():
    """Trace within 2 %, log-determinant within 1 %, eigenvalues within 0.1 %, and intervals that hold the truth."""
    network, data = trained(200)
    matrices = [make(network, covary.Categorical(), data).to_dense() for make in (loss_hessian, gauss_newton)]
    effort = Effort(trace_products=90, num_probes=40, probe_steps=6)
    found = sharpness_accuracy(*map(dense, matrices), effort=effort, num_seeds=3)
    for name, bar in {"trace": 0.02, "log_det": 0.01, "eigenvalues": 0.001}.items():
        assert found[name].largest_error < bar, (name, found[name])
        assert found[name].num_covered == 3, (name, found[name])
    assert all(row.num_products < 500 for row in found.values())


def test_intervals_of_a_small_network_hold_the_truth():
    """With few products, so that there is an error to state: 95 of 100, and 90 is the bar."""
    network, data = trained(60, num_hidden=4)
    matrices = [make(network, covary.Categorical(), data).to_dense() for make in (loss_hessian, gauss_newton)]
    effort = Effort(trace_products=18, num_eigenvalues=3, eigenvalue_steps=2, num_probes=4, probe_steps=4)
    found = sharpness_accuracy(*map(dense, matrices), effort=effort, num_seeds=100)
    assert all(row.num_covered >= 90 for row in found.values()), found
    assert all(row.largest_error > 1e-3 for row in found.values()), found
