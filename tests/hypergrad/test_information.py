"""The information on a width: the Schur complement of the dense Gauss–Newton matrix of weights and width together."""

import pytest
import torch
from torch import nn

import covary
from covary.augment import Rotation2d
from covary.batches import as_batches
from covary.curvature.passes import curvature_pass
from covary.hypergrad.information import Line, Sample, information_along
from oracles.running import mean_rotated

SAMPLES, SEED, NUM_DATA = 4, 3, 12
H = 1e-4


@pytest.fixture
def model() -> covary.Model:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 3))
    averaged = covary.Averaged(network, Rotation2d(0.8), SAMPLES)
    return covary.Model(averaged, covary.Categorical(), covary.Prior(averaged, precision=0.7))


def data(num_data: int = NUM_DATA) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    noise = torch.Generator().manual_seed(0)
    index = torch.arange(num_data)
    return torch.randn(num_data, 2, generator=noise), index % 3, index


def line(model: covary.Model) -> Line:
    """A line along which the raw parameter, of which u is this one, changes by one per unit."""
    return Line({"augment.raw_widths": torch.ones(1)}, -H, H, 2 * H)


def statistics(model: covary.Model, structure: str = "kron"):
    return curvature_pass(model, as_batches(data()), covary.Curvature(structure))


def found(model: covary.Model, num_rounds: int = 30, structure: str = "kron", sample: Sample | None = None):
    read = sample or Sample(as_batches(data()), NUM_DATA, NUM_DATA)
    (information,) = information_along(
        model, read, statistics(model, structure), [line(model)], seed=SEED, num_rounds=num_rounds
    )
    return information


def joint_matrix(model: covary.Model) -> torch.Tensor:
    """The matrix over all weights and the raw width, by Jacobians of a function written anew."""
    network, x = model.network.network, data()[0]
    weights = [parameter.detach() for parameter in network.parameters()]
    noise = model.network.augment.sample_noise(torch.arange(len(x)), SAMPLES, seed=SEED).squeeze(-1)
    raw = model.network.augment.raw_widths.detach()

    def outputs(flat: torch.Tensor) -> torch.Tensor:
        first, bias, last, offset = (
            part.view_as(like)
            for part, like in zip(flat[:-1].split([w.numel() for w in weights]), weights, strict=True)
        )
        angles = torch.pi * torch.tanh(flat[-1] / torch.pi) * noise
        turned = [mean_rotated(x, angles[:, [number]]) for number in range(SAMPLES)]
        return sum(torch.tanh(part @ first.T + bias) @ last.T + offset for part in turned) / SAMPLES

    place = torch.cat([*(weight.flatten() for weight in weights), raw])
    jacobian = torch.autograd.functional.jacobian(outputs, place)  # (N, C, P + 1)
    p = outputs(place).softmax(1)
    curved = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    matrix = torch.einsum("ncp,ncd,ndq->pq", jacobian, curved, jacobian)
    return matrix + torch.diag(torch.tensor([0.7] * (len(place) - 1) + [0.0]))


@pytest.mark.parametrize("structure", ["kron", "diag", "full"])
def test_the_information_is_that_of_the_joint_matrix(model, structure):
    """Whatever the structure is that preconditions; with weights that are known it would be several times larger."""
    matrix = joint_matrix(model)
    information = found(model, structure=structure)
    assert information.held == pytest.approx(float(matrix[-1, -1]), rel=1e-6)
    assert information.total == pytest.approx(1 / float(torch.linalg.inv(matrix)[-1, -1]), rel=1e-5)
    assert information.held > 1.5 * information.total


def test_the_minimum_is_approached_from_above(model):
    totals = [found(model, rounds).total for rounds in (1, 2, 3, 30)]
    assert totals == sorted(totals, reverse=True)
    assert totals[0] > 1.001 * totals[-1]


def test_data_that_are_read_count_for_all_data(model):
    """Half of data that are there twice."""
    x, y, index = data()
    twice = as_batches((torch.cat([x, x]), torch.cat([y, y]), torch.cat([index, index])))
    whole = found(model, sample=Sample(twice, 2 * NUM_DATA, 2 * NUM_DATA))
    half = found(model, sample=Sample(as_batches(data()), NUM_DATA, 2 * NUM_DATA))
    assert half == pytest.approx(whole, rel=1e-6)
    assert half.total > 1.2 * found(model).total


def test_parts_have_less_information_than_the_whole(model):
    x, y, index = data()
    parts = [slice(0, 6), slice(6, 12)]
    samples = [Sample(as_batches((x[rows], y[rows], index[rows])), 6, NUM_DATA) for rows in parts]
    mean = sum(found(model, sample=sample).total for sample in samples) / 2
    assert mean < found(model).total


def test_parameters_are_as_before(model):
    before = {name: parameter.detach().clone() for name, parameter in model.parameters().items()}
    found(model, num_rounds=2)
    assert all(torch.equal(before[name], parameter) for name, parameter in model.parameters().items())
