"""Every kind of task from data to predictions: curvature, evidence and its gradient, fit, metrics, storage."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, poisson_nll_loss

import covary
from covary.curvature import full
from covary.geometry.estimators.operators import gauss_newton
from covary.training import measure
from covary.training.metrics import predicted_noise
from oracles import curvature as oracle
from oracles import evidence as exact
from training_models import PLAIN

QUICK = PLAIN.replace(
    epochs=3, weights={"batch_size": 5}, hyper={"burn_in": 1, "num_prior_steps": 1}, evaluation={"num_evaluations": 1}
)


def noise(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def labels(num_classes, *shape, ignored=0):
    drawn = torch.randint(num_classes, shape, generator=torch.Generator().manual_seed(1))
    flat = drawn.flatten()
    flat[:ignored] = -100
    return flat.view(shape)


@dataclass(frozen=True)
class Task:
    network: nn.Module
    likelihood: object
    x: torch.Tensor
    y: torch.Tensor
    loss: object  # minus the log-likelihood by torch, or None where Λ is not its Hessian
    says: str  # in print(run)
    predicted: tuple


SIGMA = torch.tensor([0.5, 2.0], dtype=torch.float64)
NAMES = ("several outputs", "heteroscedastic", "binary", "multi-label", "counts", "ignored labels")
DENSE = ("segmentation", "sequence", "image to image")


def tasks():
    torch.manual_seed(0)
    points, image, sequence = noise(7, 3), noise(6, 1, 4, 4), noise(6, 2, 5)
    ignored = labels(3, 7, ignored=2)
    return {
        "several outputs": Task(
            nn.Linear(3, 2),
            covary.Gaussian(SIGMA.tolist()),
            points,
            noise(7, 2, seed=2),
            lambda f, y: 0.5 * ((f - y) / SIGMA).square().sum(),
            "standard deviation 0.5",
            (7, 2),
        ),
        "heteroscedastic": Task(
            nn.Linear(3, 2),
            covary.HeteroscedasticGaussian(),
            points,
            noise(7, seed=2),
            None,
            "noise of the targets: standard deviation",
            (7, 1),
        ),
        "binary": Task(
            nn.Linear(3, 1),
            covary.Bernoulli(),
            points,
            labels(2, 7),
            lambda f, y: binary_cross_entropy_with_logits(f, y[:, None].double(), reduction="sum"),
            "accuracy",
            (7, 1),
        ),
        "multi-label": Task(
            nn.Linear(3, 4),
            covary.Bernoulli(),
            points,
            labels(2, 7, 4),
            lambda f, y: binary_cross_entropy_with_logits(f, y.double(), reduction="sum"),
            " % of 28 labels, calibration error",
            (7, 4),
        ),
        "counts": Task(
            nn.Linear(3, 1),
            covary.Poisson(),
            points,
            labels(6, 7),
            lambda f, y: poisson_nll_loss(f, y[:, None].double(), reduction="sum"),
            "standard deviation of the targets",
            (7, 1),
        ),
        "ignored labels": Task(
            nn.Linear(3, 3),
            covary.Categorical(ignore_index=-100),
            points,
            ignored,
            lambda f, y: cross_entropy(f, y, reduction="sum"),
            " % of 5 labels, calibration error",
            (7,),
        ),
        "segmentation": Task(
            nn.Conv2d(1, 3, 3, padding=1),
            covary.Categorical(num_classes=3, ignore_index=-100),
            image,
            labels(3, 6, 4, 4, ignored=20),
            lambda f, y: cross_entropy(f, y, reduction="sum"),
            " % of 76 labels, calibration error",
            (6, 4, 4),
        ),
        "sequence": Task(
            nn.Conv1d(2, 3, 3, padding=1),
            covary.Categorical(num_classes=3),
            sequence,
            labels(3, 6, 5),
            lambda f, y: cross_entropy(f, y, reduction="sum"),
            " % of 30 labels, calibration error",
            (6, 5),
        ),
        "image to image": Task(
            nn.Conv2d(1, 1, 3, padding=1),
            covary.Gaussian(0.7),
            image,
            noise(6, 4, 4, seed=2),
            lambda f, y: 0.5 * ((f[:, 0] - y) / 0.7).square().sum(),
            "standard deviation 0.7",
            (6, 1, 4, 4),
        ),
    }


@pytest.fixture(params=[*NAMES, *DENSE])
def task(request):
    return tasks()[request.param]


def test_curvature_is_the_hessian_of_the_linearized_network(task):
    model, data = covary.Model(task.network, task.likelihood), (task.x, task.y)
    found = full(model, data).to_dense()
    torch.testing.assert_close(gauss_newton(model, data).to_dense(), found)
    if task.loss is not None:
        torch.testing.assert_close(found, oracle.ggn(task.network, task.x, lambda f: task.loss(f, task.y)))


def test_evidence_and_its_gradient_agree_over_curvatures_and_estimators(task):
    model, data = covary.Model(task.network, task.likelihood), (task.x, task.y)
    dense = covary.log_evidence(model, data, "full")
    torch.testing.assert_close(covary.log_evidence(model, data, "kernel").log_evidence, dense.log_evidence)
    direct = covary.hypergrad.direct(model, data, "full")
    twice = covary.hypergrad.two_pass(model, data, "full")
    bound = covary.hypergrad.stochastic(model, data, outputs="all", num_data=len(task.x))
    assert direct.keys() == twice.keys() == bound.keys()
    for name in direct:
        torch.testing.assert_close(twice[name], direct[name])
        torch.testing.assert_close(bound[name], direct[name])


def test_a_fit_says_what_matters_and_is_loaded_again(task, tmp_path):
    run = covary.fit(
        covary.Model(task.network, task.likelihood), (task.x, task.y), QUICK, test=(task.x, task.y), callbacks=()
    )
    assert "log evidence" in str(run)
    assert task.says in str(run)
    assert "negative log-likelihood" in str(run)
    assert run.predict(task.x).shape == task.predicted
    again = covary.load(run.save(tmp_path), task.network)
    torch.testing.assert_close(again.predict_proba(task.x), run.predict_proba(task.x), rtol=0, atol=0)
    assert str(again) == str(run)


def test_predictions_of_the_posterior(task):
    posterior = covary.Laplace(covary.Model(task.network, task.likelihood), (task.x, task.y))
    linearized, sampled = (posterior.predict(task.x, method=method, num_samples=150) for method in ("glm", "mc"))
    for one, two in zip(*((p,) if isinstance(p, torch.Tensor) else p for p in (linearized, sampled)), strict=True):
        # the linearized network is the network here: they differ by the noise of 150 samples and of the link
        torch.testing.assert_close(one.flatten(1), two.flatten(1), rtol=0.4, atol=0.2)


def test_the_last_layer_has_the_curvature_of_all(task):
    posteriors = [
        covary.Laplace(covary.Model(task.network, task.likelihood), (task.x, task.y), subset=subset)
        for subset in ("all", "last_layer")
    ]
    torch.testing.assert_close(posteriors[0].curvature.to_dense(), posteriors[1].curvature.to_dense())


def test_the_evidence_of_several_outputs_with_noise_of_their_own_is_exact():
    x, y, precision = noise(9, 3), noise(9, 2, seed=1), torch.tensor(1.7)
    network = nn.Linear(3, 2, bias=False)
    with torch.no_grad():
        for row, sigma in enumerate(SIGMA):
            network.weight[row] = exact.linear_gaussian_mode(x, y[:, row], float(sigma), 1.7)
    model = covary.Model(network, covary.Gaussian(SIGMA.tolist()), covary.Prior(network, precision=1.7))
    expected = sum(exact.linear_gaussian_log_evidence(x, y[:, c], SIGMA[c], precision) for c in range(2))
    for structure in ("full", "kernel"):
        torch.testing.assert_close(covary.log_evidence(model, (x, y), structure).log_evidence, expected)


def test_metrics_of_each_task():
    def measured(likelihood, outputs, targets):
        return measure(nn.Identity(), likelihood, (outputs, targets))

    logits = torch.tensor([[3.0, -3.0], [-3.0, 3.0]])
    binary = measured(covary.Bernoulli(), logits, torch.tensor([[1, 0], [1, 1]]))
    assert binary.accuracy == 0.75
    assert (binary.rmse, binary.num_targets) == (None, 4)
    dense = torch.stack([logits, -logits], 1)  # (N, C, P)
    found = measured(covary.Categorical(num_classes=2, ignore_index=-100), dense, torch.tensor([[0, 0], [-100, 0]]))
    assert (found.accuracy, found.num_targets) == (pytest.approx(2 / 3), 3)
    counts = measured(covary.Poisson(), torch.zeros(2, 1), torch.tensor([1, 3]))
    assert (counts.accuracy, counts.rmse) == (None, pytest.approx(2**0.5))
    real = measured(covary.HeteroscedasticGaussian(), torch.tensor([[1.0, 0.0], [2.0, 0.0]]), torch.tensor([1.0, 5.0]))
    assert (real.rmse, real.rmse_by_target) == (pytest.approx(3 / 2**0.5), [])
    two = measured(covary.Gaussian(), torch.tensor([[1.0, 100.0], [2.0, 300.0]]), torch.tensor([[1.0, 0], [5.0, 300]]))
    assert two.rmse_by_target == [pytest.approx(3 / 2**0.5), pytest.approx(100 / 2**0.5)], "in units of their own"
    nothing = measured(covary.Categorical(ignore_index=-1), logits, torch.tensor([-1, -1]))
    assert (nothing.accuracy, nothing.ece, nothing.nll) == (None, None, 0)


def test_the_noise_that_a_network_predicts_is_in_record_and_text():
    """Earlier nothing was said of it: a heteroscedastic likelihood has no parameters."""
    x, y = noise(30, 3), noise(30, 2, seed=2)
    model = covary.Model(nn.Linear(3, 4), covary.HeteroscedasticGaussian())
    run = covary.fit(model, (x, y), QUICK, callbacks=())
    deviations = run.network(x)[:, 2:].detach().exp()
    for found, each in zip(run.record.predicted_noise, deviations.T, strict=True):
        ordered = sorted(each.tolist())
        assert found.size == pytest.approx(sum(value**2 / 30 for value in ordered) ** 0.5)
        assert (found.low, found.high) == (pytest.approx(ordered[1]), pytest.approx(ordered[28]))
    first = run.record.predicted_noise[0]
    spread = f"between {first.low:.3g} and {first.high:.3g} for 90 % of the data"
    beside = f"({y[:, 0].std(unbiased=False):.3g} without the network)"
    assert f"noise of target 0: standard deviation {first.size:.3g}, {spread} {beside}" in str(run)
    assert "noise of target 1: " in str(run)


def test_a_predicted_noise_near_the_deviation_of_the_targets_is_noted():
    model = covary.Model(nn.Linear(3, 2), covary.HeteroscedasticGaussian())
    with pytest.warns(UserWarning, match="noise is more than half of the standard deviation of the targets"):
        covary.fit(model, (noise(40, 3), noise(40, seed=2)), QUICK.replace(epochs=6), callbacks=())


def test_a_predicted_noise_is_that_of_a_thousand_data_or_a_stream_of_them():
    model = covary.Model(nn.Linear(1, 2), covary.HeteroscedasticGaussian())
    x = noise(1500, 1)
    chosen = predicted_noise(model, covary.as_batches((x, x[:, 0])), seed=0)
    assert chosen == predicted_noise(model, covary.as_batches((x, x[:, 0]), 7), seed=0), "in any batches"
    whole = predicted_noise(model, covary.as_batches([(x, x[:, 0])]), seed=0)
    assert chosen[0].size == pytest.approx(whole[0].size, rel=0.2)
    assert predicted_noise(covary.Model(nn.Linear(1, 2), covary.Gaussian()), covary.as_batches((x, x)), seed=0) == []


def test_positions_of_a_target_have_one_deviation():
    """Earlier one for each row of the images, whose targets lack the axis of channels."""
    found = tasks()["image to image"]
    run = covary.fit(covary.Model(found.network, found.likelihood), (found.x, found.y), QUICK, callbacks=())
    assert run.record.target_std == [pytest.approx(float(found.y.std(unbiased=False)))]
    assert (run.record.predicted_noise, run.evaluate((found.x, found.y)).rmse_by_target) == ([], [])
