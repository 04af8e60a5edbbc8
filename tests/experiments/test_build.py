"""The pieces of an experiment: data with a known symmetry, the learned network, the baselines."""

import math

import numpy as np
import pytest
import torch

from covary import Averaged, Checkpoints
from covary.config import BASELINES, ExperimentConfig
from covary.data import Augmented, flips_and_shifts, in_quadrants, load, resized, symmetrize
from covary.errors import CovaryError
from covary.experiments import build as invariance
from covary.experiments.build import Session, check_baselines, learn, model, prepared, run_baseline
from experiments.small import SETTINGS, bars, config


def test_data_are_limited_then_made_symmetric_then_typed(tmp_path):
    task = prepared(config(tmp_path, num_train=12, symmetrize="rotate:90", fit=SETTINGS.replace(seed=5)))
    assert task.dataset.x_train.shape == (12, 1, 6, 6)
    assert task.dataset.x_train.dtype == task.dataset.x_test.dtype == torch.float64
    assert task.true_widths == {"rotation": math.pi / 2}
    plain = prepared(config(tmp_path, num_train=12, fit=SETTINGS.replace(seed=5)))
    assert plain.true_widths == {}
    assert task.dataset.y_train.equal(plain.dataset.y_train)
    given = plain.dataset._replace(x_train=plain.dataset.x_train.float(), x_test=plain.dataset.x_test.float())
    expected = symmetrize(given, "rotate:90", 5).x_train.double()
    assert task.dataset.x_train.equal(expected)
    assert not task.dataset.x_train.allclose(plain.dataset.x_train)


def test_the_seed_chooses_the_data(tmp_path):
    chosen = [prepared(config(tmp_path, num_train=12, fit=SETTINGS.replace(seed=seed))).dataset for seed in (0, 0, 1)]
    assert chosen[0].x_train.equal(chosen[1].x_train)
    assert not chosen[0].x_train.equal(chosen[2].x_train)
    assert load(config(tmp_path).data).x_train.equal(bars().x_train)


def test_baselines_start_from_the_same_weights(tmp_path):
    settings = config(
        tmp_path, fit=SETTINGS.replace(epochs=1, weights={"lr": 1e-9, "lr_min": 0.0}), baselines=("plain",)
    )
    task = prepared(settings)
    learned, plain = learn(settings, task), run_baseline("plain", settings, task)
    start = model(settings, task)
    for name, weight in start.network.state_dict().items():
        assert learned.network.network.state_dict()[name].allclose(weight, atol=1e-8)
    with torch.no_grad():
        logits = start.network(task.dataset.x_test)
    nll = torch.nn.functional.cross_entropy(logits, task.dataset.y_test)
    assert plain.test.nll == pytest.approx(float(nll), rel=1e-6)
    assert learned.record.test.nll != pytest.approx(float(nll), rel=1e-6), "it averages over copies"


def test_roles_are_those_of_the_settings(tmp_path):
    settings = config(tmp_path, baselines=("plain", "augerino"), point=("*.bias",))
    task = prepared(settings)
    roles = learn(settings, task).record.roles
    assert all(name.endswith(".bias") for name in roles["point"])
    assert not any(name.endswith(".bias") for name in roles["integrated"])
    for name in settings.baselines:
        run_baseline(name, settings, task)
    with pytest.raises(CovaryError, match=r"pattern of point that matches a parameter, got '9\.bias'"):
        learn(settings.replace(point=["9.bias"]), task)


def test_plain_has_no_widths_and_fixed_keeps_its_own(tmp_path):
    settings = config(tmp_path, baselines=("plain", "fixed"), fixed_widths={"rotation": 1.5})
    task = prepared(settings)
    plain, fixed = (run_baseline(name, settings, task) for name in settings.baselines)
    widths = {symmetry.name: symmetry.width for symmetry in fixed.symmetries}
    assert plain.symmetries == []
    assert plain.test.num_samples == 1
    assert fixed.test.num_samples == 2
    assert widths.pop("rotation") == pytest.approx(1.5, rel=1e-6)
    assert set(widths.values()) == {0.0}
    assert plain.evidence.log_evidence != fixed.evidence.log_evidence


def test_augerino_learns_widths_without_an_evidence(tmp_path):
    settings = config(tmp_path, fit=SETTINGS.replace(epochs=8))
    found = run_baseline("augerino", settings, prepared(settings))
    assert found.evidence is None
    assert all(symmetry.width != pytest.approx(0.05, abs=1e-4) for symmetry in found.symmetries)


def test_learning_moves_widths_only_after_the_burn_in(tmp_path):
    fit = SETTINGS.replace(epochs=6, weights={"lr": 0.05, "batch_size": 3}, hyper={"burn_in": 3})
    settings = config(tmp_path, fit=fit)
    history = learn(settings, prepared(settings)).record.history
    for epoch in history[:3]:
        assert list(epoch.widths.values()) == pytest.approx([0.05] * 6)
    assert any(abs(width - 0.05) > 1e-3 for width in history[5].widths.values())


def test_a_baseline_that_cannot_be_built_is_told_before_work(tmp_path):
    settings = config(tmp_path, baselines=("plain", "fixed"), fixed_widths={"wobble": 1.0})
    with pytest.raises(CovaryError, match="'wobble' is no transform"):
        check_baselines(settings, prepared(settings))


def test_every_baseline_can_be_built_beside_one_with_widths(tmp_path):
    settings = config(
        tmp_path, network="relaxed:f-fc+conv:1", baselines=BASELINES, fixed_widths={"rotation": 1.5}, num_samples=1
    )
    check_baselines(settings, prepared(settings))


def test_a_session_has_a_folder_for_each_fit(tmp_path):
    assert Session(tmp_path, True, 3).checkpoints("plain") == Checkpoints(tmp_path / "plain", 3, True)
    assert Session().checkpoints("plain") is None


def test_data_are_placed_or_resampled_after_they_were_made_symmetric(tmp_path):
    given = bars()
    placed = prepared(config(tmp_path, symmetrize="rotate:90", task="digit", size=10))
    expected = in_quadrants(symmetrize(given, "rotate:90", 0), "digit", 0, 10)
    assert placed.dataset.x_train.equal(expected.x_train.double())
    assert placed.true_widths == {}, "an image that turns in its quadrant is no image that turns"
    assert prepared(config(tmp_path, task="quadrant")).dataset.x_train.shape[-1] == 32
    larger = prepared(config(tmp_path, symmetrize="translate:2", size=10))
    assert larger.dataset.x_test.equal(resized(symmetrize(given, "translate:2", 0), 10).x_test.double())
    assert larger.true_widths == {"shift_x": 2 / 3, "shift_y": 2 / 3}, "shares of the side, whatever its pixels"


def test_a_standardized_network_sees_mean_0_and_variance_1(tmp_path):
    settings = config(tmp_path, standardize=True, augment="none")
    task = prepared(settings)
    assert task.dataset.x_train.equal(prepared(config(tmp_path)).dataset.x_train), "the images stay as they are"
    seen = []
    network = model(settings, task)
    network.network[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    network(task.dataset.x_train)
    assert float(seen[0].mean()) == pytest.approx(0, abs=1e-12)
    assert float(seen[0].var(correction=0)) == pytest.approx(1, rel=1e-12)


def test_color_images_and_tables_are_standardized_unless_the_settings_say_otherwise(tmp_path):
    gray, color = torch.rand(6, 1, 4, 4), torch.rand(6, 3, 4, 4)
    np.savez(tmp_path / "color.npz", x_train=color, y_train=np.arange(6) % 2, x_test=color, y_test=np.arange(6) % 2)
    np.savez(tmp_path / "gray.npz", x_train=gray, y_train=np.arange(6) % 2, x_test=gray, y_test=np.arange(6) % 2)

    def moments(name, **settings):
        return prepared(ExperimentConfig(data=str(tmp_path / name), **settings)).moments

    mean, deviation = moments("color.npz")
    assert mean.allclose(color.double().mean((0, 2, 3)))
    assert deviation.allclose(color.double().std((0, 2, 3), correction=0))
    assert moments("gray.npz") is None
    assert moments("color.npz", standardize=False) is None
    assert moments("gray.npz", standardize=True) is not None


def test_without_augmentation_the_network_is_not_averaged(tmp_path):
    settings = config(tmp_path, augment="none")
    assert not isinstance(model(settings, prepared(settings)), Averaged)
    assert isinstance(model(config(tmp_path), prepared(settings)), Averaged)
    learned = learn(settings, prepared(settings)).record
    assert learned.symmetries == []
    assert learned.test.num_samples == 1


def test_map_moves_no_precision_and_reports_its_evidence(tmp_path):
    settings = config(
        tmp_path, network="relaxed:s-conv:1:hyperparameter", augment="none", fit=SETTINGS.replace(epochs=2)
    )
    network, prior, fit = invariance._map(settings, prepared(settings))
    assert (not prior.log_precision.requires_grad, fit.evaluation.num_evaluations) == (True, 1)
    assert not network.blocks[0].paths["s-conv"].omega.requires_grad, "a hyperparameter is followed by no one"
    found = run_baseline("map", settings, prepared(settings))
    assert found.evidence is not None
    assert found.symmetries == []


def test_conv_is_the_network_of_the_same_width(tmp_path):
    settings = config(tmp_path, network="relaxed:s-fc+s-conv:2:weight", augment="none", baselines=("conv",))
    network, prior, _ = invariance._conv(settings, prepared(settings))
    assert [list(block.paths) for block in network.blocks] == [["conv"]] * 8
    assert network.blocks[0].paths["conv"].out_channels == 2
    assert prior.log_precision.requires_grad


@pytest.mark.parametrize(("name", "expected"), [("none", None), ("flips+shifts", flips_and_shifts)])
def test_weight_updates_see_what_the_settings_say(tmp_path, monkeypatch, name, expected):
    seen, fit = [], invariance.fit

    def watched(model, train, *settings, **options):
        seen.append(train.transform if isinstance(train, Augmented) else None)
        return fit(model, train, *settings, **options)

    monkeypatch.setattr(invariance, "fit", watched)
    learn(config(tmp_path, train_augment=name), prepared(config(tmp_path)))
    assert seen == [expected]


EQUIVARIANT_START = SETTINGS.replace(weights={"relative_lr": 0.15, "prior_scaled_lr": True})


def relaxed(tmp_path, **changes):
    chosen = {"network": "relaxed:f-fc+conv:1", "fit": EQUIVARIANT_START, "relaxation": 0.3}
    return config(tmp_path, **chosen | changes)


def precisions(start) -> dict[str, float]:
    _, prior, _ = start
    return {name: float(value) for name, value in zip(prior.names, prior.precision.detach(), strict=True)}


@pytest.mark.parametrize("augment", ["none", "affine"])
def test_a_relaxation_narrows_the_priors_of_all_but_strict_paths(tmp_path, augment):
    settings = relaxed(tmp_path, augment=augment, standardize=True)
    found = precisions(invariance._learned(settings, prepared(settings)))
    relaxing = {name for name in found if ".paths.f-fc." in name}
    assert len(relaxing) == 32
    assert all(found[name] > 10 for name in relaxing if name.endswith("write.weight"))
    assert all(found[name] == pytest.approx(1) for name in found if name not in relaxing)


def test_who_starts_as_the_equivariant_network(tmp_path):
    """What learns its prior as the run does; MAP and Augerino have theirs, equivariant paths alone have no other."""
    settings = relaxed(
        tmp_path,
        augment="affine",
        baselines=("plain", "fixed", "augerino", "map", "conv"),
        fixed_widths={"rotation": 1.0},
    )
    task = prepared(settings)
    starts = {name: invariance._BASELINES[name](settings, task) for name in settings.baselines}
    learned = precisions(invariance._learned(settings, task))
    assert {name.removeprefix("network."): value for name, value in learned.items()} == precisions(starts["plain"])
    assert learned == precisions(starts["fixed"])
    assert set(precisions(starts["map"]).values()) == set(precisions(starts["conv"]).values()) == {1.0}
    assert not starts["augerino"][2].weights.prior_scaled_lr


def test_a_relaxation_needs_layers_of_two_paths(tmp_path):
    settings = relaxed(tmp_path, network="relaxed:conv:1")
    with pytest.raises(CovaryError, match=r"no layer of 'relaxed:conv:1' has two\. Leave it at 1"):
        learn(settings, prepared(settings))
