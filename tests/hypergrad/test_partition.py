"""The bound of a partition as a function of the prior: equal to the evidence in one block, below it in several."""

import itertools
import math

import pytest
import torch
from torch import Tensor, nn

import covary
from cases import CASES, NUM_OUTPUTS, targets
from covary.batches import IndexedBatch, as_batches
from covary.curvature.capture import capture
from covary.curvature.kernel import tangent_kernel, weight_kernels
from covary.curvature.passes import root_probes
from covary.errors import NotPositiveDefiniteError, StructureError
from covary.evidence.terms import prior_log_det
from covary.hypergrad import partition
from covary.hypergrad.partition import partition_gradient, partition_pass
from covary.hypergrad.stochastic import check_outputs, draw_outputs, minibatch_estimate
from oracles.curvature import ggn, loss_of

NUM_DATA = 6
STEP = 1e-6
SEED = 3


def setup(structure: str = "layerwise"):
    """A small network, its prior with precisions that differ, and data."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, NUM_OUTPUTS))
    prior = covary.Prior(network, structure, 0.6)
    with torch.no_grad():
        prior.log_precision.add_(0.3 * torch.randn_like(prior.log_precision))
    return covary.Model(network, prior=prior), (torch.randn(NUM_DATA, 2), targets("categorical", NUM_DATA))


def in_blocks(model: covary.Model, data: tuple[Tensor, Tensor], size: int, outputs: str = "all") -> partition.Partition:
    return partition_pass(model, as_batches(data), torch.arange(len(data[0])).split(size), outputs, seed=SEED)


@pytest.mark.parametrize("case", list(CASES))
def test_the_kernel_of_any_prior_is_a_sum_over_weights(case):
    network, x = CASES[case].make(3)
    prior = covary.Prior(network)
    with torch.no_grad():
        prior.log_precision.copy_(torch.linspace(-1, 2, len(prior.log_precision)))
        captured, again = (capture(network, x, prior.weights(network)) for _ in range(2))
        likelihood = covary.Gaussian()
        expected = tangent_kernel(again, root_probes(likelihood, again.outputs, None), prior.shifts())
        kernels = weight_kernels(captured, root_probes(likelihood, captured.outputs, None))
        found = torch.einsum("w,wij->ij", torch.stack([1 / prior.shifts()[n] for n in captured.weights]), kernels)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("structure", ["scalar", "layerwise"])
def test_one_block_with_all_outputs_is_the_evidence_of_the_full_curvature_with_its_gradient(structure):
    model, data = setup(structure)
    found = partition_gradient(model, in_blocks(model, data, NUM_DATA))
    expected = covary.hypergrad.direct(model, data, "full")
    for term in ("log_likelihood", "log_prior", "log_volume", "log_evidence"):
        torch.testing.assert_close(getattr(found.terms, term), getattr(expected.terms, term), rtol=1e-10, atol=1e-10)
    assert found.keys() == expected.keys() == {"prior.log_precision"}
    torch.testing.assert_close(found["prior.log_precision"], expected["prior.log_precision"], rtol=1e-8, atol=1e-10)
    assert found.terms.num_data == NUM_DATA
    assert set(found.terms.structures.values()) == {"kernel"}


@pytest.mark.parametrize("size", [1, 2, 4, 6])
def test_blocks_are_exact_gauss_newton_matrices_of_their_data(size):
    """A second definition: log|H_b + δ| − log|δ| of the Hessian of the linearized loss, without any kernel."""
    model, (x, y) = setup()
    shift = torch.cat([model.prior.shifts()[n].detach().expand(w.numel()) for n, w in model.weights.items()])
    expected = 0.5 * (len(shift) * torch.log(torch.tensor(2 * torch.pi)) - shift.log().sum())
    for rows in torch.arange(NUM_DATA).split(size):
        matrix = ggn(model.network, x[rows], loss_of("categorical", y[rows]))
        expected = expected - 0.5 * (torch.linalg.slogdet(matrix + torch.diag(shift))[1] - shift.log().sum())
    found = partition_gradient(model, in_blocks(model, (x, y), size)).terms
    torch.testing.assert_close(found.log_volume, expected, rtol=1e-10, atol=1e-10)


def test_blocks_that_merge_tighten_the_bound():
    model, data = setup()
    values = [partition_gradient(model, in_blocks(model, data, size)).terms.log_evidence for size in (1, 2, 6)]
    evidence = covary.log_evidence(model, data, "full").log_evidence
    assert values[0] < values[1] < values[2]
    torch.testing.assert_close(values[2], evidence.detach(), rtol=1e-10, atol=1e-10)


def test_drawn_outputs_averaged_over_all_choices_are_below_all_outputs():
    """Each datum's C choices are equally likely, so the mean over all of them is what one draw expects."""
    model, (x, y) = setup()
    x, y = x[:3], y[:3]
    rows = IndexedBatch(x, y, torch.arange(3))
    choices = [*itertools.product(range(NUM_OUTPUTS), repeat=3)]
    passes = [capture(model.network, x, model.weights, index=rows.identity, seed=SEED) for _ in choices]
    ratios = [
        minibatch_estimate(model, captured, y, "kernel", torch.tensor(drawn)).log_ratio.detach()
        for captured, drawn in zip(passes, choices, strict=True)
    ]
    everything = partition_gradient(model, in_blocks(model, (x, y), 3)).terms
    drawn = partition_gradient(model, in_blocks(model, (x, y), 3, "one")).terms
    loss = torch.stack(ratios).mean() - _log_ratio(everything, model)
    assert loss > 0
    place = choices.index(tuple(draw_outputs(passes[0], rows, SEED).tolist()))
    torch.testing.assert_close(_log_ratio(drawn, model), ratios[place], rtol=1e-10, atol=1e-10)


def _log_ratio(terms, model) -> Tensor:
    num_params = model.prior.num_params
    return num_params * math.log(2 * math.pi) - 2 * terms.log_volume - prior_log_det(model).detach()


@pytest.mark.parametrize("outputs", ["one", "all"])
def test_gradients_are_central_differences(outputs):
    model, data = setup()
    blocks = in_blocks(model, data, 4, outputs)
    found = partition_gradient(model, blocks)["prior.log_precision"]
    prior = model.prior
    start = prior.log_precision.detach().clone()
    for place in range(len(start)):
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                prior.log_precision.copy_(start)
                prior.log_precision[place] += sign * STEP
            values.append(partition_gradient(model, blocks).terms.log_evidence)
        torch.testing.assert_close(found[place], (values[0] - values[1]) / (2 * STEP), rtol=1e-6, atol=1e-6)


def test_steps_on_the_prior_need_no_pass(monkeypatch):
    model, data = setup()
    blocks = in_blocks(model, data, 2, "one")
    monkeypatch.setattr(partition, "captured_batch", None)
    monkeypatch.setattr(model.network, "forward", None)
    prior = model.prior
    optimizer, values = torch.optim.Adam([prior.log_precision], 0.1), []
    for _ in range(30):
        gradient = partition_gradient(model, blocks)
        values.append(gradient.terms.log_evidence)
        prior.log_precision.grad = -gradient["prior.log_precision"]
        optimizer.step()
    assert values[-1] > values[0] + 1


def test_single_precision_loses_little():
    model, data = setup()
    exact = partition_gradient(model, in_blocks(model, data, 3))
    single = covary.Model(model.network.float(), model.likelihood, model.prior.float())
    found = partition_gradient(single, in_blocks(single, (data[0].float(), data[1]), 3))
    assert found["prior.log_precision"].dtype == torch.float32
    torch.testing.assert_close(found.terms.log_evidence, exact.terms.log_evidence, rtol=1e-5, atol=1e-5)


def test_blocks_of_one_process_are_a_part_of_the_sum():
    """What a process adds is its blocks' own: the log-ratios of two shards add up to those of all."""
    model, data = setup()
    blocks = torch.arange(NUM_DATA).split(2)
    passes = [
        partition_pass(model, as_batches(data), part, seed=SEED) for part in (blocks, blocks[::2], blocks[1::2], ())
    ]
    gradients = [partition_gradient(model, found) for found in passes]
    whole, *shards, nothing = (gradient.terms for gradient in gradients)
    every, first, second, of_prior = (gradient["prior.log_precision"] for gradient in gradients)
    torch.testing.assert_close(first + second - of_prior, every, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(sum(_log_ratio(t, model) for t in shards), _log_ratio(whole, model))
    torch.testing.assert_close(sum(t.log_likelihood for t in shards), whole.log_likelihood)
    assert float(_log_ratio(nothing, model)) == pytest.approx(0, abs=1e-12)


def test_a_weight_that_is_not_called_has_no_kernel():
    model, data = setup()
    network = nn.Sequential(model.network)
    network.unused = nn.Linear(2, 2)
    network.forward = lambda x: model.network(x)
    unused = covary.Model(network)
    gradient, prior = partition_gradient(unused, in_blocks(unused, data, 6)), unused.prior
    of_prior = 0.5 * (4 - prior.precision[-2] * network.unused.weight.square().sum()) - 2
    torch.testing.assert_close(gradient["prior.log_precision"][-2], of_prior.detach(), rtol=1e-10, atol=1e-10)


def test_kernels_of_other_weights_are_refused():
    model, data = setup()
    other = model.restricted(["2.bias"])
    with pytest.raises(StructureError, match=r"of the pass, 0\.weight, .*got 2\.bias"):
        partition_gradient(other, in_blocks(model, data, 2))


def test_outputs_that_are_neither_are_refused():
    with pytest.raises(StructureError, match="among all, one, got 'One'"):
        check_outputs("One")


def test_a_diagonal_prior_is_refused():
    model, data = setup("diagonal")
    with pytest.raises(StructureError, match="by weight"):
        partition_gradient(model, in_blocks(model, data, 2))


@pytest.mark.parametrize("entry", [float("nan"), -1e9])
def test_a_block_that_is_not_finite_or_not_positive_is_named(entry):
    model, data = setup()
    blocks = in_blocks(model, data, 3)
    broken = blocks._replace(kernels=(blocks.kernels[0], torch.full_like(blocks.kernels[1], entry)))
    with pytest.raises(NotPositiveDefiniteError, match="kernel of block 1"):
        partition_gradient(model, broken)
