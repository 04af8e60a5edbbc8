"""Images without labels: every source, names, sizes."""

import numpy as np
import pytest
import torch
from PIL import Image

from covary.data import load, load_images
from covary.errors import DataError


def pixels(seed, *shape):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


@pytest.fixture
def folder(tmp_path):
    for number, name in enumerate(("b.png", "a.png", "cats/c.png", ".hidden/d.png")):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels(number, 6, 6)).save(path)
    (tmp_path / "photos" / "notes.txt").write_text("no image")
    return tmp_path / "photos"


def test_all_images_below_a_folder_with_their_names(folder):
    images = load_images(folder)
    assert images.names == ("a.png", "b.png", "cats/c.png")
    expected = torch.from_numpy(np.stack([pixels(number, 6, 6) for number in (1, 0, 2)]))[:, None] / 255
    assert torch.equal(images.x, expected.float())


def test_the_test_images_of_a_data_set_else_those_of_training(tmp_path):
    x, y = pixels(0, 4, 5, 5), np.arange(4) % 2
    np.savez(tmp_path / "labeled.npz", x_train=x, y_train=y)
    assert torch.equal(load_images(tmp_path / "labeled.npz").x, load(tmp_path / "labeled.npz").x_train)
    assert torch.equal(load_images("mnist-mini").x, load("mnist-mini").x_test)
    assert load_images("mnist-mini").names[-1] == "1999"


def test_an_archive_without_labels(tmp_path):
    np.savez(tmp_path / "new.npz", x=pixels(0, 3, 5, 5), x_train=pixels(1, 4, 5, 5))
    images = load_images(tmp_path / "new.npz")
    assert torch.equal(images.x, torch.from_numpy(pixels(0, 3, 5, 5))[:, None].float() / 255)
    assert images.names == ("0", "1", "2")


def test_images_are_resampled_to_a_size(folder):
    assert load_images(folder, size=12).x.shape == (3, 1, 12, 12)
    assert torch.equal(load_images(folder, size=6).x, load_images(folder).x)


def test_what_cannot_be_read_is_named(tmp_path):
    (tmp_path / "empty").mkdir()
    np.savez(tmp_path / "other.npz", y=np.arange(3))
    np.savez(tmp_path / "oblong.npz", x=pixels(0, 3, 5, 4))
    (tmp_path / "broken.npz").write_text("")
    for source, words, size in (
        (tmp_path / "empty", "PNG or JPEG files below", None),
        (tmp_path / "other.npz", "lacks x", None),
        (tmp_path / "broken.npz", "not an .npz archive", None),
        (tmp_path / "missing.npz", "neither a name nor a path that exists", None),
        (tmp_path / "oblong.npz", "square images", 8),
        ("mnits", "Expected one of mnist-mini", None),
    ):
        with pytest.raises(DataError, match=words):
            load_images(source, size=size)
