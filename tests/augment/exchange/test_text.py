"""Texts for other libraries: they run, and at the ends of their ranges the pixels are those of covary."""

import math
from types import SimpleNamespace

import pytest
import torch

from covary.augment import (
    Affine2d,
    ColorJitter,
    Composed,
    Correlated,
    FiniteGroup,
    LearnedGenerators,
    Mirror3d,
    to_text,
)
from covary.errors import StructureError
from covary.groups import warp

# Widths that four digits express exactly: 20°, an eighth of a side, factors 0.8 and 1.25, a shear by 20°.
WIDTHS = {
    "rotation": math.radians(20),
    "shift_x": 0.25,
    "shift_y": 0.25,
    "scale_x": math.log(1.25),
    "scale_y": math.log(1.25),
    "shear": math.asinh(math.tan(math.radians(20)) / 2),
}
# The noise of covary that the upper end of a range is: kornia's RandomAffine turns clockwise, albumentations' Affine
# counter-clockwise; both move content to the right and down, and enlarge by a factor above 1.
KORNIA = {"rotation": -1.0, "shift_x": -1.0, "shift_y": -1.0, "scale_x": -1.0, "scale_y": -1.0}
ALBUMENTATIONS = KORNIA | {"rotation": 1.0}
COLORS = ("brightness", "contrast", "saturation")


@pytest.fixture
def images(generator):
    """Smooth images, 48 pixels high and 64 wide."""
    coarse = torch.rand(1, 3, 12, 16, generator=generator)
    return torch.nn.functional.interpolate(coarse, scale_factor=4, mode="bicubic").clamp(0.3, 0.7)


def executed(augment, target):
    space = {}
    exec(to_text(augment, target), space)
    return space["pipeline"]


def end_of(step, shape):
    """The parameters of a RandomAffine of kornia at the upper end of each of its ranges."""
    ranges, zero = step._param_generator, SimpleNamespace(high=0.0)
    height, width = shape[-2:]
    x, y = ranges.translate_x_sampler or zero, ranges.translate_y_sampler or zero
    scales = (ranges.scale_2_sampler, ranges.scale_4_sampler)
    return dict(step.forward_parameters(shape)) | {
        "angle": torch.tensor([float(ranges.degree_sampler.high)]),
        "translations": torch.tensor([[float(x.high) * width, float(y.high) * height]]),
        "scale": torch.tensor([[float(s.high) if s else 1.0 for s in scales]]),
        "shear_x": torch.tensor([float((ranges.shear_x_sampler or zero).high)]),
        "shear_y": torch.zeros(1),
        "batch_prob": torch.ones(1),
    }


def sheared(images):
    """Images under the shear parallel to x by 20°, from the matrix itself."""
    matrix = torch.eye(3)
    matrix[0, 1] = math.tan(math.radians(20))
    return warp(images, matrix[None, None])[:, 0]


def expected(name, images, signs):
    if name == "shear":
        return sheared(images)
    augment = Affine2d((name,), initial_width=WIDTHS[name])
    return augment.transform(images, torch.full((1, 1, 1), signs[name]))[:, 0]


@pytest.mark.parametrize("name", WIDTHS)
def test_pixels_of_kornia(name, images):
    pytest.importorskip("kornia", reason="needs kornia, an optional dependency")
    step = executed(Affine2d((name,), initial_width=WIDTHS[name]), "kornia")[0]
    found = step(images, params=end_of(step, images.shape))
    torch.testing.assert_close(found, expected(name, images, KORNIA), rtol=0, atol=1e-5)  # samplers are of float32
    if name != "shear":
        other = expected(name, images, {name: -KORNIA[name]})
        assert (found - other).abs().max() > 0.1, "the other sign is far from it"


@pytest.mark.parametrize("name", WIDTHS)
def test_pixels_of_albumentations(name, images):
    albumentations = pytest.importorskip("albumentations", reason="needs albumentations, an optional dependency")
    step = executed(Affine2d((name,), initial_width=WIDTHS[name]), "albumentations").transforms[0]
    ends = {"scale": {}, "shear": {}, "translate_percent": {}}
    saved = step.to_dict()["transform"]
    for key, chosen in ends.items():
        chosen |= {axis: (high, high) for axis, (_, high) in (saved[key] or {}).items()}
    ends["translate_percent"] = ends["translate_percent"] or None
    fixed = albumentations.Affine(rotate=(saved["rotate"][1],) * 2, interpolation=1, border_mode=0, p=1.0, **ends)
    picture = images[0].permute(1, 2, 0).float().numpy()
    found = torch.from_numpy(fixed(image=picture)["image"]).permute(2, 0, 1)[None].to(images)
    # OpenCV reads at fractions of a pixel in float32; pixels beside the border are blended with zeros there
    inner = (..., slice(2, -2), slice(2, -2))
    assert (found - expected(name, images, ALBUMENTATIONS))[inner].abs().mean() < 1e-3


@pytest.mark.parametrize("name", COLORS)
def test_colors_of_kornia(name, images):
    pytest.importorskip("kornia", reason="needs kornia, an optional dependency")
    augment = ColorJitter((name,), initial_width=math.log(1.25))
    step = executed(augment, "kornia")[0]
    ends = {f"{color}_factor": torch.ones(1) for color in COLORS} | {"hue_factor": torch.zeros(1)}
    ends |= {f"{name}_factor": torch.tensor([1.25]), "order": torch.arange(4), "batch_prob": torch.ones(1)}
    assert float(getattr(step._param_generator, f"{name}_sampler").high) == pytest.approx(1.25)
    found = step(images, params=dict(step.forward_parameters(images.shape)) | ends)
    torch.testing.assert_close(found, augment.transform(images, torch.ones(1, 1, 1))[:, 0], rtol=0, atol=1e-4)


def test_a_third_of_a_turn_of_hue_is_that_of_kornia(images):
    pytest.importorskip("kornia", reason="needs kornia, an optional dependency")
    augment = ColorJitter(("hue",), initial_width=2 * math.pi / 3)
    step = executed(augment, "kornia")[0]
    ends = {f"{color}_factor": torch.ones(1) for color in COLORS}
    ends |= {"hue_factor": torch.tensor([1 / 3]), "order": torch.arange(4), "batch_prob": torch.ones(1)}
    assert float(step._param_generator.hue_sampler.high) == pytest.approx(1 / 3, abs=1e-4)
    found = step(images, params=dict(step.forward_parameters(images.shape)) | ends)
    torch.testing.assert_close(found, augment.transform(images, torch.ones(1, 1, 1))[:, 0], rtol=0, atol=1e-4)
    torch.testing.assert_close(found[:, 1], images[:, 0], rtol=0, atol=1e-4)


def test_flips_and_turns_of_kornia_are_drawn_with_the_learned_probabilities():
    kornia = pytest.importorskip("kornia", reason="needs kornia, an optional dependency")
    text = to_text(FiniteGroup("quarter_turns", 0.2), "kornia")
    assert "Learned probabilities" not in text
    space = {}
    exec(text, space)
    step = space["pipeline"][0]
    assert isinstance(step, kornia.augmentation.RandomRotation90)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        drawn = step.forward_parameters(torch.Size((8000, 1, 4, 4)))
    turned = drawn["times"].round().remainder(4)
    for number in range(4):
        assert (turned == number).double().mean() == pytest.approx(0.25, abs=0.02)
    assert drawn["batch_prob"].double().mean() == pytest.approx(0.8, abs=0.02)


def test_the_whole_of_torchvision():
    augment = Composed(
        FiniteGroup(("identity", "flip_x"), 0.3),
        Affine2d(initial_width=WIDTHS | {"scale_y": 0.1}),
        ColorJitter(initial_width=0.1),
    )
    assert to_text(augment, "torchvision").split("v2.Compose")[1] == (
        "([\n"
        "    v2.RandomHorizontalFlip(p=0.3),\n"
        "    v2.RandomAffine(degrees=20.0, translate=(0.125, 0.125), scale=(0.9048, 1.105), shear=20.0, "
        "interpolation=v2.InterpolationMode.BILINEAR),\n"
        "    v2.ColorJitter(brightness=(0.9048, 1.105), contrast=(0.9048, 1.105), saturation=(0.9048, 1.105), "
        "hue=(-0.01592, 0.01592)),\n"
        "])\n"
    )


@pytest.mark.parametrize("target", ["kornia", "torchvision", "albumentations", "ultralytics", "nnunet", "timm"])
def test_what_cannot_be_expressed_is_a_comment(target):
    mixed = Correlated(Affine2d(("rotation", "shift_x")), torch.tensor([[0.3, 0.0], [0.1, 0.1]]))
    text = to_text(Composed(FiniteGroup("flips", [0.01, 0.01, 0.4]), mixed, LearnedGenerators()), target)
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert any("shift_x and rotation have a correlation of 0.71" in line for line in comments)
    assert any("generator_1: of LearnedGenerators" in line for line in comments)
    if target != "nnunet":
        assert any("Learned probabilities: identity 0.58, half_turn 0.40" in line for line in comments)


def test_padding():
    augment = Affine2d(("rotation",), padding="border")
    assert 'padding_mode="border"' in to_text(augment, "kornia")
    assert "border_mode=1" in to_text(augment, "albumentations")
    assert "# Outside of an image: zeros, not border." in to_text(augment, "torchvision")


def test_volumes_are_named():
    for target in ("kornia", "torchvision", "albumentations", "ultralytics", "timm"):
        assert "mirror_x: mirrors of volumes" in to_text(Mirror3d(("mirror_x",)), target)


def test_bad_input():
    with pytest.raises(StructureError, match="target among kornia, .*got 'imgaug'"):
        to_text(Affine2d(), "imgaug")
    with pytest.raises(StructureError, match="Expected transforms of images"):
        to_text(LearnedGenerators(1, dim=3), "kornia")


def test_transforms_that_are_not_named_are_left_out():
    augment = Composed(FiniteGroup(("identity", "flip_x"), 0.4), Affine2d(("rotation", "shift_x"), initial_width=0.2))
    text = to_text(augment, "albumentations", names=["rotation"])
    assert text.startswith("# Ranges learned by covary: rotation 0.2 radians.\n")
    assert "Flip" not in text
    text = to_text(augment, "albumentations", names=["flip_x"])
    assert "Affine" not in text
    assert "HorizontalFlip(p=0.4)" in text
