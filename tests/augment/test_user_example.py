"""The documented example of a user's own augmentation, as it stands on the page."""

import re
from pathlib import Path

import pytest
import torch

import covary
from covary.augment import Augmentation, to_json
from covary.networks import mlp

PAGE = Path(__file__).parents[2] / "docs" / "augmentation.md"


@pytest.fixture(scope="module")
def colour_jitter():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = [block for block in blocks if "class ColourJitter" in block]
    names = {"__name__": "page"}
    exec(compile(block, str(PAGE), "exec"), names)
    return names["ColourJitter"]


def problem(augment, generator):
    network = covary.Averaged(mlp(48, 6, 3, generator=generator).double(), augment, 4)
    data = (torch.rand(9, 3, 4, 4, generator=generator), torch.arange(9) % 3)
    return network, covary.Categorical(), covary.Prior(network), data


def test_satisfies_the_protocol(colour_jitter, generator):
    augment = colour_jitter()
    assert isinstance(augment, Augmentation)
    x = torch.rand(2, 3, 4, 4, generator=generator)
    assert augment.apply(x, augment.sample_noise(torch.arange(2), 5, seed=0)).shape == (2, 5, 3, 4, 4)
    still = colour_jitter(0.0)
    torch.testing.assert_close(still.apply(x, torch.ones(2, 1, 3))[:, 0], x)
    bright = colour_jitter(0.2).apply(x, torch.tensor([[[1.0, 0.0, 0.0]]]).expand(2, 1, 3))[:, 0]
    torch.testing.assert_close(bright, x + 0.2)
    assert to_json(augment)["kind"] == "custom"


@pytest.mark.parametrize("curvature", ["kron", "full"])
def test_evidence_has_the_gradient_of_central_differences(curvature, colour_jitter, generator):
    augment = colour_jitter(0.3)
    network, likelihood, prior, data = problem(augment, generator)
    gradient = covary.hypergrad.two_pass(network, likelihood, prior, data, curvature, "exact")["augment.raw_widths"]
    for k, name in enumerate(augment.names):
        ends = []
        for step in (1e-5, -1e-5):
            augment.raw_widths.data[k] += step
            ends.append(covary.log_evidence(network, likelihood, prior, data, curvature).log_evidence)
            augment.raw_widths.data[k] -= step
        expected = float(ends[0] - ends[1]) / 2e-5
        assert abs(expected) > 1e-4, f"the test needs a slope of {name} to see"
        assert float(gradient[k]) == pytest.approx(expected, rel=1e-5)


def test_composes_with_affine_transforms(colour_jitter, generator):
    augment = covary.augment.Composed(covary.augment.Affine2d(("rotation",)), colour_jitter())
    network, likelihood, prior, data = problem(augment, generator)
    gradient = covary.hypergrad.two_pass(network, likelihood, prior, data, columns="exact")
    assert gradient["augment.parts.1.raw_widths"].abs().min() > 0
