"""An augmentation of the user's own: a module with the members of the protocol, without a base class."""

import json

import pytest
import torch
from torch import nn

import covary
from covary.augment import Augmentation
from covary.augment.export import to_json
from covary.networks import mlp
from covary.noise import Stream, uniform
from covary.report import page
from training_models import PLAIN, everything


class ColorJitter(nn.Module):
    """Brightness, contrast and saturation of images (N, 3, H, W), each by a uniform amount."""

    names = ("brightness", "contrast", "saturation")
    units = ("gray levels", "log-factor", "log-factor")
    hyperparameters = ("raw_widths",)

    def __init__(self, initial_width=0.05):
        super().__init__()
        self.raw_widths = nn.Parameter(torch.full((3,), initial_width))

    @property
    def widths(self):
        return self.raw_widths.abs()

    def sample_noise(self, index, num_samples, *, seed):
        shape = (num_samples, 3)
        return 2 * uniform(seed, index, shape, stream=Stream.AUGMENTATION, dtype=self.raw_widths.dtype) - 1

    def transform(self, x, noise):
        amounts = (noise * self.widths).to(x)[..., None, None, None]  # (N, S, 3, 1, 1, 1)
        brightness, contrast, saturation = amounts.unbind(2)
        samples = x.unsqueeze(1)  # (N, 1, 3, H, W)
        mean = samples.mean((2, 3, 4), keepdim=True)
        samples = mean + (samples - mean) * contrast.exp() + brightness
        gray = samples.mean(2, keepdim=True)
        return gray + (samples - gray) * saturation.exp()


@pytest.fixture(scope="module")
def color_jitter():
    return ColorJitter


def problem(augment, generator):
    network = covary.Averaged(mlp(48, 6, 3, generator=generator).double(), augment, 4)
    data = (torch.rand(9, 3, 4, 4, generator=generator), torch.arange(9) % 3)
    return network, covary.Categorical(), covary.Prior(network), data


def test_satisfies_the_protocol(color_jitter, generator):
    augment = color_jitter()
    assert isinstance(augment, Augmentation)
    x = torch.rand(2, 3, 4, 4, generator=generator)
    assert augment.transform(x, augment.sample_noise(torch.arange(2), 5, seed=0)).shape == (2, 5, 3, 4, 4)
    still = color_jitter(0.0)
    torch.testing.assert_close(still.transform(x, torch.ones(2, 1, 3))[:, 0], x)
    bright = color_jitter(0.2).transform(x, torch.tensor([[[1.0, 0.0, 0.0]]]).expand(2, 1, 3))[:, 0]
    torch.testing.assert_close(bright, x + 0.2)
    assert to_json(augment)["kind"] == "custom"


@pytest.mark.parametrize("curvature", ["kron", "full"])
def test_evidence_has_the_gradient_of_central_differences(curvature, color_jitter, generator):
    augment = color_jitter(0.3)
    network, likelihood, prior, data = problem(augment, generator)
    gradient = covary.hypergrad.two_pass(covary.Model(network, likelihood, prior), data, curvature)[
        "augment.raw_widths"
    ]
    for k, name in enumerate(augment.names):
        ends = []
        for step in (1e-5, -1e-5):
            augment.raw_widths.data[k] += step
            ends.append(covary.log_evidence(covary.Model(network, likelihood, prior), data, curvature).log_evidence)
            augment.raw_widths.data[k] -= step
        expected = float(ends[0] - ends[1]) / 2e-5
        assert abs(expected) > 1e-4, f"the test needs a gradient of {name} to see"
        assert float(gradient[k]) == pytest.approx(expected, rel=1e-5)


def test_composes_with_affine_transforms(color_jitter, generator):
    augment = covary.augment.Composed(covary.augment.Affine2d(("rotation",)), color_jitter())
    network, likelihood, prior, data = problem(augment, generator)
    gradient = covary.hypergrad.two_pass(covary.Model(network, likelihood, prior), data, "kron")
    assert gradient["augment.parts.1.raw_widths"].abs().min() > 0


# Adam's steps on all data, the reference
LIT = PLAIN.replace(
    epochs=22,
    weights={"batch_size": 30, "lr": 0.03},
    hyper={
        "width_optimizer": "adam",
        "max_width_change": 100.0,
        "burn_in": 6,
        "probes": "exact",
        "num_steps": 2,
        "num_prior_steps": 2,
        "augment_lr": 0.3,
    },
    evaluation={"num_evaluations": 1},
)


def lit(num_data, generator, *, labels_depend_on_light=False):
    """Images with a red or blue half, left or right, under a light of ±3: a label is whether it is blue xor right."""
    blue, right = torch.arange(num_data) % 2, torch.arange(num_data) // 2 % 2
    x = 0.5 * torch.rand(num_data, 3, 4, 2, 2, generator=generator)
    x[torch.arange(num_data), 2 * blue, :, right] += 1
    light = 6 * torch.rand(num_data, generator=generator) - 3
    return x.flatten(3) + light[:, None, None, None], (light > 0).long() if labels_depend_on_light else blue ^ right


def fit_light(augment, data, config=LIT, **options):
    network = mlp(48, 10, 2, generator=torch.Generator().manual_seed(0))
    return covary.fit(covary.Averaged(network, augment, 8), data, config, **({"callbacks": ()} | options))


def test_brightness_grows_where_labels_ignore_it(color_jitter, generator, tmp_path):
    run = fit_light(color_jitter(1.5), lit(60, generator))
    control = fit_light(color_jitter(1.5), lit(60, generator, labels_depend_on_light=True))
    assert run.symmetries[0].width > 2
    assert control.symmetries[0].width < 1, "the control: it shrinks if labels depend on the light"
    folder = run.save(tmp_path)
    record = json.loads((folder / "augment.json").read_text())
    assert (record["kind"], record["names"]) == ("custom", ["brightness", "contrast", "saturation"])
    assert record["widths"] == [symmetry.width for symmetry in run.symmetries]
    text = page(run.record)
    assert "brightness" in text
    assert f"±{run.symmetries[0].width:.3g} gray levels" in text


def test_a_resumed_run_equals_the_uninterrupted_one(color_jitter, generator, tmp_path):
    class Stop(Exception):
        pass

    def stop(record):
        if record.epoch == 3:
            raise Stop

    data, config = lit(20, generator), LIT.replace(epochs=5, hyper={"burn_in": 1})
    with pytest.raises(Stop):
        fit_light(color_jitter(), data, config, callbacks=[stop], checkpoints=covary.Checkpoints(tmp_path, every=1))
    resumed = fit_light(color_jitter(), data, config, checkpoints=covary.Checkpoints(tmp_path, every=1, resume=True))
    one, two = everything(resumed), everything(fit_light(color_jitter(), data, config))
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
