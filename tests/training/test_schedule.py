import math

import pytest

from covary.training.schedule import (
    cosine,
    hyper_progress,
    is_evaluated_epoch,
    is_hyper_epoch,
    num_hyper_epochs,
    seed_for,
    warmth,
)
from training_models import PLAIN


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
    assert [epoch for epoch in range(1, 11) if is_hyper_epoch(epoch, config)] == [5, 7, 9]
    assert not any(
        is_hyper_epoch(epoch, PLAIN.replace(epochs=10, hyper={"estimator": "augerino"})) for epoch in range(1, 11)
    )


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
    assert num_hyper_epochs(config) == 499_998


@pytest.mark.parametrize("every", [1, 2, 3, 7])
@pytest.mark.parametrize("burn_in", [0, 3, 12, 20])
def test_hyper_epochs_are_counted(burn_in, every):
    config = PLAIN.replace(epochs=12, hyper={"burn_in": burn_in, "every": every})
    assert num_hyper_epochs(config) == sum(is_hyper_epoch(epoch, config) for epoch in range(1, 13))
    assert num_hyper_epochs(config.replace(hyper={"estimator": "augerino"})) == 0


def test_seeds_differ_by_use_and_number():
    seeds = {seed_for(seed, use, number) for seed in range(3) for use in range(3) for number in range(3)}
    assert len(seeds) == 27
