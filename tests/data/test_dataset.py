import re

import pytest
import torch

from covary.data import Dataset, limited
from covary.data.dataset import checked, labels_from, pixels_from, without_test
from covary.errors import DataError


def images(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float32)


def numbered(num_train=6, num_test=2):
    """A data set whose pixels tell the position of their image."""
    x = torch.arange(num_train, dtype=torch.float32).reshape(-1, 1, 1, 1).expand(-1, 1, 2, 2)
    return Dataset(x, torch.arange(num_train) % 2, x[:num_test], torch.zeros(num_test).long(), "numbered", ("a", "b"))


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((4, 5, 6), None),
        ((4, 1, 5, 6), None),
        ((4, 3, 5, 6), None),
        ((4, 5, 6, 1), (0, 3, 1, 2)),
        ((4, 5, 6, 3), (0, 3, 1, 2)),
    ],
)
def test_channels_come_first_whatever_the_layout(shape, axes):
    values = images(*shape)
    expected = values.unsqueeze(1) if len(shape) == 3 else values.permute(axes) if axes else values
    assert torch.equal(pixels_from(values, "x"), expected)


def test_bytes_are_scaled_and_floats_kept():
    assert pixels_from(torch.tensor([[[0, 255, 51]]], dtype=torch.uint8), "x").flatten().tolist() == pytest.approx(
        [0, 1, 0.2]
    )
    for dtype in (torch.float16, torch.float64):
        found = pixels_from(torch.tensor([[[-3.5, 200.0]]], dtype=dtype), "x")
        assert found.dtype == torch.float32
        assert found.flatten().tolist() == [-3.5, 200]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (torch.zeros(2, 3, 5, 3), "second axis or in the last"),
        (torch.zeros(2, 1, 5, 1), "second axis or in the last"),
        (torch.zeros(2, 4, 5, 2), r"shape \(2, 4, 5, 2\): expected"),
        (torch.zeros(2, 4), r"shape \(2, 4\): expected"),
        (torch.zeros(()), r"shape \(\): expected"),
        (torch.zeros(2, 0, 4), "images without pixels"),
        (torch.zeros(2, 4, 4, dtype=torch.int64), "type torch.int64: expected uint8"),
        (torch.zeros(2, 4, 4, dtype=torch.bool), "type torch.bool: expected uint8"),
        (torch.tensor([0.0, float("nan")]).reshape(2, 1, 1), "NaN or infinity in image 1"),
        (torch.tensor([float("-inf"), 0.0]).reshape(2, 1, 1), "NaN or infinity in image 0"),
        (torch.tensor([0.0, 1e300]).reshape(2, 1, 1), "NaN or infinity in image 1"),  # in float32
    ],
)
def test_invalid_images(values, message):
    with pytest.raises(DataError, match=f"my x .*{message}"):
        pixels_from(values, "my x")


@pytest.mark.parametrize("values", [torch.zeros(3), torch.zeros(3, 1).long(), torch.zeros(3, dtype=torch.bool)])
def test_invalid_labels(values):
    with pytest.raises(DataError, match=r"my y has shape .*: expected integers of shape \(N,\)"):
        labels_from(values, "my y")


def test_labels_of_any_integer_type():
    assert labels_from(torch.tensor([2, 0], dtype=torch.int8), "y").dtype == torch.int64


def test_class_names_default_to_digits():
    x = images(3, 1, 2, 2)
    found = checked((x, torch.tensor([2, 0, 1])), without_test(x), "source", "name")
    assert found.class_names == ("0", "1", "2")
    assert found.x_test.shape == (0, 1, 2, 2)
    assert found.y_test.shape == (0,)


@pytest.mark.parametrize(
    ("y_train", "y_test", "names", "message"),
    [
        ([0, 1, 3], [0], None, "no training image of class 2"),
        ([1, 2, 3], [0], None, "no training image of class 0"),
        ([1, 2, 3], [2], None, "labels from 1 to 3: expected them from 0. Subtract 1"),
        ([0, 1, 10**15], [0], None, "no training image of class 2"),  # must not be counted up to
        ([0, -1, 1], [0], None, "label -1: expected labels from 0 to 1"),
        ([-1, -2, -1], [0], None, "label -2"),
        ([0, 1, 1], [2], None, "label 2: expected labels from 0 to 1"),
        ([0, 1, 1], [0], "abc", "no training image of class 2"),
        ([0, 1, 2], [0], "ab", "label 2: expected labels from 0 to 1"),
        ([0, 1], [0], None, "3 training images but 2 training labels"),
        ([0, 1, 2], [0, 1], None, "1 test images but 2 test labels"),
    ],
)
def test_labels_that_do_not_fit(y_train, y_test, names, message):
    train, test = (images(3, 1, 2, 2), torch.tensor(y_train)), (images(1, 1, 2, 2), torch.tensor(y_test))
    with pytest.raises(DataError, match=f"source .*{message}"):
        checked(train, test, "source", "name", names)


def test_parts_that_do_not_fit():
    labels = torch.tensor([0])
    with pytest.raises(DataError, match=r"different shapes, \(1, 2, 2\) and \(3, 2, 2\)"):
        checked((images(1, 1, 2, 2), labels), (images(1, 3, 2, 2), labels), "source", "name")
    with pytest.raises(DataError, match="no training image: expected at least one"):
        checked((images(0, 1, 2, 2), labels[:0]), (images(1, 1, 2, 2), labels), "source", "name")


def test_limited_is_the_start_of_one_shuffle():
    whole = numbered(50)
    order = [limited(whole, n, seed=3).x_train[:, 0, 0, 0].tolist() for n in (7, 20, 50)]
    assert order[0] == order[1][:7] == order[2][:7]
    assert order[1] == order[2][:20]
    assert sorted(order[2]) == list(range(50))
    assert order[2] != list(range(50))
    part = limited(whole, 7, seed=3)
    assert torch.equal(part.y_train, part.x_train[:, 0, 0, 0].long() % 2)
    assert torch.equal(part.x_test, whole.x_test)
    assert order[0] != limited(whole, 7, seed=4).x_train[:, 0, 0, 0].tolist()


@pytest.mark.parametrize("seed", range(5))
def test_limited_loses_no_class_in_silence(seed):
    """Three images of a rare class among fifty: too small a limit is refused, and the one it names is enough."""
    rare = numbered(50)._replace(y_train=(torch.arange(50) < 3).long())
    with pytest.raises(DataError, match=r"numbered, limited to 1, has no training image of class") as caught:
        limited(rare, 1, seed)
    enough = int(re.search(r"\((\d+) is enough\)", str(caught.value))[1])
    assert limited(rare, enough, seed).y_train.unique().tolist() == [0, 1]
    with pytest.raises(DataError, match=f"{enough} is enough"):
        limited(rare, enough - 1, seed)


def test_one_class_is_nothing_to_tell_apart():
    x = images(3, 1, 2, 2)
    with pytest.raises(DataError, match="source holds images of one class alone: expected two or more"):
        checked((x, torch.zeros(3).long()), without_test(x), "source", "name")


@pytest.mark.parametrize("num_train", [0, -1, 7])
def test_limited_refuses_more_than_there_are(num_train):
    with pytest.raises(DataError, match=f"between 1 and the 6 training images of numbered, got {num_train}"):
        limited(numbered(), num_train, seed=0)


@pytest.mark.parametrize("letter", ["\x1b", "\x00", "\x9b", "\n", "\t", "\udcff"])
def test_names_that_no_record_could_hold_are_refused(letter):
    train = images(2, 1, 4, 4), torch.arange(2)
    for name, classes in (("digits", ("a", f"b{letter}")), (f"digits{letter}", ("a", "b"))):
        with pytest.raises(DataError, match="expected text without control characters") as caught:
            checked(train, without_test(train[0]), "here", name, classes)
        assert letter not in str(caught.value)
    assert checked(train, without_test(train[0]), "here", "dígits", ("a b", "漢字")).class_names == ("a b", "漢字")
