"""The corrected evidence against the log-determinant of the dense Gauss–Newton matrix."""

import math

import pytest
import torch
from torch import nn

import covary
from covary.batches import as_batches
from covary.errors import StructureError
from covary.evidence import Correction
from covary.evidence import correction as module
from oracles.curvature import ggn, loss_of

PRECISION = 0.4


def trained(num_data: int, *, seed: int = 0) -> tuple[covary.Model, tuple[torch.Tensor, torch.Tensor]]:
    """A small network near a mode of synthetic classes, with one precision per tensor."""
    torch.manual_seed(seed)
    x = torch.randn(num_data, 1, 6, 6)
    y = (x[:, 0, :3].sum((1, 2)) > 0).long() + (x[:, 0, 3:].sum((1, 2)) > 0).long()
    network = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(48, 6), nn.Tanh(), nn.Linear(6, 3))
    optimizer = torch.optim.Adam(network.parameters(), 0.02)
    for _ in range(60):
        optimizer.zero_grad()
        decay = PRECISION * sum(weight.square().sum() for weight in network.parameters())
        (nn.functional.cross_entropy(network(x), y, reduction="sum") + 0.5 * decay).backward()
        optimizer.step()
    return covary.Model(network, covary.Categorical(), covary.Prior(network, "layerwise", PRECISION)), (x, y)


def dense_volume(model: covary.Model, data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """The log-volume of the whole Gauss–Newton matrix, as the Hessian of the linearized network's loss."""
    curvature = ggn(model.network, data[0], loss_of("categorical", data[1]))
    whole = curvature + PRECISION * torch.eye(len(curvature))
    return 0.5 * (len(whole) * math.log(2 * math.pi) - torch.linalg.slogdet(whole).logabsdet)


@pytest.mark.parametrize(("num_data", "over"), [(12, "data"), (150, "weights")])
@pytest.mark.parametrize("curvature", ["kron", "diag"])
def test_the_exact_correction_is_that_of_the_dense_matrix(num_data, over, curvature):
    model, data = trained(num_data)
    assert module.exact_size(model, as_batches(data), num_data).over == over
    plain = covary.log_evidence(model, data, curvature)
    whole = covary.log_evidence(model, data, curvature, correction="exact")
    expected = dense_volume(model, data)
    torch.testing.assert_close(whole.log_volume, expected, rtol=1e-9, atol=0)
    torch.testing.assert_close(whole.correction, expected - plain.log_volume, rtol=1e-8, atol=0)
    assert whole.standard_error == 0
    assert (whole.log_likelihood, whole.log_prior) == (plain.log_likelihood, plain.log_prior)
    assert whole.log_evidence - plain.log_evidence > 2  # the control: layers as independent overstate the price


def test_lanczos_is_inside_its_error_over_seeds():
    model, data = trained(60)
    truth, plain = dense_volume(model, data), covary.log_evidence(model, data)
    few = Correction("lanczos", num_probes=6, num_steps=7)
    found = [covary.log_evidence(model, data, correction=few, seed=seed) for seed in range(16)]
    scores = torch.stack([(each.log_volume - truth) / each.standard_error for each in found])
    assert 0.3 < float(scores.square().mean().sqrt()) < 1.3
    assert int((scores.abs() < 1.96).sum()) >= 15
    assert truth - plain.log_volume > 3 * found[0].standard_error  # the control: KFAC alone is outside


def test_the_average_over_an_augmentation_is_corrected_alike():
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8, 3))
    network = covary.Averaged(inner, covary.augment.Affine2d(initial_width=0.3), 4)
    model, data = covary.Model(network), (torch.randn(9, 1, 4, 4), torch.arange(9) % 3)
    expected = covary.log_evidence(model, data, "full")
    for method in ("exact", "auto", Correction("lanczos", num_probes=15, num_steps=3)):
        found = covary.log_evidence(model, data, correction=method)
        error = 3 * float(found.standard_error)
        torch.testing.assert_close(found.log_evidence, expected.log_evidence, rtol=1e-9, atol=error)


def test_a_matrix_that_does_not_fit_is_refused_with_numbers_and_estimated_by_auto(monkeypatch):
    model, data = trained(30)
    monkeypatch.setattr(module, "available_memory", lambda: 200_000)
    with pytest.raises(StructureError, match=r"90 × 90 over data, about 0\.0 GiB in all.*correction='lanczos'"):
        covary.log_evidence(model, data, correction="exact")
    found = covary.log_evidence(model, data, correction=Correction("auto", num_probes=4, num_steps=4))
    assert found.standard_error > 0
    monkeypatch.setattr(module, "available_memory", lambda: 1_000)
    with pytest.raises(StructureError, match="fewer probes or steps"):
        covary.log_evidence(model, data, correction="lanczos")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"curvature": "full", "correction": "exact"}, "whole Gauss–Newton matrix already"),
        ({"curvature": "kernel", "correction": "auto"}, "whole Gauss–Newton matrix already"),
        ({"correction": "exact", "mode_correction": True}, "got both"),
    ],
)
def test_what_cannot_be_corrected_is_refused(arguments, message):
    data = torch.randn(4, 3), torch.arange(4) % 2
    with pytest.raises(StructureError, match=message):
        covary.log_evidence(nn.Linear(3, 2), data, **arguments)
    with pytest.raises(StructureError, match="'auto', 'exact', 'lanczos', got 'lanzos'"):
        module.as_correction("lanzos")
    with pytest.raises(StructureError, match="3 steps"):
        Correction("lanczos", num_steps=1)
