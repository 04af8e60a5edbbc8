import math

import pytest

from covary.config import FitConfig
from covary.training.hyper import data_per_step, step_size
from covary.training.schedule import (
    HYPER_SHARE,
    burn_in_epochs,
    cosine,
    dead_epochs,
    filled_in,
    hyper_progress,
    hyper_steps_due,
    is_evaluated_epoch,
    seed_for,
    warmth,
)
from training_models import PLAIN, RUNNING


def hyper_epochs(config) -> list[int]:
    """The epochs after which a hyper step is due that was not due before, with an estimator of all data."""
    due = [hyper_steps_due(epoch, 10, 100, config) for epoch in range(config.epochs + 1)]
    return [epoch for epoch in range(1, config.epochs + 1) if due[epoch] > due[epoch - 1]]


def test_cosine_goes_from_first_to_final_through_their_mean():
    assert cosine(1.0, 0.2, 0.0) == 1.0
    assert cosine(1.0, 0.2, 0.5) == pytest.approx(0.6)
    assert cosine(1.0, 0.2, 1.0) == pytest.approx(0.2)
    assert cosine(1.0, 0.2, 0.25) == pytest.approx(0.6 + 0.4 * math.sqrt(0.5))


def test_rates_rise_evenly_over_the_warm_up_and_stay():
    config = PLAIN.replace(epochs=10, weights={"warmup_epochs": 4})
    assert [warmth(epochs, config) for epochs in (0.5, 1, 2, 4, 5)] == [0.125, 0.25, 0.5, 1.0, 1.0]
    assert warmth(0.01, PLAIN.replace(epochs=10)) == 1.0


def test_hyper_epochs_begin_after_the_burn_in_and_keep_their_frequency():
    config = PLAIN.replace(epochs=10, hyper={"burn_in": 3, "every": 2})
    assert hyper_epochs(config) == [5, 7, 9]
    assert hyper_epochs(config.replace(hyper={"estimator": "augerino"})) == []


def running_config(num_steps=4, fraction=0.1, **hyper):
    return RUNNING.replace(
        epochs=20, hyper={"num_data": None, "num_moves": 3, "num_steps": num_steps, "fraction": fraction, **hyper}
    )


@pytest.mark.parametrize("num_data", [1280, 5000, 60_000])
@pytest.mark.parametrize("fraction", [0.05, 0.1, 1.0])
def test_running_hyper_steps_read_the_wanted_fraction_of_the_data(num_data, fraction):
    config = running_config(fraction=fraction, burn_in=2)
    size = data_per_step(config, num_data)
    assert size == 3 * 4 * 32 == 12 * step_size(config, num_data)
    for epochs in (2.5, 3, 4.25, 20):
        read = hyper_steps_due(epochs, size, num_data, config) * size
        least = 2 if num_data < 2500 else 1  # hyper steps in each epoch
        wanted = max(fraction * num_data, least * size) * (epochs - 2)
        assert wanted <= read + 1e-6
        assert read - wanted <= size + 1e-6, "no more than the first one beyond it"


def test_many_data_need_no_more_than_80_hyper_steps_or_one_in_each_epoch():
    config = running_config(fraction=None, burn_in=1).replace(epochs=11)
    assert hyper_steps_due(11, 384, 60_000, config) == 1 + 80  # a tenth of the data would be 156
    assert hyper_steps_due(11, 384, 10_000, config) == 1 + 26
    assert hyper_steps_due(201, 384, 60_000, config.replace(epochs=201)) == 1 + 200


def test_running_hyper_steps_are_spread_evenly_between_weight_steps():
    """Of 100 weight steps in an epoch, one in each ten is followed by a hyper step; the burn-in ends with one."""
    config = running_config(fraction=0.64, burn_in=1)
    due = [hyper_steps_due(step / 100, 128, 2000, config) for step in range(301)]
    assert due[:100] == [0] * 100
    assert due[100] == 1
    assert [step for step in range(101, 301) if due[step] > due[step - 1]] == list(range(110, 301, 10))


def test_due_hyper_steps_are_a_function_of_the_progress_alone():
    config = running_config(burn_in=3)
    steps = [number / 7 for number in range(7 * 20)]
    due = [hyper_steps_due(epochs, 384, 5000, config) for epochs in steps]
    assert due == [hyper_steps_due(epochs, 384, 5000, config) for epochs in steps]
    assert due == sorted(due)


@pytest.mark.parametrize(
    ("num_data", "batch_size", "epochs", "expected"),
    [
        (5000, 50, 40, 4),  # 400 weight steps
        (60_000, 50, 40, 1),
        (1000, 100, 40, 6),  # a sixth of the epochs is less
        (1000, 100, 2, 1),
        (990, 100, 400, 40),  # the last batch of an epoch is a step too
    ],
)
def test_an_open_burn_in_is_400_weight_steps_and_at_most_a_sixth(num_data, batch_size, epochs, expected):
    config = RUNNING.replace(epochs=epochs, weights={"batch_size": batch_size}, hyper={"burn_in": None})
    assert burn_in_epochs(config, num_data) == expected
    assert burn_in_epochs(config.replace(hyper={"burn_in": 7}), num_data) == 7


@pytest.mark.parametrize(
    ("num_data", "curvature", "expected"), [(399, "kron", "exact"), (400, "kron", 1), (10**6, "full", "exact")]
)
def test_automatic_probes_and_an_open_burn_in_are_filled_in(num_data, curvature, expected):
    config = FitConfig(curvature=curvature)
    assert (config.hyper.probes, config.evaluation.probes, config.hyper.burn_in) == ("auto", "auto", None)
    found = filled_in(config, num_data)
    assert (found.hyper.probes, found.evaluation.probes) == (expected, expected)
    assert found.hyper.burn_in == burn_in_epochs(config, num_data)
    given = PLAIN.replace(hyper={"probes": 3}, evaluation={"probes": 5})
    assert filled_in(given, num_data) == given


def test_a_network_gets_200_weight_steps_and_its_warm_up_before_it_counts_as_dead():
    config = RUNNING.replace(epochs=100, weights={"batch_size": 50, "warmup_epochs": 3})
    assert dead_epochs(config, 1000) == 3 + 10
    assert dead_epochs(config, 50_000) == 3 + 4, "and at least four epochs"


def test_running_progress_ends_with_its_share_of_the_epochs():
    config = running_config(burn_in=10)
    assert hyper_progress(10, config) == 0.0
    assert hyper_progress(10 + 10 * HYPER_SHARE, config) == pytest.approx(1.0)
    assert hyper_progress(15, config, begun=15.0) == 0.0
    assert hyper_progress(15 + 5 * HYPER_SHARE, config, begun=15.0) == pytest.approx(1.0)


def test_hyper_progress_ends_at_one_with_the_last_epoch():
    config = PLAIN.replace(epochs=12, hyper={"burn_in": 2})
    assert hyper_progress(3, config) == 0.0
    assert hyper_progress(12, config) == 1.0


@pytest.mark.parametrize("evaluations", [1, 2, 3, 5])
@pytest.mark.parametrize("epochs", [1, 4, 20, 61])
def test_the_last_epoch_is_evaluated_and_there_are_as_many_as_asked(evaluations, epochs):
    config = PLAIN.replace(
        epochs=epochs, hyper={"burn_in": min(3, epochs - 1)}, evaluation={"num_evaluations": evaluations}
    )
    evaluated = [epoch for epoch in range(1, epochs + 1) if is_evaluated_epoch(epoch, config)]
    assert evaluated[-1] == epochs
    assert len(evaluated) == min(evaluations, epochs - config.hyper.burn_in)
    assert evaluated[0] > config.hyper.burn_in


def test_a_run_that_ends_in_its_burn_in_is_evaluated_at_its_end():
    config = PLAIN.replace(epochs=4, hyper={"burn_in": 10})
    assert [epoch for epoch in range(1, 5) if is_evaluated_epoch(epoch, config)] == [4]


def test_no_evaluation_where_none_is_asked():
    config = PLAIN.replace(epochs=5, hyper={"burn_in": 0}, evaluation={"num_evaluations": 0})
    assert not any(is_evaluated_epoch(epoch, config) for epoch in range(1, 6))


def spread(config):
    """The evaluated epochs by their definition, a list of all of them."""
    span, number = config.epochs - config.hyper.burn_in, config.evaluation.num_evaluations
    ranks = {config.epochs - round(part * span / number) for part in range(number)}
    return [epoch for epoch in range(config.hyper.burn_in + 1, config.epochs + 1) if epoch in ranks]


@pytest.mark.parametrize("epochs", [1, 7, 24])
@pytest.mark.parametrize("number", [1, 3, 5, 16, 24, 25, 300])
def test_evaluated_epochs_are_evenly_spread(epochs, number):
    for burn_in in range(epochs):
        config = PLAIN.replace(epochs=epochs, hyper={"burn_in": burn_in}, evaluation={"num_evaluations": number})
        assert [epoch for epoch in range(1, epochs + 1) if is_evaluated_epoch(epoch, config)] == spread(config)


def test_the_largest_numbers_take_no_time():
    config = PLAIN.replace(epochs=10**6, hyper={"burn_in": 3, "every": 2}, evaluation={"num_evaluations": 10**6})
    assert all(is_evaluated_epoch(epoch, config) for epoch in range(4, 1000))
    assert hyper_steps_due(10**6, 10, 100, config) == 499_998


@pytest.mark.parametrize("every", [1, 2, 3, 7])
@pytest.mark.parametrize("burn_in", [0, 3, 12, 20])
def test_hyper_epochs_are_counted(burn_in, every):
    config = PLAIN.replace(epochs=12, hyper={"burn_in": burn_in, "every": every})
    expected = [epoch for epoch in range(burn_in + 1, 13) if (epoch - burn_in) % every == 0]
    assert hyper_epochs(config) == expected
    assert hyper_steps_due(12, 10, 100, config) == len(expected)
    assert hyper_steps_due(12, 10, 100, config.replace(hyper={"estimator": "augerino"})) == 0


def test_seeds_differ_by_use_and_number():
    seeds = {seed_for(seed, use, number) for seed in range(3) for use in range(3) for number in range(3)}
    assert len(seeds) == 27
