"""Widths: how far one hyper step moves them, and whether the evidence has risen by it."""

import math

import pytest
import torch
from torch import nn
from torch.optim import Adam

import covary
from covary.augment import Affine2d, Correlated, Rotation2d
from covary.batches import as_batches
from covary.curvature.passes import curvature_pass
from covary.hypergrad.two_pass import curvature_cotangents
from covary.linalg import Kron
from covary.training import widths
from covary.training.widths import Move, WidthLearning, evidence_change, held_fixed
from oracles.running import damped_natural_step, linear_gaussian_objective, mean_rotated

SIGMA, PRECISION, SAMPLES, SEED = 0.5, 0.7, 4, 3
FULL = covary.Curvature("full")


def data(seed: int = 0, num_data: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    noise = torch.Generator().manual_seed(seed)
    x = torch.randn(num_data, 2, generator=noise)
    return x, x @ torch.tensor([1.0, -0.5]) + 0.3 * torch.randn(num_data, generator=noise)


def linear_model(width: float, seed: int = 0) -> covary.Model:
    layer = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(1, 2, generator=torch.Generator().manual_seed(seed)))
    network = covary.Averaged(layer, Rotation2d(width), SAMPLES)
    likelihood = covary.Gaussian(SIGMA, learn_sigma_noise=False)
    return covary.Model(network, likelihood, covary.Prior(network, precision=PRECISION))


def exact(model: covary.Model, seed: int) -> float:
    """The objective at the model's width, under the noise of the pass."""
    (x, y), augment = data(seed), model.network.augment
    noise = augment.sample_noise(torch.arange(len(x)), SAMPLES, seed=SEED).squeeze(-1)
    features = mean_rotated(x, augment.widths.item() * noise)
    weight = model.network.network.weight.detach().flatten()
    return float(linear_gaussian_objective(features, y, weight, SIGMA, PRECISION))


def cotangents_of(model: covary.Model, seed: int, choice: covary.Curvature = FULL):
    with torch.no_grad():
        return curvature_cotangents(model, curvature_pass(model, as_batches(data(seed)), choice, seed=SEED), choice)


def set_width(model: covary.Model, width: float) -> None:
    with torch.no_grad():
        model.network.augment.raw_widths.copy_(Rotation2d(width).raw_widths)


def changes(before: float, after: float, seed: int = 0) -> tuple[float, float, float]:
    """The linearized change, the exact one, and the change linearized after the move."""
    model = linear_model(before, seed)
    batches, move, start = as_batches(data(seed), 5), Move(model.network, 9.0), exact(model, seed)
    first = cotangents_of(model, seed)
    set_width(model, after)
    found = [evidence_change(model, batches, c, move, SEED).value for c in (first, cotangents_of(model, seed))]
    return found[0], exact(model, seed) - start, found[1]


@pytest.mark.parametrize("width", [0.2, 0.8, 2.0])
def test_a_small_move_changes_the_evidence_as_its_linearization_says(width):
    errors = []
    for step in (1e-2, 1e-3):
        found, expected, _ = changes(width, width + step)
        assert found == pytest.approx(expected, rel=30 * step)
        errors.append(abs(found - expected))
    assert errors[1] < errors[0] / 50, "the error is of second order"


@pytest.mark.parametrize("seed", range(12))
def test_the_linearized_change_is_a_lower_bound(seed):
    """The log-determinant is concave; linearized after the move, the change is an upper bound: the control."""
    noise = torch.Generator().manual_seed(seed)
    before, after = (0.02 + 3 * torch.rand(2, generator=noise)).tolist()
    lower, expected, upper = changes(before, after, seed)
    assert lower <= expected + 1e-10
    assert upper >= expected - 1e-10
    assert upper - lower > 1e-6, "a move that tests something"


def test_with_kronecker_factors_it_is_a_bound_in_each_factor_alone():
    """Together they are a product, in which the log-determinant is not concave."""

    def half_logdet(a: float, b: float) -> float:
        return 0.5 * float(Kron(torch.tensor([[a]]), torch.tensor([[b]]), 1.0).logdet(10.0))

    start = half_logdet(1.0, 1.0)
    cotangents = Kron(torch.ones(1, 1), torch.ones(1, 1), 1.0).half_logdet_cotangents(10.0)
    assert half_logdet(2.0, 1.0) - start < float(cotangents[0])
    assert half_logdet(2.0, 2.0) - start > float(cotangents[0] + cotangents[1])


def test_the_error_of_a_change_is_that_of_a_sum_over_the_data_read():
    """Six of twelve data: twice the standard deviation of their changes times the root of six, as a sample's."""
    model, positions = linear_model(0.3), torch.tensor([1, 2, 5, 7, 8, 11])
    cotangents, move = cotangents_of(model, 0), Move(model.network, 9.0)
    no_curvature = cotangents._replace(tensors={n: (torch.zeros_like(t[0]),) for n, t in cotangents.tensors.items()})
    set_width(model, 1.0)
    found = evidence_change(model, as_batches(data()).at(positions), no_curvature, move, SEED)
    x, y = data()
    noise = model.network.augment.sample_noise(torch.arange(12), SAMPLES, seed=SEED).squeeze(-1)
    weight = model.network.network.weight.detach().flatten()
    after, before = (
        torch.distributions.Normal(mean_rotated(x, w * noise) @ weight, SIGMA).log_prob(y)[positions]
        for w in (1.0, 0.3)
    )
    each = after - before
    assert found.value == pytest.approx(2 * float(each.sum()), rel=1e-9)
    assert found.error == pytest.approx(2 * math.sqrt(6) * float(each.std(correction=0)), rel=1e-9)
    assert model.network.augment.widths.item() == pytest.approx(1.0), "the move is done again after the test"


def test_the_error_of_a_change_does_not_depend_on_how_data_are_divided():
    """Two processes have halves of the data, and decide as one does."""
    model = linear_model(0.3)
    cotangents, move = cotangents_of(model, 0), Move(model.network, 9.0)
    set_width(model, 1.0)
    found = [evidence_change(model, as_batches(data(), size), cotangents, move, SEED) for size in (12, 5, 1)]
    for other in found[1:]:
        assert tuple(other) == pytest.approx(tuple(found[0]), rel=1e-9)


AUGMENTATIONS = {
    "rotation2d": lambda: Rotation2d(0.3),
    "near its largest angle": lambda: Rotation2d(3.0),
    "affine": lambda: Affine2d(initial_width=0.3),
    "angle near the cap": lambda: Affine2d(("rotation", "shift_x"), initial_width=(3.1, 0.1)),
    "correlated": lambda: Correlated(Affine2d(initial_width=0.3)),
}


def network_with(augment: nn.Module) -> nn.Module:
    network = nn.Module()
    network.augment = augment
    return network


@pytest.mark.parametrize("kind", AUGMENTATIONS)
@pytest.mark.parametrize("bound", [0.5, 0.05, 1e-7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_width_moves_further_than_the_bound(kind, bound, dtype, generator):
    augment = AUGMENTATIONS[kind]().to(dtype)
    move = Move(network_with(augment), bound)
    before = augment.widths.detach().clone()
    with torch.no_grad():
        for parameter in move.parameters:
            parameter.add_(2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64).to(dtype))
    free = (augment.widths.detach() - before).abs().max()
    move.bound()
    moved = (augment.widths.detach() - before).abs().max()
    assert float(moved) <= bound * (1 + 1e-4)
    if dtype == torch.float64:
        assert float(moved) > 0.5 * min(bound, float(free)), "it is shortened, not undone"


def test_a_bound_below_the_resolution_of_a_width_ends():
    """Between two neighbors in float32 there is nothing: the move is none."""
    augment = Affine2d(("shift_x",), initial_width=1.0).to(torch.float32)
    step = float(torch.finfo(torch.float32).eps)
    move = Move(network_with(augment), 0.9 * step)
    with torch.no_grad():
        augment.raw_widths.add_(step)
    move.bound()
    assert augment.widths.item() == 1.0


def test_a_short_move_is_left_as_it_is():
    augment = Affine2d(initial_width=0.3)
    move = Move(network_with(augment), 0.5)
    with torch.no_grad():
        augment.raw_widths.add_(0.1)
    expected = augment.raw_widths.detach().clone()
    move.bound()
    assert torch.equal(augment.raw_widths, expected)


@pytest.mark.parametrize("kind", AUGMENTATIONS)
def test_an_undone_move_leaves_no_trace(kind):
    """Bit for bit, and with it the direction in which the optimizer was moving."""
    augment = AUGMENTATIONS[kind]()
    (parameter,) = [p for p in augment.parameters() if p.requires_grad]
    optimizer = Adam([parameter], lr=0.3)
    move, before = Move(network_with(augment), 0.1), parameter.detach().clone()
    for _ in range(3):
        parameter.grad = torch.ones_like(parameter) / 3
        optimizer.step()
    assert float(optimizer.state[parameter]["exp_avg"].abs().max()) > 0
    move.bound()
    move.undo(optimizer)
    assert torch.equal(parameter, before)
    assert not optimizer.state[parameter]["exp_avg"].any()


def test_a_network_without_an_augmentation_does_not_move():
    move = Move(nn.Linear(2, 2), 0.1)
    assert move.parameters == []
    move.bound()
    frozen = Move(network_with(Rotation2d(0.3).requires_grad_(False)), 0.1)
    assert frozen.parameters == []


@pytest.mark.parametrize("fixed", [True, False])
def test_held_fixed_is_over_when_the_context_ends(fixed):
    network = network_with(Rotation2d(0.3))
    with held_fixed(network, fixed):
        assert network.augment.raw_widths.requires_grad is not fixed
    assert network.augment.raw_widths.requires_grad
    network.augment.requires_grad_(False)
    with held_fixed(network, fixed):
        pass
    assert not network.augment.raw_widths.requires_grad, "what a user froze stays frozen"


def climbed(
    gradients: torch.Tensor, sizes: tuple[int, int], rate: float = 1.0, learning=None, width: float = 0.5
) -> torch.Tensor:
    """The move of the parameters by one climb along gradients (K, P) of K minibatches."""
    names = ("shift_x", "shift_y", "scale_x")[: gradients.shape[1]]
    augment = Affine2d(names, initial_width=width)
    learning = WidthLearning(1e9) if learning is None else learning
    move = Move(network_with(augment), 1e9)
    learning.climb(move, [[row] for row in gradients], sizes, rate)
    return augment.raw_widths.detach() - width


@pytest.mark.parametrize("rate", [1.0, 0.25])
def test_the_step_is_that_of_its_definition(rate, generator):
    gradients = 50 * torch.randn(4, 3, generator=generator) + 30
    expected = damped_natural_step(gradients, 8, 100, widths.LEAST_FISHER)
    torch.testing.assert_close(climbed(gradients, (8, 100), rate), rate * expected, rtol=1e-10, atol=0)


def test_the_damping_vanishes_with_the_width(generator):
    """As the gradient and the information do, in which log Z is even."""
    gradients = 5 * torch.randn(4, 2, generator=generator) + 3
    for width in (0.3, 0.15, 0.03):
        floor = widths.LEAST_FISHER * (width / widths.WIDE) ** 2
        expected = damped_natural_step(gradients, 8, 100, floor)
        torch.testing.assert_close(climbed(gradients, (8, 100), width=width), expected, rtol=1e-9, atol=1e-12)


def test_steps_have_momentum_until_one_is_undone(generator):
    gradients = 50 * torch.randn(4, 3, generator=generator) + 30
    step = damped_natural_step(gradients, 8, 100, widths.LEAST_FISHER)
    learning = WidthLearning(0.3)
    moves = [climbed(gradients, (8, 100), learning=learning) for _ in range(3)]
    expected = torch.zeros(3)
    for move in moves:
        expected = widths.MOMENTUM * expected + step
        torch.testing.assert_close(move, expected, rtol=1e-10, atol=0)
    learning.accept(kept=False, first=0.3)
    torch.testing.assert_close(climbed(gradients, (8, 100), learning=learning), step, rtol=1e-10, atol=0)
    learning.accept(kept=True, first=0.3)
    last = climbed(gradients, (8, 100), learning=learning)
    torch.testing.assert_close(last, (1 + widths.MOMENTUM) * step, rtol=1e-10, atol=0)


def test_on_a_quadratic_it_is_newtons_step_shrunk_by_its_noise():
    """Of N observations of η with precision h the Fisher information is N h and Newton's step the distance d.

    Gradients of minibatches are N h (d ± their error), with the variance N h / (M/N) that this information has.
    """
    num_data, size, precision, distance = 1000, 50, 1e4, 0.02
    fisher, fraction = num_data * precision, size / num_data
    spread = math.sqrt(fisher / fraction * 3 / 4)  # of four values ±s the sample variance is 4/3 s²
    gradients = fisher * distance + spread * torch.tensor([[1.0], [-1.0], [1.0], [-1.0]])
    signal = (fisher * distance) ** 2 * 4 * fraction
    found = float(climbed(gradients, (size, num_data)))
    assert found == pytest.approx(distance * signal / (signal + fisher), rel=1e-4)
    certain = 1000 * distance  # far away the noise does not matter
    far = fisher * certain + spread * torch.tensor([[1.0], [-1.0], [1.0], [-1.0]])
    assert float(climbed(far, (size, num_data))) == pytest.approx(certain, rel=1e-4)


def test_the_step_does_not_depend_on_the_unit_of_a_parameter(generator, monkeypatch):
    """In units of a tenth a parameter moves by ten times the number; the floor of the information has a unit."""
    gradients = 50 * torch.randn(4, 1, generator=generator) + 30
    damped = [float(climbed(gradients / unit, (8, 100))) / unit for unit in (1.0, 10.0)]
    monkeypatch.setattr(widths, "LEAST_FISHER", 0.0)
    free = [float(climbed(gradients / unit, (8, 100))) / unit for unit in (1.0, 10.0)]
    assert free[0] == pytest.approx(free[1], rel=1e-10)
    assert damped[0] != pytest.approx(damped[1], rel=0.1), "the control"


def test_the_information_is_remembered(generator):
    first, second = (40 * torch.randn(4, 2, generator=generator) for _ in range(2))
    learning = WidthLearning(1e9)
    climbed(first, (10, 100), learning=learning)
    climbed(second, (10, 100), learning=learning)
    expected = 0.1 * (widths.MEMORY * first.var(0) + (1 - widths.MEMORY) * second.var(0))
    torch.testing.assert_close(torch.tensor(learning.fisher[0]), expected, rtol=1e-12, atol=0)


def test_no_gradient_is_no_step():
    assert climbed(torch.zeros(4, 2), (8, 100)).tolist() == [0.0, 0.0]


def test_a_climb_is_bounded():
    augment = Affine2d(("shift_x", "shift_y"), initial_width=0.5)
    move = Move(network_with(augment), 0.2)
    gradients = [[torch.tensor([1e6, 2e6]) + noise] for noise in (-1.0, 0.0, 1.0, 3.0)]
    WidthLearning(0.2).climb(move, gradients, (8, 100), 1.0)
    change = augment.widths.detach() - 0.5
    assert float(change[1]) == pytest.approx(0.2, rel=1e-4)
    assert float(change[0]) == pytest.approx(0.1, rel=1e-4), "all parameters are shortened alike"
