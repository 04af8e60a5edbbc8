import json
import os
import sys

import pytest
import torch
from torch import nn

from covary.augment import (
    Affine2d,
    ColorJitter,
    Composed,
    Correlated,
    FiniteGroup,
    LearnedGenerators,
    Mirror3d,
    Points3d,
    Rotation2d,
    Signal1d,
    Volume3d,
    load,
    save,
)
from covary.augment.export import from_json, to_json
from covary.errors import DataError

NAMES = ("rotation", "shift_x")


def mixed():
    return Correlated(Affine2d(NAMES), torch.tensor([[2.0, 0.0], [0.3, -0.4]]))


AUGMENTS = {
    "affine2d": lambda: Affine2d(NAMES, initial_width=(2.5, 0.1), padding="border", sampler="random"),
    "rotation2d": lambda: Rotation2d(1.3, sampler="random"),
    "correlated": mixed,
    "finite_group": lambda: FiniteGroup("quarter_turns", [0.1, 0.2, 0.3]),
    "composed": lambda: Composed(FiniteGroup("flips", 0.2), mixed()),
    "color_jitter": lambda: ColorJitter(("contrast", "brightness"), initial_width=(0.3, 0.1)),
    "signal1d": lambda: Signal1d(("shift", "noise"), initial_width=0.2, padding="border"),
    "points3d": lambda: Points3d(("rotation_y", "jitter"), initial_width=0.2, sampler="random"),
    "volume3d": lambda: Volume3d(("rotation_y", "scale"), initial_width=0.2),
    "mirror3d": lambda: Mirror3d(("mirror_z", "mirror_x"), [0.1, 0.2]),
    "learned_generators": lambda: LearnedGenerators(2, dim=3, initial_width=0.4),
}
SHAPES = {
    "rotation2d": (2,),
    "signal1d": (2, 7),
    "points3d": (4, 3),
    "volume3d": (1, 3, 4, 5),
    "mirror3d": (4, 3),
    "learned_generators": (3,),
}


@pytest.mark.parametrize("kind", AUGMENTS)
def test_round_trip(kind, tmp_path, generator):
    augment = AUGMENTS[kind]()
    record = to_json(augment)
    assert record["kind"] == kind
    assert json.loads(json.dumps(record)) == record
    save(augment, tmp_path / "augment.json")
    loaded = load(tmp_path / "augment.json")
    assert type(loaded) is type(augment)
    assert (loaded.names, loaded.units, loaded.signs) == (augment.names, augment.units, augment.signs)
    torch.testing.assert_close(loaded.widths, augment.widths)
    noise = augment.sample_noise(torch.arange(3), 8, seed=2)
    torch.testing.assert_close(loaded.sample_noise(torch.arange(3), 8, seed=2), noise)
    x = torch.rand(3, *SHAPES.get(kind, (1, 6, 6)), generator=generator)
    torch.testing.assert_close(loaded.transform(x, noise), augment.transform(x, noise))


def test_float32_survives():
    augment = Affine2d(NAMES, initial_width=(2.5, 0.1)).float()
    torch.testing.assert_close(from_json(to_json(augment)).widths.float(), augment.widths)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "make",
    [
        lambda: Affine2d(NAMES),
        lambda: Rotation2d(),
        lambda: Correlated(Affine2d(NAMES)),
        lambda: Points3d(("rotation_x",)),
        lambda: ColorJitter(("hue",)),
    ],
)
def test_a_saturated_rotation_survives(make, dtype):
    """π tanh(r / π) rounds to π, which is the width of no parameter."""
    augment = make().to(dtype)
    with torch.no_grad():
        getattr(augment, augment.hyperparameters[0]).mul_(1e4)
    widths = augment.widths
    assert widths[0] >= torch.tensor(torch.pi, dtype=dtype)
    torch.testing.assert_close(from_json(to_json(augment)).widths.to(dtype), widths, rtol=1e-5, atol=1e-6)


def test_a_rotation_beyond_a_half_turn_is_refused():
    with pytest.raises(DataError, match="of a rotation below π, got 3.15"):
        from_json(to_json(Rotation2d()) | {"widths": [3.15]})


def test_record_has_units_and_signs():
    record = to_json(Affine2d(NAMES, initial_width=(2.5, 0.1)))
    assert record["widths"] == pytest.approx([2.5, 0.1])
    assert record["units"] == ["radians", "half-widths"]
    assert record["signs"][0] == "positive turns content counter-clockwise on the screen"
    assert record["signs"][1] == "positive moves content to the left by that many half-widths"


SPOILT = [
    ("affine2d", {"format": "other"}, "format"),
    ("affine2d", {"version": 2}, "version"),
    ("affine2d", {"kind": "affine3d"}, "kind"),
    ("affine2d", {"names": ["rotation", "twist"]}, "names"),
    ("affine2d", {"names": ["rotation", "rotation"]}, "names"),
    ("affine2d", {"names": [["rotation"], "shift_x"]}, "names"),
    ("affine2d", {"names": []}, "names"),
    ("affine2d", {"widths": [0.1]}, "widths"),
    ("affine2d", {"widths": [0.1, -0.1]}, "widths"),
    ("affine2d", {"widths": [0.1, float("nan")]}, "widths"),
    ("affine2d", {"widths": [0.1, float("inf")]}, "field 'widths' to be 2 finite numbers"),
    ("affine2d", {"widths": [0.1, 10**400]}, "field 'widths' to be 2 finite numbers"),
    ("affine2d", {"widths": [0.1, "0.1"]}, "widths"),
    ("affine2d", {"widths": [0.1, True]}, "widths"),
    ("affine2d", {"widths": [3.5, 0.1]}, "width"),
    ("affine2d", {"units": ["degrees", "half-widths"]}, "units"),
    ("affine2d", {"signs": ["", ""]}, "signs"),
    ("affine2d", {"padding": "wrap"}, "padding"),
    ("affine2d", {"sampler": ["sobol"]}, "sampler"),
    ("affine2d", {"extra": 1}, "extra"),
    ("rotation2d", {"names": ["shift_x"]}, "names"),
    ("correlated", {"mix": [[1.0, 0.0]]}, "mix"),
    ("correlated", {"mix": [[1.0, 1.0], [0.0, 1.0]]}, "mix"),
    ("correlated", {"mix": [[1.0, 0.0], [-(10**400), 1.0]]}, "field 'mix' to be 2 rows of 2 finite numbers"),
    ("correlated", {"widths": [1.0, 1.0]}, "widths"),
    ("correlated", {"base": to_json(FiniteGroup())}, "base"),
    ("correlated", {"base": "affine2d"}, "record"),
    ("finite_group", {"names": ["quarter_turn", "half_turn"], "widths": [0.1, 0.1]}, "three_quarter_turn"),
    ("finite_group", {"widths": [0.5, 0.5, 0.5]}, "a sum below 1"),
    ("composed", {"parts": []}, "parts"),
    ("color_jitter", {"names": ["contrast", "gamma"]}, "names"),
    ("signal1d", {"padding": "wrap"}, "padding"),
    ("points3d", {"units": ["degrees", "standard deviation"]}, "units"),
    ("mirror3d", {"widths": [0.1, 1.0]}, "below 1"),
    ("learned_generators", {"dim": 4}, "generators"),
    ("learned_generators", {"dim": True}, "dim"),
    ("learned_generators", {"generators": []}, "generators"),
    ("learned_generators", {"generators": [[[1.0, 2.0, "3"]] * 3] * 2}, "generators"),
    ("learned_generators", {"generators": [[[0.0] * 3] * 3] * 3}, "names|widths"),
    ("composed", {"names": ["flip_x"]}, "names"),
]


@pytest.mark.parametrize(("kind", "change", "named"), SPOILT)
def test_every_field_is_checked(kind, change, named):
    with pytest.raises(DataError, match=named):
        from_json(to_json(AUGMENTS[kind]()) | change)


@pytest.mark.parametrize("kind", AUGMENTS)
def test_every_field_is_needed(kind):
    record = to_json(AUGMENTS[kind]())
    for name in record:
        with pytest.raises(DataError, match=f"'{name}' is missing"):
            from_json({k: v for k, v in record.items() if k != name})


class Mine(nn.Module):
    names = ("brightness",)
    units = ("gray levels",)
    widths = torch.tensor([0.25])

    def sample_noise(self, index, num_samples, *, seed):
        raise AssertionError

    def transform(self, x, noise):
        raise AssertionError


def test_a_custom_distribution_can_be_read_but_not_loaded():
    record = to_json(Mine())
    assert (record["kind"], record["names"], record["widths"]) == ("custom", ["brightness"], [0.25])
    assert record["units"] == ["gray levels"]
    with pytest.raises(DataError, match="a class that covary does not know"):
        from_json(record)


def test_a_disk_that_fills_up_leaves_the_record_that_was_there(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("the disk is full")

    path = tmp_path / "augment.json"
    save(Rotation2d(1.3), path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="full"):
            save(Rotation2d(0.2), path)
    assert float(load(path).widths) == pytest.approx(1.3)


def test_files_without_a_record(tmp_path):
    with pytest.raises(DataError, match="Expected a JSON file that `save` wrote"):
        load(tmp_path / "absent.json")
    (tmp_path / "augment.json").write_text("__import__('os')")
    with pytest.raises(DataError, match="Expected a JSON file that `save` wrote"):
        load(tmp_path / "augment.json")
    (tmp_path / "augment.json").write_text("[" * 100_000)
    with pytest.raises(DataError, match="Expected a JSON file that `save` wrote"):
        load(tmp_path / "augment.json")
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(DataError, match="not a regular file"):
        load(tmp_path / "pipe.json")
    (tmp_path / "augment.json").write_text("[1, 2]")
    with pytest.raises(DataError, match="an object of fields"):
        load(tmp_path / "augment.json")


def test_endlessly_nested_records():
    record = to_json(Composed(Rotation2d()))
    for _ in range(sys.getrecursionlimit()):
        record = record | {"parts": [record]}
    with pytest.raises(DataError, match="nested too deeply") as caught:
        from_json(record)
    assert "\n" not in str(caught.value)
