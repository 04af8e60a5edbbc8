"""Running statistics: their formula, the sum over all data as a special case, and the gradient they converge to."""

import pytest
import torch

import covary
from covary.batches import as_batches
from covary.curvature.passes import CurvatureStatistics, curvature_pass
from covary.hypergrad import RunningStatistics, two_pass
from covary.hypergrad.two_pass import curvature_cotangents, model_gradient, prior_gradient
from covary.linalg import Block, Dense, Diagonal, Kron
from covary.noise import permutation
from oracles.running import discounted_sum
from training_models import averaged, points

STRUCTURES = ["kron", "kron-traced", "kron-shared", "diag", "full"]


def model(num_samples: int = 4, num_sets: int = 1) -> covary.Model:
    network = averaged().with_samples(num_samples, num_sets)
    return covary.Model(network, prior=covary.Prior(network, precision=0.7))


def statistics_of(choice: covary.Curvature, positions, num_sets: int = 1) -> CurvatureStatistics:
    with torch.no_grad():
        return curvature_pass(model(num_sets=num_sets), as_batches(points(), 5).at(positions), choice, seed=1)


def parts_of(choice: covary.Curvature, num_sets: int = 1) -> list[CurvatureStatistics]:
    """Each of 24 data once, in four parts of different sizes."""
    order = permutation(3, 24)
    return [statistics_of(choice, positions, num_sets) for positions in order.split([9, 4, 1, 10])]


def running(parts: list[CurvatureStatistics], decay: float) -> RunningStatistics:
    found = RunningStatistics.of(parts[0])
    for part in parts[1:]:
        found = found.updated(part, decay)
    return found


def counts(block: Block) -> dict[str, torch.Tensor]:
    return {name: own.count for name, own in block.blocks.items() if isinstance(own, Kron) and own.count is not None}


@pytest.mark.parametrize("decay", [0.0, 0.3, 0.75, 1.0])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_every_sum_is_discounted_by_its_age(structure, decay):
    parts = parts_of(covary.Curvature(structure))
    found = running(parts, decay)
    for name, tensors in found.curvature.tensors.items():
        for number, tensor in enumerate(tensors):
            terms = [part.curvature.tensors[name][number] for part in parts]
            torch.testing.assert_close(tensor, discounted_sum(terms, decay), rtol=1e-12, atol=1e-13)
    for name, count in counts(found.curvature).items():
        terms = [counts(part.curvature)[name] for part in parts]
        torch.testing.assert_close(count, discounted_sum(terms, decay), rtol=1e-12, atol=0)
    sizes = [torch.tensor(float(part.num_data)) for part in parts]
    assert found.num_data == pytest.approx(float(discounted_sum(sizes, decay)), rel=1e-12)
    likelihoods = [part.log_likelihood for part in parts]
    torch.testing.assert_close(found.log_likelihood, discounted_sum(likelihoods, decay), rtol=1e-12, atol=0)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_each_datum_once_without_decay_is_the_sum_over_all_data(structure):
    choice = covary.Curvature(structure)
    whole, found = statistics_of(choice, torch.arange(24)), running(parts_of(choice), 1.0).scaled(24)
    assert found.num_data == whole.num_data == 24
    torch.testing.assert_close(found.curvature.to_dense(), whole.curvature.to_dense(), rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(found.log_likelihood, whole.log_likelihood, rtol=1e-12, atol=0)
    one, two = (prior_gradient(model(), statistics) for statistics in (whole, found))
    torch.testing.assert_close(two.terms.log_evidence, one.terms.log_evidence, rtol=1e-11, atol=0)
    forgetful = running(parts_of(choice), 0.5).scaled(24)
    assert not torch.allclose(forgetful.curvature.to_dense(), whole.curvature.to_dense(), rtol=1e-3), "the control"


def test_the_scaled_curvature_does_not_depend_on_the_unit_of_the_sums():
    """Twice the same data are the same estimate: factors, counts and data all double."""
    part = statistics_of(covary.Curvature(), torch.arange(24))
    once, twice = RunningStatistics.of(part), RunningStatistics.of(part).updated(part, 1.0)
    torch.testing.assert_close(twice.scaled(50).curvature.to_dense(), once.scaled(50).curvature.to_dense())
    torch.testing.assert_close(once.scaled(48).curvature.to_dense(), 2 * part.curvature.to_dense())


@pytest.mark.parametrize("num_sets", [1, 2])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_tensors_are_everything(structure, num_sets):
    if num_sets == 2 and not structure.startswith("kron"):
        num_sets = 1  # two sets are for Kronecker factors
    found = running(parts_of(covary.Curvature(structure), num_sets), 0.6)
    tensors = found.to_tensors()
    names = list(found.curvature.blocks)
    shuffled = dict(reversed(tensors.items()))
    again = RunningStatistics.from_tensors({name: tensor.clone() for name, tensor in shuffled.items()}, names)
    assert list(again.curvature.blocks) == names
    for name, block in found.curvature.blocks.items():
        other = again.curvature.blocks[name]
        assert type(other) is type(block)
        assert getattr(other, "estimated", None) == getattr(block, "estimated", None)
        assert all(torch.equal(a, b) for a, b in zip(block.tensors, other.tensors, strict=True))
    assert counts(again.curvature).keys() == counts(found.curvature).keys()
    assert all(torch.equal(count, counts(again.curvature)[name]) for name, count in counts(found.curvature).items())
    assert again.num_data == found.num_data
    assert torch.equal(again.log_likelihood, found.log_likelihood)
    estimated = [block.estimated for block in again.curvature.blocks.values() if isinstance(block, Kron)]
    assert any(estimated) == (num_sets == 2)


def test_every_kind_of_block_makes_the_round_trip():
    blocks = {
        "a.weight": Kron(torch.eye(2), 2 * torch.eye(3), torch.tensor(4.0)),
        "b.weight": Kron(torch.eye(2), 2 * torch.eye(3), None, estimated=True),
        "b.bias": Dense(torch.eye(3)),
        "c": Diagonal(torch.ones(2)),
    }
    found = RunningStatistics(Block(blocks), torch.tensor(-3.0), 7.5)
    again = RunningStatistics.from_tensors(found.to_tensors(), list(blocks))
    assert [type(block) for block in again.curvature.blocks.values()] == [type(block) for block in blocks.values()]
    assert again.curvature["b.weight"].traced
    assert again.curvature["b.weight"].estimated
    assert not again.curvature["a.weight"].estimated
    assert torch.equal(again.curvature.to_dense(), found.curvature.to_dense())


def running_gradient(num_read: int, size: int, seed: int) -> torch.Tensor:
    """The gradient in width and prior from statistics of `num_read` of 24 data and a second pass over `size` others."""
    own, choice = model(), covary.Curvature("diag")
    order = permutation(seed, 24)
    batches = as_batches(points(), 24)
    with torch.no_grad():
        parts = [curvature_pass(own, batches.at(part), choice, seed=0) for part in order[:num_read].split(4)]
    statistics = running(parts, 1.0).scaled(24)
    cotangents = curvature_cotangents(own, statistics, choice)
    second = model_gradient(own, batches.at(permutation(seed + 10**6, 24)[:size]), cotangents, seed=0)
    prior = prior_gradient(own, statistics)["prior.log_precision"]
    return torch.cat([second.gradients["augment.raw_widths"].flatten(), prior.flatten()])


def test_the_running_gradient_converges_to_that_of_two_passes():
    """Errors fall with the data read, to rounding where all are; the mean over seeds is right within its error."""
    exact = two_pass(model(), points(), covary.Curvature("diag"), seed=0)
    expected = torch.cat([exact["augment.raw_widths"].flatten(), exact["prior.log_precision"].flatten()])
    errors = []
    for number in (4, 8, 16):
        found = torch.stack([running_gradient(number, number, seed) for seed in range(40)])
        errors.append(float((found - expected).square().mean(0).sqrt()[0]))
        spread = found.std(0) / 40**0.5
        if number == 16:
            assert bool(((found.mean(0) - expected).abs() < 4 * spread + 0.02 * expected.abs()).all())
    assert errors[0] > 1.3 * errors[1] > 1.3**2 * errors[2]
    torch.testing.assert_close(running_gradient(24, 24, 5), expected, rtol=1e-9, atol=1e-11)


def test_the_second_pass_returns_the_statistics_of_its_data():
    """Not scaled, without graph, and those of a first pass over the same data with the same probes."""
    own, choice, batches = model(), covary.Curvature(probes=2), as_batches(points(), 5).at(torch.arange(11))
    with torch.no_grad():
        statistics = curvature_pass(own, as_batches(points(), 24), choice, seed=3)
        expected = curvature_pass(own, batches, choice, seed=3)
    cotangents = curvature_cotangents(own, statistics, choice)
    found = model_gradient(own, batches, cotangents, share_probes=True, seed=3).statistics
    assert found.num_data == 11
    torch.testing.assert_close(found.curvature.to_dense(), expected.curvature.to_dense(), rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(found.log_likelihood, expected.log_likelihood, rtol=1e-12, atol=0)
    assert not any(tensor.requires_grad for tensors in found.curvature.tensors.values() for tensor in tensors)
    others = model_gradient(own, batches, cotangents, seed=3).statistics
    assert not torch.equal(others.curvature.to_dense(), found.curvature.to_dense()), "else with probes of its own"
