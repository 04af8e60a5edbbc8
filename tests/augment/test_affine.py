import math

import pytest
import torch

from covary.augment import Affine2d, Augmentation
from covary.errors import DataError, ShapeError, StructureError
from covary.groups import affine_generators, warp
from covary.groups.affine import AFFINE_NAMES
from covary.noise import Stream, uniform
from covary.priors import weights_of


def smooth_images(generator, *shape):
    return torch.nn.functional.avg_pool2d(torch.rand(*shape, generator=generator), 3, stride=1, padding=1)


def test_is_an_augmentation_with_six_small_widths():
    augment = Affine2d()
    assert isinstance(augment, Augmentation)
    assert augment.names == AFFINE_NAMES
    assert augment.units == ("half-widths", "half-heights", "radians", "log-scale", "log-scale", "log-scale")
    torch.testing.assert_close(augment.widths, torch.full((6,), 0.05))
    assert weights_of(augment) == {}
    assert list(augment.state_dict()) == ["raw_widths"]
    assert "rotation=0.05" in repr(augment)


def test_noise_is_uniform_and_depends_on_seed_and_index_alone():
    augment, index = Affine2d(), torch.arange(3000)
    noise = augment.sample_noise(index, 4, seed=3)
    assert noise.shape == (3000, 4, 6)
    assert -1 <= noise.min() < -0.99
    assert 0.99 < noise.max() < 1
    assert noise.mean().abs() < 0.01
    torch.testing.assert_close(noise.var(), torch.tensor(1 / 3), rtol=0.02, atol=0)
    split = [augment.sample_noise(part, 4, seed=3) for part in index.flip(0).split(999)]
    assert torch.equal(torch.cat(split).flip(0), noise)
    assert not torch.equal(augment.sample_noise(index, 4, seed=4), noise)


def test_samples_do_not_depend_on_the_batch(generator):
    augment, index = Affine2d(initial_width=0.3), torch.arange(10) + 50
    x = torch.rand(10, 1, 6, 7, generator=generator)
    whole = augment.transform(x, augment.sample_noise(index, 3, seed=0))
    for part in torch.arange(10).flip(0).split(4):
        assert torch.equal(augment.transform(x[part], augment.sample_noise(index[part], 3, seed=0)), whole[part])


def test_quarter_turn_is_rot90(generator):
    x = torch.rand(2, 3, 8, 8, generator=generator)
    augment = Affine2d(("rotation",), initial_width=math.pi / 2)
    turned = augment.transform(x, torch.ones(2, 1, 1))
    torch.testing.assert_close(turned[:, 0], torch.rot90(x, 1, (-2, -1)), rtol=0, atol=1e-12)


def surrounded(x, padding):
    """Images (N, C, 3H, 3W) with what is taken to lie around them, as much as themselves on each side."""
    if padding == "reflection":  # about the edge of the outermost pixels, which come twice, not about their centers
        rows = torch.cat([x.flip(-1), x, x.flip(-1)], -1)
        return torch.cat([rows.flip(-2), rows, rows.flip(-2)], -2)
    height, width = x.shape[-2:]
    mode = {"zeros": "constant", "border": "replicate"}[padding]
    return torch.nn.functional.pad(x, (width, width, height, height), mode)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_whole_pixel_shifts_bring_in_what_the_padding_says(padding, generator):
    x = torch.rand(2, 3, 6, 8, generator=generator)
    augment = Affine2d(("shift_x", "shift_y"), initial_width=(2 * 3 / 8, 2 * 2 / 6), padding=padding)
    signs = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    shifted = augment.transform(x, signs.expand(2, 4, 2))
    for sample, (left, up) in enumerate((signs * torch.tensor([3, 2])).int().tolist()):
        expected = surrounded(x, padding)[..., 6 + up : 12 + up, 8 + left : 16 + left]
        torch.testing.assert_close(shifted[:, sample], expected, rtol=0, atol=1e-12)


def test_samples_are_warps_by_the_exponential(generator):
    x, augment = torch.rand(2, 1, 9, 9, generator=generator), Affine2d(("shear", "shift_x"), initial_width=0.2)
    noise = augment.sample_noise(torch.arange(2), 5, seed=0)
    algebra = sum(
        0.2 * noise[..., k, None, None] * affine_generators((name,), dtype=torch.float64)[0]
        for k, name in enumerate(augment.names)
    )
    torch.testing.assert_close(augment.transform(x, noise), warp(x, torch.linalg.matrix_exp(algebra)))


def test_identity_at_width_zero(generator):
    x = torch.rand(3, 2, 5, 8, generator=generator)
    augment = Affine2d(initial_width=0.0)
    samples = augment.transform(x, augment.sample_noise(torch.arange(3), 4, seed=0))
    torch.testing.assert_close(samples, x[:, None].expand(3, 4, 2, 5, 8), rtol=0, atol=1e-12)
    wide = Affine2d(initial_width=0.5)
    assert not torch.allclose(wide.transform(x, wide.sample_noise(torch.arange(3), 4, seed=0)), samples)


@pytest.mark.parametrize("width", [1e-3, 0.05, 0.8])
@pytest.mark.parametrize("size", [(9, 9), (7, 11)])
def test_gradient_is_the_central_difference(width, size, generator):
    x, augment = smooth_images(generator, 2, 1, *size), Affine2d(initial_width=width)
    noise = augment.sample_noise(torch.arange(2), 3, seed=1)
    direction = torch.randn(2, 3, 1, *size, generator=generator)

    def value():
        return (augment.transform(x, noise) * direction).sum()

    (gradient,) = torch.autograd.grad(value(), augment.raw_widths)
    assert gradient.abs().min() > 0
    # Bilinear images have kinks at pixel centers, where small widths leave every pixel: the step must not cross them.
    step = min(1e-6, 1e-5 * width)
    for k in range(6):
        ends = []
        for signed in (step, -step):
            augment.raw_widths.data[k] += signed
            ends.append(value().item())
            augment.raw_widths.data[k] -= signed
        torch.testing.assert_close(gradient[k].item(), (ends[0] - ends[1]) / (2 * step), rtol=1e-6, atol=1e-13 / step)


def test_follows_the_dtype_of_the_images(generator):
    x, augment = torch.rand(2, 1, 6, 6, generator=generator), Affine2d()
    noise = augment.sample_noise(torch.arange(2), 3, seed=0)
    assert augment.transform(x.float(), noise).dtype == torch.float32
    assert augment.float().transform(x, noise).dtype == torch.float64


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("rotation", "twist"), "names among shift_x, .*, got 'twist'"),
        ((), "one or more different names"),
        ("rotation", r"Pass a tuple: \('rotation',\)"),
        (("shear", "shear"), "Name each once"),
    ],
)
def test_bad_names(names, message):
    with pytest.raises(StructureError, match=message):
        Affine2d(names)


def test_initial_widths_per_generator():
    by_name = Affine2d(("rotation", "shift_x"), initial_width={"shift_x": 0.2, "rotation": 1})
    torch.testing.assert_close(by_name.widths, torch.tensor([1.0, 0.2]))
    in_order = Affine2d(("rotation", "shift_x"), initial_width=(1, 0.2))
    torch.testing.assert_close(in_order.widths, by_name.widths)
    with pytest.raises(StructureError, match="each of rotation, shift_x, got rotation"):
        Affine2d(("rotation", "shift_x"), initial_width={"rotation": 1.0})
    with pytest.raises(StructureError, match="in the order rotation, shift_x, got 1"):
        Affine2d(("rotation", "shift_x"), initial_width=[1.0])


def test_samplers(generator):
    index = torch.arange(3)
    even, independent = Affine2d(), Affine2d(sampler="random")
    expected = 2 * uniform(5, index, (4, 6), stream=Stream.AUGMENTATION, dtype=torch.float64) - 1
    assert torch.equal(independent.sample_noise(index, 4, seed=5), expected)
    assert not torch.equal(even.sample_noise(index, 4, seed=5), expected)
    with pytest.raises(StructureError, match="among sobol, random, got 'grid'"):
        Affine2d(sampler="grid")


def test_works_inside_function_transforms(generator):
    augment, x = Affine2d(), smooth_images(generator, 2, 1, 5, 5)

    def total(raw):
        return torch.func.functional_call(Copies(augment), {"augment.raw_widths": raw}, (x,)).square().sum()

    gradient = torch.func.jacrev(total)(augment.raw_widths.detach())
    (expected,) = torch.autograd.grad(Copies(augment)(x).square().sum(), augment.raw_widths)
    torch.testing.assert_close(gradient, expected)


class Copies(torch.nn.Module):
    def __init__(self, augment):
        super().__init__()
        self.augment = augment

    def forward(self, x):
        return self.augment.transform(x, self.augment.sample_noise(torch.arange(len(x)), 3, seed=0))


def test_bad_input(generator):
    augment = Affine2d()
    noise = augment.sample_noise(torch.arange(2), 3, seed=0)
    with pytest.raises(ShapeError, match=r"images \(N, C, H, W\), got \(2, 36\)"):
        augment.transform(torch.zeros(2, 36), noise)
    with pytest.raises(StructureError, match="got 'wrap'"):
        Affine2d(padding="wrap")
    with pytest.raises(DataError, match="finite and ≥ 0"):
        Affine2d(initial_width=-0.1)
