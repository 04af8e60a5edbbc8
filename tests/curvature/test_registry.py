"""The choice of curvature: names, checks, and the options of KFAC."""

import math

import pytest
import torch
from torch import nn

import covary
from covary import hypergrad
from covary.batches import as_batches
from covary.curvature import Curvature
from covary.curvature.capture import capture
from covary.curvature.ggn import ggn
from covary.curvature.passes import curvature_pass, root_probes
from covary.curvature.registry import (
    as_curvature,
    automatic_probes,
    check_blocks,
    check_curvature,
    check_probes,
    joined_shifts,
)
from covary.errors import StructureError
from covary.layers import FactoredDense
from covary.linalg import Dense, Diagonal, Kron
from covary.priors import weights_of


def test_a_name_is_a_choice_with_exact_probes():
    assert as_curvature("diag") == covary.Curvature("diag", "exact")
    choice = covary.Curvature("kron", 3)
    assert as_curvature(choice) is choice


@pytest.mark.parametrize("name", ["low rank", None, 3])
def test_unknown_names_are_refused(name):
    with pytest.raises(StructureError, match="out of 'kron', 'kron-traced', 'kron-shared', 'full', 'diag', 'kernel'"):
        as_curvature(name)


def factored() -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(0)
    network = nn.Sequential(FactoredDense((2, 4, 4), (3, 2, 2)), nn.Tanh(), nn.Flatten(), nn.Linear(12, 3))
    return network, (torch.randn(9, 2, 4, 4), torch.arange(9) % 3)


def test_a_shared_gradient_factor_is_a_curvature_of_evidence_gradient_posterior_and_fit():
    network, data = factored()
    shared, own = (covary.log_evidence(network, data, name).log_evidence for name in ("kron-shared", "kron"))
    assert shared != own
    posterior = covary.Laplace(network, data, "kron-shared").log_evidence()
    assert posterior.log_evidence.item() == pytest.approx(shared.item())
    direct, split = (way(network, data, "kron-shared") for way in (hypergrad.direct, hypergrad.two_pass))
    torch.testing.assert_close(split["prior.log_precision"], direct["prior.log_precision"])
    run = covary.fit(network, data, epochs=2, curvature="kron-shared", callbacks=())
    assert run.record.evidence.curvature == "kron-shared"


def test_the_evidence_of_a_shared_gradient_factor_is_that_of_its_dense_blocks():
    network, data = factored()
    model = covary.Model(network)
    blocks = ggn(model, data, covary.Curvature("kron-shared"))
    expected = sum(torch.logdet(block.to_dense() + torch.eye(block.size)) for block in blocks.blocks.values())
    terms = covary.log_evidence(model, data, "kron-shared")
    volume = 0.5 * model.prior.num_params * math.log(2 * math.pi) - 0.5 * expected
    torch.testing.assert_close(terms.log_volume.double(), volume.detach())


@pytest.mark.parametrize("probes", [0, -1, True, "all", 1.5])
def test_probes_that_mean_nothing_are_refused(probes):
    with pytest.raises(StructureError, match="positive number of random probes"):
        check_probes(probes)


@pytest.mark.parametrize(
    ("structure", "kind"), [("kron", Kron), ("kron-traced", Kron), ("full", Dense), ("diag", Diagonal)]
)
def test_each_name_has_its_blocks(structure, kind):
    network = nn.Linear(4, 3)
    captured = capture(network, torch.randn(5, 4), weights_of(network))
    blocks = covary.Curvature(structure).blocks(captured, root_probes(covary.Categorical(), captured.outputs, None))
    assert isinstance(next(iter(blocks.values())), kind)


def test_the_options_of_kfac_reach_its_blocks():
    network = nn.Sequential(nn.Conv2d(1, 2, 2), nn.Flatten(), nn.Linear(8, 3))
    data = (torch.randn(5, 1, 3, 3), torch.arange(5) % 3)
    values = [
        covary.log_evidence(network, data, covary.Curvature(kfac_approx=approx)).log_evidence
        for approx in ("expand", "reduce")
    ]
    assert values[0] != values[1]


def test_a_kernel_has_no_blocks_of_weights():
    prior = covary.Prior(nn.Linear(4, 3))
    check_curvature(covary.Curvature("kernel"), prior)
    with pytest.raises(StructureError, match="'kernel' is a matrix over data"):
        check_blocks(covary.Curvature("kernel"), prior)


@pytest.mark.parametrize("structure", ["full", "diag"])
def test_shifts_are_those_of_the_blocks(structure):
    model = covary.Model(nn.Linear(4, 3))
    data = (torch.randn(5, 4), torch.arange(5) % 3)
    curvature = {"full": covary.curvature.full, "diag": covary.curvature.diag}[structure](model, data)
    blocks = covary.linalg.Block({"all weights": curvature}) if structure == "full" else curvature
    assert list(joined_shifts(blocks, model)) == list(blocks.blocks)


@pytest.mark.parametrize(
    ("num_data", "probes", "expected"),
    [(40, 1, "exact"), (399, 1, "exact"), (400, 1, 1), (100, 4, 4), (99, 4, "exact")],
)
def test_random_probes_need_enough_data(num_data, probes, expected):
    assert automatic_probes(num_data, probes) == expected


def test_the_bias_of_random_probes_falls_with_the_number_of_data_and_is_below_a_percent_where_they_are_chosen():
    """The effective number of parameters, the derivative by the prior: minus 3 % for 20 data, 0.2 % for 400."""
    errors = {}
    for num_data, draws in ((20, 12), (400, 2)):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5))
        data = torch.randn(num_data, 6), torch.arange(num_data) % 5
        choices = [covary.Curvature(), *[covary.Curvature(probes=1)] * draws]
        found = [covary.effective_parameters(network, data, choice, seed=s) for s, choice in enumerate(choices)]
        exact, *random = (sum(group.gamma for group in groups) for groups in found)
        errors[num_data] = sum(random) / draws / exact - 1
    assert errors[20] < -0.02
    assert abs(errors[400]) < 0.01


@pytest.mark.parametrize("structure", ["kron", "kron-traced"])
def test_weights_with_large_factors_get_the_diagonal_of_their_block(structure, generator):
    network = nn.Sequential(nn.Linear(9, 4), nn.Tanh(), nn.Linear(4, 3))
    x, y = torch.randn(6, 9, generator=generator), torch.arange(6) % 3
    limited = blocks_of(network, x, y, Curvature(structure, max_factor_size=8))
    free, diagonal = blocks_of(network, x, y, Curvature(structure)), blocks_of(network, x, y, Curvature("diag"))
    torch.testing.assert_close(limited["0.weight"].to_dense(), diagonal["0.weight"].to_dense())
    torch.testing.assert_close(limited["2.weight"].to_dense(), free["2.weight"].to_dense())
    assert not torch.allclose(free["0.weight"].to_dense(), diagonal["0.weight"].to_dense())


def test_the_rows_of_a_table_are_no_large_factor(generator):
    network = nn.Sequential(nn.Embedding(50, 3), nn.Flatten(), nn.Linear(6, 2))
    x, y = torch.randint(50, (5, 2), generator=generator), torch.arange(5) % 2
    limited = blocks_of(network, x, y, Curvature("kron", max_factor_size=8))
    torch.testing.assert_close(
        limited["0.weight"].to_dense(), blocks_of(network, x, y, Curvature())["0.weight"].to_dense()
    )


def test_an_impossible_limit_of_factors():
    with pytest.raises(StructureError, match="max_factor_size must be positive"):
        Curvature(max_factor_size=0)


def blocks_of(network, x, y, curvature):
    with torch.no_grad():
        return curvature_pass(covary.Model(network), as_batches((x, y)), curvature).curvature.blocks
