"""How far weights move in one step, relative to what they start with and to what their prior allows."""

import pytest
import torch

import covary
from covary.batches import IndexedBatch
from covary.errors import CovaryError
from covary.training.learning_rates import clip_gradients, follow, set_rates, start_within, units
from covary.training.state import initial_state
from covary.training.steps import weight_step
from training_models import QUICK, averaged, points

RELATIVE = QUICK.replace(weights={"lr": 1e-3, "relative_lr": 0.2})
FOLLOWING = RELATIVE.replace(weights={"prior_scaled_lr": True})


def state_of(config, precision):
    network = averaged()
    with torch.no_grad():
        for weight in network.network.parameters():
            if weight.dim() == 1:
                weight.zero_()
    state = initial_state(network, covary.Categorical(), covary.Prior(network, precision=precision), config)
    if config.weights.prior_scaled_lr:
        start_within(state.model, state.prior)
    return state


def moves(state, config):
    """The median distance that one step of Adam moves the entries of each weight: its rate, in the first step."""
    weights = state.prior.weights(state.network)
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    x, y = points(8)
    weight_step(state, IndexedBatch(x, y, torch.arange(8)), 8, 8, config)
    return {name: float((weight.detach() - before[name]).abs().median()) for name, weight in weights.items()}


def sizes(state):
    weights = state.prior.weights(state.network)
    return {name: float(weight.detach().pow(2).mean().sqrt()) or 0.2 for name, weight in weights.items()}


def test_rates_follow_the_size_that_weights_start_with():
    state = state_of(RELATIVE, 1.0)
    set_rates(state.weight_optimizer, 0)
    expected = {name: 1e-3 * size / 0.2 for name, size in sizes(state).items()}
    assert moves(state, RELATIVE) == pytest.approx(expected, rel=1e-3)


def test_a_wide_prior_bounds_nothing():
    apart = {name: size for name, size in sizes(state_of(RELATIVE, 1e-4)).items()}
    state = state_of(FOLLOWING, 1e-4)
    assert sizes(state) == apart
    assert units(state.weight_optimizer, state.prior) == pytest.approx(apart)
    set_rates(state.weight_optimizer, 0)
    before = [group["lr"] for group in state.weight_optimizer.param_groups]
    follow(state.weight_optimizer, state.prior)
    assert [group["lr"] for group in state.weight_optimizer.param_groups] == before


def test_weights_start_within_a_narrow_prior_and_move_in_its_units():
    free = sizes(state_of(RELATIVE, 1.0))
    state = state_of(FOLLOWING, 1e4)  # a deviation of 0.01, below every size
    weights = state.prior.weights(state.network)
    found = {name: float(w.detach().pow(2).mean().sqrt()) for name, w in weights.items() if w.dim() > 1}
    assert found == pytest.approx(dict.fromkeys(found, 0.01))
    set_rates(state.weight_optimizer, 0)
    follow(state.weight_optimizer, state.prior)
    assert moves(state, FOLLOWING) == pytest.approx(dict.fromkeys(free, 1e-3 * 0.01 / 0.2), rel=1e-3)


def test_units_grow_again_with_the_prior_up_to_the_first_size():
    """Weights are scaled down once; what they were before is what rates may come back to."""
    free = sizes(state_of(RELATIVE, 1.0))
    state = state_of(FOLLOWING, 1e4)
    with torch.no_grad():
        state.prior.log_precision.fill_(-5.0)
    assert units(state.weight_optimizer, state.prior) == pytest.approx(free)


@pytest.mark.parametrize("scale", [1e-3, 10.0])
def test_the_length_of_a_gradient_in_its_units_does_not_depend_on_the_scale_of_a_tensor(scale):
    """θ = c u has gradients 1/c as long; in plain units, the control, the shortening changes."""
    slope = torch.randn(4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def share(factor, unit):
        weights = {"a": torch.nn.Parameter(torch.zeros(4).double()), "b": torch.nn.Parameter(torch.zeros(4).double())}
        weights["a"].grad, weights["b"].grad = slope.clone(), slope / factor
        clip_gradients(weights, {"a": 1.0, "b": unit}, 0.1)
        return float(weights["a"].grad[0] / slope[0])

    assert share(scale, scale) == pytest.approx(share(1.0, 1.0), rel=1e-12)
    assert share(scale, 1.0) != pytest.approx(share(1.0, 1.0), rel=0.1)
    assert share(1.0, 1.0) == pytest.approx(0.1 / float((2 * slope.square().sum()) ** 0.5), rel=1e-4)


def test_training_follows_the_prior_step_by_step(monkeypatch):
    """Each weight step has the rates of the precisions as they are then, the same share of its unit for each tensor."""
    shares, seen = [], []
    taken = covary.training.loop.weight_step

    def record(state, *rest):
        found = units(state.weight_optimizer, state.prior)
        pairs = zip(state.weight_optimizer.param_groups, found.values(), strict=True)
        shares.append([group["lr"] / unit for group, unit in pairs])
        seen.append(list(found.values()))
        taken(state, *rest)

    monkeypatch.setattr("covary.training.loop.weight_step", record)
    network = averaged()
    config = FOLLOWING.replace(weights={"lr_min": 0.0}, hyper={"prior_lr": 0.5})
    covary.fit(covary.Model(network, prior=covary.Prior(network, precision=30.0)), points(), config, callbacks=())
    assert len(shares) == 12
    for row in shares:
        assert row == pytest.approx([row[0]] * len(row), rel=1e-9)
    assert shares[0][0] == pytest.approx(config.weights.lr / 0.2)
    assert seen[0] != seen[-1]


def test_a_fit_that_is_refused_leaves_weights_as_they_were(tmp_path):
    """Else the next one would take what remains of them for their size."""
    network = averaged()
    (tmp_path / "checkpoint-000001-000000.safetensors").touch()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    with pytest.raises(CovaryError, match="checkpoints of another run"):
        covary.fit(
            covary.Model(network, prior=covary.Prior(network, precision=1e4)),
            points(),
            FOLLOWING,
            checkpoints=covary.Checkpoints(tmp_path),
        )
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())
