"""What a data set yields, as tensors."""

import numpy as np
import pytest
import torch
from PIL import Image

from covary._fields import as_inputs, as_targets, as_tensor, fields_of, hashed
from covary.errors import DataError

X, Y = torch.arange(24.0).view(3, 2, 4), torch.tensor([2, 0, 1])
LABELED = [{"image": X, "label": Y}, {"pixel_values": X, "labels": Y}, {"img": X, "label": Y, "name": "abc"}, (X, Y)]


@pytest.mark.parametrize("batch", LABELED)
def test_fields_are_found_by_position_or_by_usual_names(batch):
    x, y, identity = fields_of(batch)
    assert x is X
    assert y is Y
    assert identity is None
    named = {**batch, "idx": Y} if isinstance(batch, dict) else (*batch, Y)
    assert fields_of(named).identity is Y


def test_keys_choose_among_many():
    batch = {"img": X, "fine_label": Y, "coarse_label": Y + 1, "row": Y + 5}
    assert torch.equal(fields_of(batch, ("img", "coarse_label")).y, Y + 1)
    assert torch.equal(fields_of(batch, ("img", "fine_label", "row")).identity, Y + 5)


def test_forms_of_numbers():
    expected = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    big = np.array([[1, 2], [3, 4]], dtype=">f8")
    frozen = np.array([[1.0, 2.0], [3.0, 4.0]])
    frozen.flags.writeable = False
    for values in (expected, big, frozen, [[1.0, 2.0], [3.0, 4.0]], list(expected), list(frozen)):
        found = as_tensor(values, "x")
        assert found.dtype == torch.float64
        assert torch.equal(found, expected)
    assert as_tensor([3, 1], "y").dtype == torch.int64
    assert as_tensor(np.array([3, 1], dtype=np.uint16), "y").dtype == torch.int64


def test_pictures_are_channels_first_bytes():
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    color, gray = Image.fromarray(pixels), Image.fromarray(pixels[..., 0])
    assert torch.equal(as_tensor([color, color], "image")[1], torch.from_numpy(pixels).permute(2, 0, 1))
    assert as_tensor([gray], "image").shape == (1, 1, 2, 4)
    x, _, _ = fields_of({"image": [color, color], "label": [0, 1]})
    assert torch.equal(as_inputs(x), x.double() / 255)


def test_bytes_become_fractions_and_small_integers_int64():
    assert torch.equal(as_inputs(torch.tensor([0, 255], dtype=torch.uint8)), torch.tensor([0.0, 1.0]))
    assert as_inputs(Y) is Y, "tokens stay integers"
    for dtype in (torch.uint8, torch.int32, torch.bool):
        assert as_targets(torch.ones(2, dtype=dtype)).dtype == torch.int64
    assert as_targets(X) is X


def test_identities_by_content_follow_their_data():
    order = torch.tensor([2, 0, 1])
    identity = hashed(X)
    assert len(set(identity.tolist())) == 3
    assert torch.equal(hashed(X[order]), identity[order])
    assert torch.equal(hashed(X.transpose(1, 2).contiguous().transpose(1, 2)), identity), "any layout in memory"


PICTURES = [Image.new("RGB", (4, 4)), Image.new("RGB", (5, 4))]


@pytest.mark.parametrize(
    ("batch", "keys", "message"),
    [
        (X, None, r"\(x, y, index\) or a dictionary, got Tensor"),
        ((X,), None, "got tuple of 1"),
        ((X, Y, Y, Y), None, "got tuple of 4"),
        ({"photo": X, "label": Y}, None, r"among the names 'photo', 'label', got 0 and 1 usual ones. Name them"),
        ({"image": X, "x": X, "y": Y}, None, "got 2 and 1 usual ones"),
        (
            {"image": X, "label": Y},
            ("image", "kind"),
            "Expected 'kind' among the names of a batch, got 'image', 'label'",
        ),
        ({"image": X, "label": Y}, ("image",), "Expected keys"),
        ((X, Y[:2]), None, "equally many inputs and targets, got 3 and 2"),
        ((X, ["a", "b", "c"]), None, r"Labels are text \('a', 'b', …\). Number them: names, y = numpy.unique\(labels"),
        ((X, np.array(["a", "b", "a"])), None, r"Labels are text \('a', 'b'\). Number them"),
        ((X, np.array(["a", "b", "a"], dtype=object)), None, r"Labels are text \('a', 'b'\). Number them"),
        ({"image": X, "label": ("a", "a", "a")}, None, r"Labels are text \('a'\). Number them"),
        ((X, [[1, 2], [3], [4]]), None, "targets as numbers of one shape"),
        ((PICTURES, [0, 1]), None, "inputs as numbers of one shape for all data"),
        (([Image.new("CMYK", (4, 4))], [0]), None, "mode CMYK"),
        ((X, 3), None, "a single number"),
    ],
)
def test_what_has_no_tensors_is_refused(batch, keys, message):
    with pytest.raises(DataError, match=message) as caught:
        fields_of(batch, keys)
    assert "\n" not in str(caught.value)
