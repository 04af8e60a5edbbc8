"""Effective numbers of parameters against the trace that defines them."""

import pytest
import torch

import covary
from cases import CASES, targets
from covary.batches import as_batches
from covary.curvature.passes import curvature_pass


@pytest.mark.parametrize("curvature", ["kron", "kron-traced", "full", "diag"])
@pytest.mark.parametrize("structure", ["layerwise", "scalar", {"first": "0.*", "second": "2.*"}])
def test_effective_parameters_are_the_trace_of_the_shrinkage(curvature, structure):
    network, x = CASES["linear"].make(6)
    prior = covary.Prior(network, structure, 0.5)
    model, data = covary.Model(network, prior=prior), (x, targets("categorical", 6))
    rows = covary.effective_parameters(model, data, curvature)
    with torch.no_grad():
        h = curvature_pass(model, as_batches(data), covary.Curvature(curvature)).curvature.to_dense()
    shift = torch.cat([prior.shifts()[n].expand(w.numel()) for n, w in model.weights.items()]).detach()
    shrinkage = torch.linalg.solve(h + torch.diag(shift), h).diagonal()
    groups = [prior.group_of(n) for n, w in model.weights.items() for _ in range(w.numel())]
    for row in rows:
        mine = torch.tensor([group == row.group for group in groups])
        assert row.gamma == pytest.approx(float(shrinkage[mine].sum()), rel=1e-9)
        assert row.normalized == pytest.approx(row.gamma / row.num_params)
    assert sum(row.relative for row in rows) == pytest.approx(1.0)
    assert sum(row.num_params for row in rows) == prior.num_params
