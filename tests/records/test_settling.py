"""The state of a width on synthetic trajectories, and on those of an optimizer near its optimum or far from it."""

import dataclasses
import math
import random

import pytest

from covary.records import Epoch, Evidence
from covary.records.settling import trajectory, width_state, with_states
from report.runs import symmetry

EVIDENCE = Evidence(-40.0, -9.0, 4.0, -45.0, 20, "kron", "exact")


def state(amounts: list[float]) -> str:
    return width_state(amounts, len(amounts) - 1)


def cosine(progress: float, final: float) -> float:
    return final + (1 - final) * (1 + math.cos(math.pi * progress)) / 2


def drifting(steps: int, end: float, start: float = 0.5, final: float = 0.0) -> list[float]:
    """Changes in one direction, by a learning rate that falls along half a cosine."""
    rates = [cosine(number / max(steps - 1, 1), final) for number in range(steps)]
    return [start + (end - start) * sum(rates[:number]) / sum(rates) for number in range(steps + 1)]


def approaching(steps: int, end: float, half: float, noise: float = 0.0, seed: int = 0) -> list[float]:
    """An approach that halves its distance every `half` steps, with independent noise."""
    draw = random.Random(seed)
    return [0.5] + [
        max(end + (0.5 - end) * 0.5 ** (number / half) + noise * draw.gauss(0, 1), 0.0)
        for number in range(1, steps + 1)
    ]


@pytest.mark.parametrize("steps", [4, 5, 8, 18, 100])
@pytest.mark.parametrize("final", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("end", [8.0, 16.0])
def test_a_width_that_drifts_to_the_end_is_still_moving(steps, final, end):
    assert state(drifting(steps, end, final=final)) == "still moving"


def test_a_large_width_that_drifts_is_still_moving_though_it_moves_little():
    assert state(drifting(18, 20.0, start=6.0)) == "still moving"


@pytest.mark.parametrize("steps", [10, 18, 100])
@pytest.mark.parametrize(("end", "noise"), [(16.0, 0.4), (16.0, 0.0), (3.0, 0.15), (0.2, 0.15), (0.0, 0.0)])
def test_a_width_near_its_optimum_is_settled(steps, end, noise):
    """Nearly always: noise that looks like a drift is rare, and errs towards still moving."""
    states = [state(approaching(steps, end, steps / 12, noise, seed)) for seed in range(100)]
    assert states.count("settled") >= (90 if noise else 100)


def test_a_width_that_varies_as_much_as_itself_is_still_moving():
    """Half of a width of six pixels: the noise is no drift, and still leaves its amount unknown."""
    draw = random.Random(0)
    assert state([0.5] + [6 + draw.uniform(-3, 3) for _ in range(30)]) == "still moving"


def test_a_jump_long_ago_is_forgotten():
    amounts = approaching(18, 1.0, 1.0, 0.1)
    amounts[9] += 1.5
    assert state(amounts) == "settled"


def test_few_hyper_steps_settle_nothing():
    assert [state([0.5, *[8.0] * number]) for number in range(8)] == ["not learned yet", *["still moving"] * 7]
    assert state([0.5, 3.9, 7.1, 8.0, 8.1, 7.9, 8.0, 8.1, 8.0]) == "settled"


def test_what_never_changes_is_fixed():
    assert state([8.0] * 12) == "fixed"
    assert state([8.0] * 2) == "fixed"
    assert width_state([8.0], 1) == "still moving", "one step, and no width before it"


def test_the_rule_is_wrong_of_a_plateau():
    """As its page says: a rise that has not begun is not seen."""
    plateau = [0.5 + 0.01 * (number % 2) for number in range(12)]
    assert state(plateau) == "settled"
    assert state([*plateau, 2.0, 4.0, 6.0, 8.0]) == "still moving", "once it has begun it is"


def adam(optimum: float, steps: int, noise: float, seed: int, inner: int = 8, lr: float = 1.0) -> list[float]:
    """A width under Adam along noisy gradients of a parabola, as hyper steps take it; amounts after every `inner`."""
    draw = random.Random(seed)
    width, first, second, amounts = 0.5, 0.0, 0.0, [0.5]
    for number in range(steps * inner):
        gradient = optimum - width + noise * draw.gauss(0, 1)
        first, second = 0.9 * first + 0.1 * gradient, 0.95 * second + 0.05 * gradient**2
        corrected = first / (1 - 0.9 ** (number + 1)), second / (1 - 0.95 ** (number + 1))
        width = abs(
            width + lr * cosine((number // inner) / (steps - 1), 0.1) * corrected[0] / (corrected[1] ** 0.5 + 1e-8)
        )
        if number % inner == inner - 1:
            amounts.append(width)
    return amounts


@pytest.mark.parametrize("steps", [8, 18, 40])
@pytest.mark.parametrize("noise", [0.0, 2.0, 6.0])
def test_an_optimizer_that_is_far_from_its_optimum_is_still_moving(steps, noise):
    """Learning rates that reach a tenth of the way: 2 of 16 pixels."""
    ways = [adam(16.0, steps, noise, seed, lr=4.0 / (steps * 8)) for seed in range(40)]
    assert all(2 < amounts[-1] < 3 for amounts in ways)
    assert [state(amounts) for amounts in ways].count("still moving") == 40


@pytest.mark.parametrize(
    ("steps", "noise", "least"), [(18, 0.0, 40), (40, 0.0, 40), (18, 2.0, 36), (40, 2.0, 36), (40, 6.0, 36)]
)
def test_an_optimizer_near_its_optimum_is_settled(steps, noise, least):
    """Amounts that end within 15 % of it; with few steps and much noise some still turn back from too far."""
    ways = [adam(16.0, steps, noise, seed) for seed in range(40)]
    assert all(abs(amounts[-1] - 16) < 2.4 for amounts in ways)
    assert [state(amounts) for amounts in ways].count("settled") >= least


def epochs(widths: list[float], stepped: list[bool], best: int | None = None) -> list[Epoch]:
    return [
        Epoch(number + 1, -0.3, {"rotation": width}, {}, EVIDENCE if step else None, None, 1.0, number == best)
        for number, (width, step) in enumerate(zip(widths, stepped, strict=True))
    ]


def found(history: list[Epoch]) -> tuple[list[float], int]:
    chosen, num_steps = trajectory(history)
    return [epoch.widths["rotation"] for epoch in chosen], num_steps


def test_the_trajectory_is_that_of_hyper_steps():
    burn_in = epochs([0.1, 0.1, 0.3, 0.3, 0.5], [False, False, True, False, True])
    assert found(burn_in) == ([0.1, 0.3, 0.5], 2)
    assert found(epochs([0.2, 0.3], [True, True])) == ([0.2, 0.3], 2), "no width is known before the first"
    assert found(epochs([0.1, 0.1], [False, False])) == ([0.1], 0)
    assert found(epochs([0.1, 0.2, 0.3], [False] * 3)) == ([0.1, 0.2, 0.3], 2), "widths that learn with the weights"
    assert found([]) == ([], 0)


def test_epochs_after_the_state_that_was_kept_do_not_count():
    history = epochs([0.1, 0.5, 0.6, 0.9], [False, True, True, True], best=2)
    assert found(history) == ([0.1, 0.5, 0.6], 2)


def test_hyper_steps_may_be_rare_and_may_stop():
    widths = [0.05, 0.8, 1.3, 1.5, 1.52, 1.51, 1.53, 1.51, 1.52]
    rare = [width for width in widths for _ in range(5)]
    stepped = [number % 5 == 0 and number > 0 for number in range(len(rare))]
    stopped = epochs([*rare, *[1.52] * 60], [*stepped, *[False] * 60])
    learned = [symmetry("rotation", 1.52)]
    for history in (epochs(rare, stepped), stopped):
        assert with_states(learned, history, (1, 28, 28)) == learned
    moving = with_states(learned, epochs(rare, stepped)[:25], (1, 28, 28))
    assert moving == [dataclasses.replace(learned[0], state="still moving")]


def test_what_is_small_depends_on_the_size_of_images():
    """The same widths in radians: a drift that is negligible, or one that is not."""
    history = epochs([0.01, *(0.02 + 0.003 * number for number in range(8))], [False] + [True] * 8)
    small, large = (with_states([symmetry("rotation", 0.041)], history, (1, side, side))[0].state for side in (28, 280))
    assert (small, large) == ("settled", "still moving")
