import math

import pytest

from covary.augment import Affine2d, ColorJitter, Composed, FiniteGroup, Mirror3d, to_text

AFFINE = {"shift_x": 0.2, "shift_y": 0.3, "rotation": math.radians(30), "scale_x": 0.1, "scale_y": 0.2, "shear": 0.05}


def values(text):
    """Keys and numbers of YAML without nesting."""
    lines = [line.partition(": ") for line in text.splitlines() if not line.startswith("#")]
    return {key: float(value) for key, _, value in lines}


def test_ultralytics():
    augment = Composed(
        FiniteGroup(("identity", "flip_x"), 0.4), Affine2d(initial_width=AFFINE), ColorJitter(initial_width=0.1)
    )
    found = values(to_text(augment, "ultralytics"))
    assert found == {
        "degrees": 30.0,
        "translate": 0.1,  # of the whole side, both sides alike: half of 0.2
        "scale": pytest.approx(1 - math.exp(-0.1), abs=1e-4),
        "shear": pytest.approx(math.degrees(math.atan(1 - math.exp(-0.05))), abs=1e-3),
        "fliplr": 0.4,
        "flipud": 0.0,
        "hsv_h": pytest.approx(0.1 / (2 * math.pi), abs=1e-5),
        "hsv_s": pytest.approx(1 - math.exp(-0.1), abs=1e-4),
        "hsv_v": pytest.approx(1 - math.exp(-0.1), abs=1e-4),
    }


def test_ultralytics_keeps_what_was_not_learned():
    text = to_text(Affine2d(("rotation", "shift_x")), "ultralytics")
    assert values(text).keys() == {"degrees"}
    assert "# Not learned, so your settings stay: translate, scale, shear, fliplr, flipud, hsv_h" in text
    assert "# translate: one number for both sides, learned shift_x 0.05; the other was not learned" in text


def axes(augment):
    line = next(line for line in to_text(augment, "nnunet").splitlines() if "mirror_axes = " in line)
    return eval(line.partition("mirror_axes = ")[2])


@pytest.mark.parametrize(
    ("augment", "expected"),
    [
        (Mirror3d(("mirror_x", "mirror_y", "mirror_z"), [0.45, 0.02, 0.3]), (0, 2)),
        (Mirror3d(("mirror_x",), 0.1), None),
        (FiniteGroup("flips", 0.24), (0, 1)),
        (FiniteGroup(("identity", "flip_x"), 0.4), (1,)),
        (FiniteGroup(("identity", "flip_y"), 0.4), (0,)),
        (FiniteGroup("flips", [0.45, 0.02, 0.02]), (1,)),
        (FiniteGroup("flips", [0.02, 0.02, 0.45]), None),  # a half turn is no mirror
    ],
)
def test_mirror_axes(augment, expected):
    assert axes(augment) == expected


def test_the_trainer_is_python():
    compile(to_text(Mirror3d(), "nnunet"), "trainer.py", "exec")
    assert "# flip_y: not learned, so not mirrored here." in to_text(FiniteGroup(("identity", "flip_x")), "nnunet")
    unasked = to_text(Affine2d(), "nnunet")
    assert "No mirror was learned, so your trainer stays" in unasked
    assert "class" not in unasked


def test_timm():
    shifts = {"shift_x": 0.5, "shift_y": 0.5}
    augment = Composed(
        FiniteGroup(("identity", "flip_x"), 0.5),
        Affine2d(initial_width=AFFINE | shifts),
        ColorJitter(
            ("brightness", "contrast", "saturation"),
            initial_width={"brightness": 0.1, "contrast": 0.2, "saturation": 0.3},
        ),
    )
    flags = to_text(augment, "timm").splitlines()[-1].split()
    area, gain = float(flags[flags.index("--scale") + 1]), float(flags[flags.index("--color-jitter") + 1])
    assert flags[:4] == ["--hflip", "0.5", "--vflip", "0.0"]
    assert area == pytest.approx(math.exp(-0.2), abs=1e-3)  # both sides by exp(-0.1)
    assert gain == pytest.approx(1 - math.exp(-0.1), abs=1e-4)
    narrow = to_text(Affine2d(initial_width=AFFINE | {"shift_x": 0.0}), "timm")
    assert "--scale 1.0 1.0" in narrow, "without a shift no crop may be moved"
    assert "# nothing that timm has an argument for" in to_text(Affine2d(("rotation",)), "timm")
