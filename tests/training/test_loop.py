"""The loop as a user meets it: what it learns, what it leaves, what it refuses."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import covary
from covary.errors import DataError, StructureError
from covary.records import read_run
from covary.records.settling import with_states
from covary.records.summary import summary
from covary.reproduce.paper1.toy_models import rotated_arcs
from covary.training import loop
from covary.training.record import title_of
from layer_summary.small import noise, relaxed_pair
from training_models import PLAIN, QUICK, averaged, everything, points


def test_fit_returns_the_trained_modules_and_a_record():
    network = averaged()
    run = covary.fit(network, points(), QUICK, test=points(10, 3), callbacks=())
    assert run.network is network
    assert not network.training
    assert [epoch.epoch for epoch in run.record.history] == [1, 2, 3, 4]
    assert [epoch.evidence is None for epoch in run.record.history] == [True, False, False, False]
    assert [epoch.evaluated is not None for epoch in run.record.history] == [False, True, False, True]
    assert run.evidence.log_evidence == max(e.evaluated.log_evidence for e in run.record.history if e.evaluated)
    assert run.symmetries[0].name == "rotation"
    assert run.symmetries[0].state == "still moving", "three hyper steps are too few to tell"
    assert run.record.test.num_data == 10
    assert "rotation" in str(run)


def test_the_state_that_is_left_is_the_best_evaluated_one():
    """Outputs that change sign in the fifth of eight epochs: the evaluation before is the best, and the one kept."""
    network = averaged()

    def spoil(epoch):
        if epoch.epoch == 5:
            with torch.no_grad():
                network.network[3].weight.neg_()
                network.network[3].bias.neg_()

    config = QUICK.replace(epochs=8, hyper={"burn_in": 0}, evaluation={"num_evaluations": 4})
    run = covary.fit(network, points(), config, callbacks=[spoil])
    evaluated = [epoch for epoch in run.record.history if epoch.evaluated]
    best = max(evaluated, key=lambda epoch: epoch.evaluated.log_evidence)
    assert best.epoch < 8, "the run must have gone astray for this to test anything"
    assert best.widths != run.record.history[-1].widths
    assert run.network.augment.widths.tolist() == list(best.widths.values())
    assert run.evidence == best.evaluated


def test_rotation_is_learned_where_labels_ignore_it():
    """Arcs of ±60° about a middle: the width goes from ±3° to about that, once the network knows the radius."""
    arcs = rotated_arcs(120, seed=1, dtype=torch.float64)
    network = covary.networks.mlp(2, 20, 2, generator=torch.Generator().manual_seed(1))
    averaged = covary.Averaged(network, covary.augment.Rotation2d(0.05), 8)
    config = PLAIN.replace(
        epochs=150,
        weights={"batch_size": 120, "lr": 0.05},
        hyper={"burn_in": 50, "every": 2, "probes": "exact", "num_prior_steps": 1, "augment_lr_min": 0.002},
        evaluation={"num_evaluations": 1},
    )
    run = covary.fit(
        covary.Model(averaged, prior=covary.Prior(averaged, "scalar", 0.3)), (arcs[0], arcs[1]), config, callbacks=()
    )
    assert run.symmetries[0].width == pytest.approx(math.radians(60), rel=0.3)
    assert run.symmetries[0].state == "settled"
    growing = with_states(run.symmetries, run.record.history[:70], None)
    assert growing[0].state == "still moving", "it grew from epoch 50 to 100"


def test_a_frozen_augmentation_stays_and_the_prior_is_learned():
    network = averaged()
    network.augment.requires_grad_(False)
    prior = covary.Prior(network)
    before = prior.precision.detach().clone()
    run = covary.fit(covary.Model(network, prior=prior), points(), QUICK, callbacks=())
    assert run.symmetries[0].width == pytest.approx(0.3)
    assert run.symmetries[0].state == "fixed"
    assert not torch.equal(prior.precision, before)


def test_nothing_to_learn_is_plain_training():
    network = averaged()
    network.augment.requires_grad_(False)
    prior = covary.Prior(network).requires_grad_(False)
    run = covary.fit(covary.Model(network, prior=prior), points(), QUICK, callbacks=())
    assert all(epoch.evidence is None for epoch in run.record.history)
    assert run.evidence is not None


def test_a_plain_network_and_a_gaussian_likelihood():
    x, _ = points()
    y = x.sum(1, keepdim=True)
    network = covary.networks.mlp(2, 4, 1)
    run = covary.fit(covary.Model(network, covary.Gaussian(0.5)), (x, y), QUICK, test=(x, y), callbacks=())
    assert run.symmetries == []
    assert run.record.test.accuracy is None
    assert float(run.likelihood.sigma_noise.detach()) != 0.5


def test_datasets_and_tensors_agree_bit_for_bit():
    x, y = points()
    one = covary.fit(averaged(), (x, y), QUICK, callbacks=())
    two = covary.fit(averaged(), TensorDataset(x, y), QUICK, callbacks=())
    assert all(torch.equal(a, b) for a, b in zip(everything(one).values(), everything(two).values(), strict=True))


@pytest.mark.parametrize("burn_in", [1, None])
def test_batches_of_their_own_can_be_trained_on(burn_in):
    loader = DataLoader(TensorDataset(*points()), batch_size=8)
    run = covary.fit(averaged(), loader, QUICK.replace(hyper={"num_data": None, "burn_in": burn_in}), callbacks=())
    assert run.evidence.num_data == 24
    assert run.symmetries[0].width != pytest.approx(0.3, abs=1e-6)


def with_dropout() -> covary.Averaged:
    network = covary.networks.mlp(2, 5, 2, generator=torch.Generator().manual_seed(0))
    return covary.Averaged(torch.nn.Sequential(*network, torch.nn.Dropout(0.3)), covary.augment.Rotation2d(0.3), 3)


@pytest.mark.parametrize("model", [averaged, with_dropout])
def test_the_global_seed_does_not_matter(model):
    torch.manual_seed(1)
    one = covary.fit(model(), points(), QUICK, callbacks=())
    torch.manual_seed(2)
    two = covary.fit(model(), points(), QUICK, callbacks=())
    assert all(torch.equal(a, b) for a, b in zip(everything(one).values(), everything(two).values(), strict=True))


def test_train_transform_reaches_weight_steps_alone():
    """A transform that spoils the data spoils the weights; the evidence of the hyper step still sees the data."""
    seen = []

    def spoil(x, index, seed):
        seen.append((tuple(index.tolist()), seed))
        return torch.zeros_like(x)

    config = QUICK.replace(epochs=1, hyper={"burn_in": 0}, evaluation={"num_evaluations": 0})
    spoiled = covary.fit(averaged(), covary.data.Augmented(points(), spoil), config, callbacks=())
    plain = covary.fit(averaged(), points(), config, callbacks=())
    assert len(seen) == 3, "one call per batch of weights, none for the hyper step"
    assert sorted(i for indices, _ in seen for i in indices) == list(range(24))
    assert spoiled.record.history[0].log_likelihood != plain.record.history[0].log_likelihood
    weights = [n for n in everything(plain) if n.startswith("network/network")]
    assert any(not torch.equal(everything(spoiled)[n], everything(plain)[n]) for n in weights)


def test_save_writes_everything_and_the_record_is_the_run(tmp_path):
    run = covary.fit(averaged(), points(), QUICK, callbacks=())
    folder = run.save(tmp_path / "first")
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1, "readable by whom the others are"
    assert {path.name for path in folder.iterdir()} == {"run.json", "model.safetensors", "augment.json"}
    assert replace(read_run(folder), files={}) == run.record


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (([[float("nan")] * 2] * 4, [0] * 4), "finite"),
        (([[0.0] * 2] * 4, [0, 1, 2, 0]), "out of range"),
        (([], []), "empty"),
    ],
)
def test_bad_data_are_refused_before_work(data, word):
    x, y = torch.tensor(data[0]).reshape(-1, 2), torch.tensor(data[1], dtype=torch.long)
    with pytest.raises(DataError, match=word):
        covary.fit(averaged(), (x, y), QUICK, callbacks=())


def test_nan_in_the_last_batch_is_found_before_work():
    x, y = points()
    x[-1, 0] = float("nan")
    with pytest.raises(DataError, match="datum 23"):
        covary.fit(averaged(), (x, y), QUICK, callbacks=())


def test_the_rate_falls_once_also_where_batches_have_a_size_of_their_own(monkeypatch):
    rates = []
    monkeypatch.setattr(loop, "set_rates", lambda optimizer, progress, share: rates.append(progress))
    loader = DataLoader(TensorDataset(*points()), batch_size=3)
    covary.fit(
        averaged(), loader, QUICK.replace(hyper={"num_data": None}, evaluation={"num_evaluations": 0}), callbacks=()
    )
    assert len(rates) == 4 * 8
    assert rates == sorted(rates)
    assert rates[-1] == pytest.approx(1 - 1 / 32)


def test_rates_rise_over_the_warm_up(monkeypatch):
    shares = []
    monkeypatch.setattr(loop, "set_rates", lambda optimizer, progress, share: shares.append(share))
    covary.fit(
        averaged(),
        points(),
        QUICK.replace(weights={"warmup_epochs": 2}, evaluation={"num_evaluations": 0}),
        callbacks=(),
    )
    assert shares == pytest.approx([*(number / 6 for number in range(1, 7)), *([1.0] * 6)])


def test_a_warm_up_that_never_ends_is_told():
    with pytest.warns(UserWarning, match="never reached their learning rate"):
        run = covary.fit(
            averaged(),
            points(),
            QUICK.replace(weights={"warmup_epochs": 4}, evaluation={"num_evaluations": 0}),
            callbacks=(),
        )
    assert "warm-up has 4 epochs of 4" in run.record.notes[0]


@pytest.mark.parametrize("learns", [True, False])
def test_layers_are_read_out_where_something_was_learned(learns):
    network = relaxed_pair().float()
    prior = covary.Prior(network).requires_grad_(learns)
    x, y = noise()
    run = covary.fit(
        covary.Model(network, prior=prior),
        (x.float(), y),
        QUICK.replace(hyper={"num_data": None}, evaluation={"num_evaluations": 0}),
        callbacks=(),
    )
    assert bool(run.layers) is learns


def test_images_of_sorted_data_are_shown_from_all_classes(generator):
    x, y = torch.rand(40, 1, 4, 4, generator=generator), torch.arange(40) // 20
    network = covary.Averaged(covary.networks.mlp(16, 3, 2, generator=generator), covary.augment.Affine2d(), 2)
    run = covary.fit(
        network, (x, y), QUICK.replace(epochs=1, weights={"batch_size": 10}, hyper={"burn_in": 0}), callbacks=()
    )
    assert set(run.record.samples.labels) == {"0", "1"}


@pytest.mark.parametrize(
    ("settings", "structures"),
    [
        ({"curvature": "kron"}, ["kron", "kron", "dense"]),
        ({"curvature": "diag"}, ["diagonal"] * 3),
        ({"curvature": "full"}, ["full"] * 3),
        ({"hyper.estimator": "kernel"}, ["kernel"] * 3),
    ],
)
def test_coverage_is_that_of_the_evaluated_evidence_and_of_the_weights_in_it(settings, structures):
    network = averaged()
    prior = covary.Prior(network, point=["network.1.bias"])
    run = covary.fit(
        covary.Model(network, prior=prior), points(), QUICK.replace(hyper={"probes": "exact"}, **settings), callbacks=()
    )
    assert [row.structure for row in run.record.coverage] == structures
    assert [row.name for row in run.record.coverage] == list(prior.weights(network))


def gated() -> torch.nn.Sequential:
    """A network with a scale that has a role, and no curvature rule."""
    network = covary.networks.mlp(2, 5, 2, generator=torch.Generator().manual_seed(0))
    return torch.nn.Sequential(network, torch.nn.PReLU(), torch.nn.Linear(2, 2))


@pytest.mark.parametrize("role", ["point", "hyperparameters"])
@pytest.mark.parametrize("scaled", [False, True])
def test_a_parameter_is_trained_by_its_role(role, scaled, tmp_path):
    """A point weight moves in every epoch, a hyperparameter from the first hyper step on."""
    network = gated()
    prior = covary.Prior(network, **{role: "1.weight"})
    moves = []
    config = QUICK.replace(
        weights={"relative_lr": 0.15, "max_grad_norm": 1.0, "prior_scaled_lr": True} if scaled else {}
    )
    run = covary.fit(
        covary.Model(network, prior=prior),
        points(),
        config,
        callbacks=[lambda _: moves.append(float(network[1].weight))],
    )
    changes = [a != b for a, b in zip([0.25, *moves], moves, strict=False)]
    assert changes == ([True] * 4 if role == "point" else [False, True, True, True])
    roles = run.record.roles
    assert roles[role.removesuffix("s")]["1.weight"] == 1
    assert list(roles["integrated"]) == list(run.model.weights)
    assert ("1 point" if role == "point" else "hyperparameter") in str(run)
    loaded = covary.load(run.save(tmp_path), gated)
    assert loaded.model.roles == run.model.roles
    assert all(torch.equal(a, b) for a, b in zip(everything(loaded).values(), everything(run).values(), strict=True))


def test_a_fit_with_point_weights_resumes_bit_for_bit(tmp_path):
    def model() -> covary.Model:
        network = averaged()
        return covary.Model(network, prior=covary.Prior(network, precision=3.0, point="*.bias"))

    whole = covary.fit(model(), points(), QUICK, callbacks=())

    def stop(epoch):
        if epoch.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        covary.fit(model(), points(), QUICK, checkpoints=covary.Checkpoints(tmp_path, 1), callbacks=[stop])
    resumed = covary.fit(
        model(), points(), QUICK, checkpoints=covary.Checkpoints(tmp_path, 1, resume=True), callbacks=()
    )
    assert all(torch.equal(a, b) for a, b in zip(everything(whole).values(), everything(resumed).values(), strict=True))
    checkpoints = covary.Checkpoints(tmp_path, 1, resume=True)
    with pytest.raises(StructureError, match="holds a run with"):
        covary.fit(averaged(), points(), QUICK, checkpoints=checkpoints, callbacks=())


def test_every_form_of_the_same_data_gives_the_same_fit():
    x, y = points()
    table, config = TensorDataset(x, y), QUICK.replace(epochs=2, weights={"batch_size": 8})
    forms = [
        (x, y),
        (x.numpy(), y.numpy().astype("uint8")),
        {"pixel_values": x.numpy(), "labels": y},
        table,
        DataLoader(table, batch_size=8, shuffle=True),
        covary.as_batches({"cells": x, "kinds": y}, keys=("cells", "kinds")),
        covary.data.Dataset(x, y, x[:0], y[:0], "points", ("0", "1")),
    ]
    first, *others = (everything(covary.fit(averaged(), form, config, callbacks=())) for form in forms)
    for other in others:
        assert all(torch.equal(first[name], other[name]) for name in first)


def test_a_run_without_a_hyper_step_says_so():
    with pytest.warns(UserWarning, match="No hyper step"):
        run = covary.fit(averaged(), points(), QUICK.replace(epochs=2, hyper={"burn_in": 5}), callbacks=())
    assert "burn_in" in run.record.notes[0]
    assert [symmetry.state for symmetry in run.symmetries] == ["not learned yet"]
    assert summary(run.record).startswith("No width was learned")
    assert "not learned yet" in str(run)


def test_choices_that_exclude_each_other_are_refused_before_work():
    network = averaged()
    with pytest.raises(StructureError, match="diagonal prior"):
        covary.fit(covary.Model(network, prior=covary.Prior(network, "diagonal")), points(), QUICK, callbacks=())
    with pytest.raises(StructureError, match="'every' to be at least 1, got 0"):
        covary.Checkpoints("folder", every=0)


def test_a_rate_of_zero_stays_zero():
    run = covary.fit(averaged(), points(), QUICK.replace(hyper={"width_lr": 0.0}), callbacks=())
    assert run.symmetries[0].width == pytest.approx(0.3)
    stochastic = QUICK.replace(hyper={"estimator": "stochastic", "augment_lr": 0.0})
    assert covary.fit(averaged(), points(), stochastic, callbacks=()).symmetries[0].width == pytest.approx(0.3)


def test_a_stream_has_no_parts_to_choose():
    loader = DataLoader(TensorDataset(*points()), batch_size=8)
    for config in (QUICK, None):
        with pytest.raises(DataError, match=r"batches.*loader\.dataset.*estimator='two_pass' and hyper\.num_data=None"):
            covary.fit(averaged(), loader, config, epochs=2, callbacks=())
    advised = covary.FitConfig(epochs=2).replace(hyper={"estimator": "two_pass", "num_data": None})
    assert covary.fit(averaged(), loader, advised, callbacks=()).record.problem is None


def test_a_prior_of_another_network_is_refused():
    with pytest.raises(StructureError, match="another network"):
        covary.fit(
            covary.Model(averaged(), prior=covary.Prior(covary.networks.mlp(2, 7, 2))), points(), QUICK, callbacks=()
        )


def test_a_diagonal_prior_is_refused_by_the_kernel_estimator_before_work():
    network = averaged()
    with pytest.raises(StructureError, match="one precision by weight"):
        covary.fit(
            covary.Model(network, prior=covary.Prior(network, "diagonal")),
            points(),
            QUICK.replace(curvature="diag", hyper={"estimator": "kernel"}),
            callbacks=(),
        )


@pytest.mark.parametrize(
    ("name", "shape", "network", "expected"),
    [
        ("digits", (1, 28, 28), nn.Flatten(), "digits: 1,200 images, Flatten"),
        ("", (3, 20, 30), nn.Sequential(), "1,200 images of 20 × 30, Sequential"),
        ("", (2,), covary.networks.mlp(2, 4, 2), "1,200 data of 2 features, mlp"),
        ("", (5, 7), nn.Linear(7, 2), "1,200 data of 5 × 7, Linear"),
    ],
)
def test_the_title_names_data_and_network(name, shape, network, expected):
    assert title_of(name, 1200, shape, network) == expected
    averaged = covary.Averaged(network, covary.augment.Rotation2d(), num_samples=2)
    assert title_of(name, 1200, shape, averaged) == expected
