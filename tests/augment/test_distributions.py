"""What all augmentations of the package have in common."""

import pytest
import torch

import covary
from covary.augment import (
    Affine2d,
    Augmentation,
    ColorJitter,
    Composed,
    LearnedGenerators,
    Mirror3d,
    Points3d,
    Signal1d,
    Volume3d,
    WeightedAugmentation,
)
from covary.networks import mlp

# name -> from an initial width to the augmentation, and the shape of a datum
CASES = {
    "affine": (lambda width: Affine2d(initial_width=width), (1, 5, 6)),
    "color": (lambda width: ColorJitter(initial_width=width), (3, 3, 4)),
    "gray": (lambda width: ColorJitter(("contrast", "brightness"), initial_width=width), (1, 3, 4)),
    "signal": (lambda width: Signal1d(initial_width=width, padding="border"), (2, 9)),
    "points": (lambda width: Points3d(initial_width=width), (5, 3)),
    "volume": (lambda width: Volume3d(initial_width=width, sampler="random"), (1, 3, 4, 5)),
    "composed": (
        lambda width: Composed(Points3d(("rotation_x",), initial_width=width), Mirror3d(("mirror_y",))),
        (4, 3),
    ),
    "generators": (lambda width: LearnedGenerators(2, dim=3, initial_width=width), (3,)),
    "generators of images": (lambda width: LearnedGenerators(1, initial_width=width), (1, 5, 6)),
    "mirror of points": (lambda width: Mirror3d(initial_probability=width), (4, 3)),
    "mirror of volumes": (lambda width: Mirror3d(initial_probability=width), (1, 2, 3, 4)),
}


@pytest.fixture(params=CASES)
def case(request, generator):
    make, shape = CASES[request.param]
    return make, torch.rand(4, *shape, generator=generator)


def test_shapes_names_and_units(case):
    make, x = case
    augment = make(0.3)
    assert isinstance(augment, Augmentation)
    assert len(augment.names) == len(augment.units) == len(augment.signs) == len(augment.widths)
    noise = augment.sample_noise(torch.arange(4), 8, seed=0)
    samples = augment.transform(x, noise)
    assert samples.shape == (4, 8, *x.shape[1:])
    assert samples.dtype == x.dtype
    assert augment.transform(x.float(), noise.float()).dtype == torch.float32
    if isinstance(augment, WeightedAugmentation):
        torch.testing.assert_close(augment.sample_weights(noise).sum(1), torch.ones(4))


def test_no_width_is_the_identity(case):
    make, x = case
    augment = make(0.3)
    with torch.no_grad():
        for parameter in augment.parameters():
            parameter.fill_(-40.0 if "Mirror" in type(augment).__name__ else 0.0)
    noise = augment.sample_noise(torch.arange(4), 8, seed=0)
    samples = augment.transform(x, noise)
    if isinstance(augment, WeightedAugmentation) and not isinstance(augment, Composed):
        mean = torch.einsum("ns,ns...->n...", augment.sample_weights(noise), samples)
        torch.testing.assert_close(mean, x)
    elif not isinstance(augment, Composed):
        torch.testing.assert_close(samples, x.unsqueeze(1).expand_as(samples))


def test_noise_is_a_function_of_seed_and_identity(case):
    make, x = case
    augment = make(0.3)
    whole = augment.transform(x, augment.sample_noise(torch.tensor([7, 8, 9, 3]), 4, seed=5))
    part = augment.transform(x[2:3], augment.sample_noise(torch.tensor([9]), 4, seed=5))
    torch.testing.assert_close(part[0], whole[2], rtol=0, atol=0)
    other = augment.transform(x, augment.sample_noise(torch.tensor([7, 8, 9, 3]), 4, seed=6))
    assert not torch.equal(other, whole)


def test_the_evidence_has_the_gradient_of_central_differences(case, generator):
    make, x = case
    network = covary.Averaged(mlp(x[0].numel(), 3, 2, generator=generator), make(0.3), 4)
    model, data = covary.Model(network), (x, torch.arange(4) % 2)
    gradient = covary.hypergrad.two_pass(model, data, "full")
    for name, parameter in network.augment.named_parameters():
        found = gradient[f"augment.{name}"]
        for place in range(min(parameter.numel(), 4)):
            ends = []
            for step in (1e-5, -1e-5):
                parameter.data.view(-1)[place] += step
                ends.append(covary.log_evidence(model, data, "full").log_evidence)
                parameter.data.view(-1)[place] -= step
            assert float(found.view(-1)[place]) == pytest.approx(float(ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-7)
