"""A flip that exchanges two classes: rejected by a plain average, learned where outputs move with it."""

import pytest
import torch

import covary
from covary.augment import FiniteGroup, PermutedOutputs

SHORT = covary.FitConfig(epochs=16).replace(
    weights={"lr": 0.02, "batch_size": 20},
    hyper={"num_samples": 2, "num_sets": 1, "burn_in": 3, "fraction": 0.3, "num_data": 16, "num_prior_steps": 3},
)


def bars(num_data=60):
    """Images with a bar on the left, class 0, or on the right, class 1."""
    noise, y = torch.Generator().manual_seed(0), torch.arange(num_data) % 2
    left = torch.zeros(4, 4)
    left[1:3, :2] = 1
    x = torch.stack([left, left.flip(-1)])[y] + 0.7 * torch.randn(num_data, 4, 4, generator=noise)
    return x.unsqueeze(1), y


def averaged(action):
    inner = covary.networks.mlp(16, 6, 2, generator=torch.Generator().manual_seed(0))
    augment = FiniteGroup(("identity", "flip_x"), initial_probability=0.2)
    return covary.Averaged(inner, augment, num_samples=2, output_action=action)


def fitted(action):
    return covary.fit(averaged(action), bars(), SHORT, callbacks=())


def test_without_an_output_action_the_flip_is_rejected():
    run = fitted(None)
    assert run.symmetries[0].width < 0.05


def test_with_it_the_flip_is_learned_and_the_run_is_loaded_with_it(tmp_path):
    run = fitted(PermutedOutputs({"flip_x": (1, 0)}))
    assert run.symmetries[0].width == pytest.approx(0.5, abs=0.1)
    x, y = bars()
    assert run.evaluate((x, y)).accuracy > 0.95
    loaded = covary.load(run.save(tmp_path))
    assert torch.equal(loaded.predict_proba(x), run.predict_proba(x))
    assert loaded.network.output_actions[0].permutations == {"flip_x": (1, 0)}
    posterior = run.posterior((x, y))
    probabilities = posterior.predict(x)
    torch.testing.assert_close(probabilities.sum(1), torch.ones(len(x)))
    assert ((probabilities.argmax(1) == y).double().mean()) > 0.95
