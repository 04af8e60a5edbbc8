"""Signals, points, volumes, tables and targets from arrays, and archives with names of their own."""

import numpy as np
import pytest
import torch

from covary.data import Reading, load
from covary.errors import DataError

RANDOM = np.random.default_rng(0)
LABELS = np.array([0, 1, 0, 1])
SHAPES = {
    "signals": {(4, 9): (4, 1, 9), (4, 2, 9): (4, 2, 9)},
    "points": {(4, 5, 3): (4, 5, 3)},
    "volumes": {(4, 3, 4, 5): (4, 1, 3, 4, 5), (4, 2, 3, 4, 5): (4, 2, 3, 4, 5)},
    "space": {(4, 5, 3): (4, 5, 3), (4, 3, 4, 5): (4, 1, 3, 4, 5)},
    "table": {(4, 6): (4, 6)},
    "features": {(4, 6): (4, 6), (4, 6, 6): (4, 1, 6, 6)},
}
WRONG = [("signals", (4,)), ("points", (4, 3, 5)), ("points", (4, 3)), ("volumes", (4, 3, 3)), ("table", (4, 2, 2))]


def archive(tmp_path, **arrays):
    np.savez(tmp_path / "mine.npz", **arrays)
    return tmp_path / "mine.npz"


@pytest.mark.parametrize(
    ("layout", "shape", "expected"), [(k, shape, e) for k, rows in SHAPES.items() for shape, e in rows.items()]
)
def test_arrays_are_read_in_their_layout(layout, shape, expected, tmp_path):
    x = RANDOM.normal(size=shape)
    found = load(archive(tmp_path, x_train=x, y_train=LABELS), reading=Reading(layout))
    assert found.x_train.shape == expected
    assert found.x_train.dtype == torch.float32
    assert np.array_equal(found.x_train.numpy().ravel(), x.astype(np.float32).ravel())
    assert len(found.x_test) == 0


@pytest.mark.parametrize(("layout", "shape"), WRONG)
def test_other_shapes_are_refused(layout, shape, tmp_path):
    path = archive(tmp_path, x_train=RANDOM.normal(size=shape), y_train=LABELS)
    with pytest.raises(DataError, match="expected"):
        load(path, reading=Reading(layout))


def test_numbers_that_are_not_finite_are_refused(tmp_path):
    x = RANDOM.normal(size=(4, 9))
    x[2, 3] = np.nan
    with pytest.raises(DataError, match="infinity in datum 2"):
        load(archive(tmp_path, x_train=x, y_train=LABELS), reading=Reading("signals"))


def test_arrays_may_have_any_names(tmp_path):
    x, y = RANDOM.integers(0, 255, (4, 6, 6), dtype=np.uint8), LABELS
    path = archive(tmp_path, images=x, labels=y, others=x[:2] // 2, classes=y[:2])
    found = load(path, reading=Reading(keys=("images", "labels")))
    assert torch.equal(found.x_train[:, 0], torch.from_numpy(x).float() / 255)
    assert len(found.x_test) == 0
    tested = load(path, reading=Reading(keys=("images", "labels", "others", "classes")))
    assert torch.equal(tested.x_test[:, 0], torch.from_numpy(x[:2] // 2).float() / 255)
    with pytest.raises(
        DataError, match=r"lacks x_train, y_train; its arrays are: classes, images.*--keys images,labels"
    ):
        load(path)
    with pytest.raises(DataError, match="lacks pictures"):
        load(path, reading=Reading(keys=("pictures", "labels")))
    with pytest.raises(DataError, match="two names of arrays"):
        load(path, reading=Reading(keys=("images",)))


@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 2)])
def test_targets_are_real_numbers(shape, tmp_path):
    x, y = RANDOM.normal(size=(4, 6)), RANDOM.normal(size=shape)
    found = load(archive(tmp_path, x_train=x, y_train=y), reading=Reading("table", regression=True))
    assert found.is_regression
    assert found.num_outputs == (1 if len(shape) == 1 else shape[1])
    assert torch.equal(found.y_train, torch.from_numpy(y.reshape(4, -1)).float())


def test_targets_of_another_number_are_refused(tmp_path):
    path = archive(tmp_path, x_train=RANDOM.normal(size=(4, 6)), y_train=RANDOM.normal(size=3))
    with pytest.raises(DataError, match="4 training data but 3 training targets"):
        load(path, reading=Reading("table", regression=True))


def test_a_named_set_has_images_and_classes():
    with pytest.raises(DataError, match="source of your own"):
        load("mnist-mini", reading=Reading(regression=True))
