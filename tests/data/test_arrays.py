import io
import os
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch

from covary.data import load, load_images
from covary.data.arrays import load_arrays, tensor_from
from covary.errors import DataError

LABELS = np.array([0, 1, 2, 1])


def pixels(*shape):
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def member(values, **options):
    """The bytes of one array in NumPy's own format."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, values, **options)
    return stream.getvalue()


def write_archive(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def header(shape, descr="|u1"):
    """The bytes of a header alone, which promises values that are not there."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_both_parts_are_read(tmp_path, save):
    x_train, x_test = pixels(4, 5, 6, 3), pixels(2, 5, 6, 3)
    save(tmp_path / "mine.npz", x_train=x_train, y_train=LABELS, x_test=x_test, y_test=LABELS[:2])
    found = load(str(tmp_path / "mine.npz"))
    np.testing.assert_allclose(found.x_train.numpy(), x_train.transpose(0, 3, 1, 2) / 255, rtol=1e-6)
    np.testing.assert_allclose(found.x_test.numpy(), x_test.transpose(0, 3, 1, 2) / 255, rtol=1e-6)
    assert found.y_train.tolist() == LABELS.tolist()
    assert (found.name, found.class_names) == ("mine", ("0", "1", "2"))


def test_a_test_part_may_be_missing(tmp_path):
    np.savez(tmp_path / "mine.npz", x_train=pixels(4, 5, 6), y_train=LABELS, other=np.array(["text"]))
    found = load_arrays(tmp_path / "mine.npz")
    assert found.x_test.shape == (0, 1, 5, 6)
    assert found.y_test.shape == (0,)


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<f2", np.longdouble])
@pytest.mark.parametrize("order", ["C", "F"])
def test_floats_of_any_width_and_order_are_kept(tmp_path, dtype, order):
    x = np.asarray(np.random.default_rng(0).normal(size=(4, 5, 6)), dtype=dtype, order=order)
    np.savez(tmp_path / "mine.npz", x_train=x, y_train=LABELS.astype(">u2"))
    found = load_arrays(tmp_path / "mine.npz")
    assert found.x_train.dtype == torch.float32
    np.testing.assert_allclose(found.x_train[:, 0].numpy(), x.astype(np.float32))
    assert found.y_train.tolist() == LABELS.tolist()


class Trap:
    """An object that leaves a mark when it is unpickled."""

    sprung = False

    def __reduce__(self):
        return (setattr, (Trap, "sprung", True))


def test_nothing_is_unpickled(tmp_path):
    np.savez(tmp_path / "mine.npz", x_train=pixels(4, 5, 6), y_train=np.array([Trap()], dtype=object))
    with pytest.raises(DataError, match="y_train of .*expected plain integers or floats, never pickled objects"):
        load_arrays(tmp_path / "mine.npz")
    assert not Trap.sprung
    with np.load(tmp_path / "mine.npz", allow_pickle=True) as control:
        control["y_train"]
    assert Trap.sprung  # the trap works


@pytest.mark.parametrize("shape", [(10**6, 10**4, 10**4), (2**40,), (5, 5, 6)])
def test_a_header_that_promises_more_than_is_there_is_refused(tmp_path, shape):
    path = write_archive(tmp_path / "bomb.npz", x_train=header(shape) + bytes(120), y_train=member(LABELS))
    with pytest.raises(DataError, match="x_train of .* is damaged: sizes .* found 120"):
        load_arrays(path)


@pytest.mark.parametrize(("shape", "num_values"), [((-1, -1, 1), 1), ((-4, -5, 6), 120), ((2**62, 2**62, 0), 0)])
def test_sizes_that_no_array_has_are_refused(tmp_path, shape, num_values):
    path = write_archive(tmp_path / "odd.npz", x_train=header(shape) + bytes(num_values), y_train=member(LABELS))
    with pytest.raises(DataError, match=f"x_train of .* is damaged: {num_values} values do not have the sizes"):
        load_arrays(path)


def test_an_archive_that_unpacks_to_more_than_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("covary.data.dataset._physical_memory", lambda: 10_000)
    fits = write_archive(tmp_path / "fits.npz", x_train=member(pixels(4, 5, 6)), y_train=member(LABELS))
    load_arrays(fits)
    x = member(np.zeros((4, 50, 60), np.uint8))
    bomb = write_archive(tmp_path / "bomb.npz", x_train=x, y_train=member(LABELS))
    assert bomb.stat().st_size < 1_000
    with pytest.raises(DataError, match="x_train of .* GiB of memory: expected at most"):
        load_arrays(bomb)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no array", "is not a plain NumPy array"),
        (b"", "is not a plain NumPy array"),
        (member(pixels(4, 5, 6))[:40], "is not a plain NumPy array"),
        (member(pixels(4, 5, 6))[:-1], "is damaged: sizes .* need 120 bytes, found 119"),
        (member(pixels(4, 5, 6)) + b"x", "is damaged: sizes .* need 120 bytes, found 121"),
        (b"\x93NUMPY\x01\x00" + b"\xff\xff" + b"9" * 65535, "is not a plain NumPy array"),
        (b"\x93NUMPY\x09\x00" + bytes(100), "is not a plain NumPy array"),
        (member(np.array(["a", "b"])), "type <U1: expected plain integers or floats"),
        (member(np.zeros(4, dtype=[("a", "u1")])), "expected plain integers or floats"),
        (member(pixels(4, 3, 5, 3)), "second axis or in the last"),
        (member(pixels(4, 20)), r"shape \(4, 20\): expected"),
        (member(np.full((4, 5, 6), np.nan)), "NaN or infinity in image 0"),
        (member(np.zeros((4, 5, 6), np.int32)), "type torch.int32: expected uint8"),
        (member(pixels(0, 5, 6)), "4 training labels|no training image"),
        (member(pixels(3, 5, 6)), "3 training images but 4 training labels"),
    ],
)
def test_invalid_images(tmp_path, content, message):
    path = write_archive(tmp_path / "mine.npz", x_train=content, y_train=member(LABELS))
    with pytest.raises(DataError, match=message) as caught:
        load_arrays(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array([0.0, 1, 2, 1]), "expected integers of shape"),
        (LABELS[:, None], "expected integers of shape"),
        (np.array([0, 1, 3, 1]), "no training image of class 2"),
        (np.array([1, 2, 3, 1]), "labels from 1 to 3: expected them from 0. Subtract 1.$"),
        (np.array(["a", "b", "a", "b"]), r"y_train of .* type <U1: .* names, y = numpy.unique\(labels, return_inverse"),
        (np.array([0, 1, -1, 1]), "label -1"),
        (np.array([0, 1, 2**64 - 1, 1], np.uint64), "label -1"),
    ],
)
def test_invalid_labels(tmp_path, labels, message):
    np.savez(tmp_path / "mine.npz", x_train=pixels(4, 5, 6), y_train=labels)
    with pytest.raises(DataError, match=message):
        load_arrays(tmp_path / "mine.npz")


def test_arrays_that_are_missing(tmp_path):
    np.savez(tmp_path / "a.npz", images=pixels(4, 5, 6), x_train=pixels(4, 5, 6))
    with pytest.raises(DataError, match="lacks y_train; its arrays are: images, x_train"):
        load_arrays(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", x_train=pixels(4, 5, 6), y_train=LABELS, y_test=LABELS)
    with pytest.raises(DataError, match="lacks x_test"):
        load_arrays(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz")
    with pytest.raises(DataError, match="its arrays are: none"):
        load_arrays(tmp_path / "c.npz")


def test_a_header_that_states_a_great_length_is_not_unpacked(tmp_path):
    path = tmp_path / "bomb.npz"
    length = 64 << 20
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x_train.npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", length) + b" " * length)
        file.writestr("y_train.npy", member(LABELS))
    tracemalloc.start()
    with pytest.raises(DataError, match="x_train of .* is not a plain NumPy array"):
        load_arrays(path)
    largest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert largest < 4 << 20


def test_invalid_archives(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez_compressed(path, x_train=pixels(4, 50, 60), y_train=LABELS)
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[2000:2100] = bytes(100)
    for content in (b"", b"no archive", whole[: len(whole) // 2], bytes(damaged)):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"mine.npz is not an .npz archive, or damaged"):
            load_arrays(path)
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        load_arrays(tmp_path)
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(DataError, match=r"pipe.npz cannot be read: it is not a regular file"):
        load_arrays(tmp_path / "pipe.npz")


def test_damage_that_python_reports_by_other_errors(tmp_path):
    path = tmp_path / "mine.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        for name, values in (("x_train", pixels(4, 50, 60)), ("y_train", LABELS), ("\u00e9", LABELS)):
            archive.writestr(f"{name}.npy", member(values))
    whole = path.read_bytes()
    no_text = whole.replace("\u00e9.npy".encode(), b"\xff\xfe.npy")
    for content in (no_text, whole[:80] + bytes([whole[80] ^ 8]) + whole[81:]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"mine.npz is not an .npz archive, or damaged"):
            load_arrays(path)
        with pytest.raises(DataError, match=r"mine.npz is not an .npz archive, or damaged"):
            load_images(path)


def test_tensors_own_what_they_hold():
    values = np.zeros((2, 3))
    values.flags.writeable = False
    tensor_from(values[::-1], "x").fill_(1)
    assert not values.any()
