import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from covary.data import load
from covary.data.folders import load_folder, read_image, squared
from covary.errors import DataError

FILE = Path("image.png")


def pixels(seed, *shape):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def save(path: Path, values) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values).save(path)
    return path


@pytest.fixture
def folder(tmp_path) -> Path:
    """Two classes of gray images, 6 wide and 5 high."""
    for seed, file in enumerate(("b & <c>/1.png", "b & <c>/10.PNG", "a/2.png")):
        save(tmp_path / "mine" / file, pixels(seed, 5, 6))
    return tmp_path / "mine"


def refuse(path, *words):
    with pytest.raises(DataError) as caught:
        load_folder(path)
    assert all(word in str(caught.value) for word in words), caught.value
    assert "\n" not in str(caught.value)


def test_classes_and_files_come_in_lexicographic_order(folder):
    (folder / ".hidden").mkdir()
    (folder / "a" / ".DS_Store").write_bytes(b"")
    found = load(str(folder))
    assert (found.name, found.class_names) == ("mine", ("a", "b & <c>"))
    assert found.y_train.tolist() == [0, 1, 1]
    expected = torch.from_numpy(np.stack([pixels(seed, 5, 6) for seed in (2, 0, 1)])).unsqueeze(1)
    torch.testing.assert_close(found.x_train * 255, expected.float())
    assert found.x_test.shape == (0, 1, 5, 6)


def test_color_keeps_its_channels(tmp_path):
    values = pixels(0, 5, 6, 3)
    save(tmp_path / "mine" / "a" / "1.png", values)
    save(tmp_path / "mine" / "b" / "1.png", 255 - values)
    found = load_folder(tmp_path / "mine")
    torch.testing.assert_close(found.x_train[0] * 255, torch.from_numpy(values).permute(2, 0, 1).float())


def test_jpeg_is_read(tmp_path):
    save(tmp_path / "mine" / "a" / "1.jpg", np.full((8, 8, 3), 100, np.uint8))
    save(tmp_path / "mine" / "b" / "1.jpeg", np.full((8, 8, 3), 200, np.uint8))
    found = load_folder(tmp_path / "mine")
    assert (found.x_train.mean((1, 2, 3)) * 255).tolist() == pytest.approx([100, 200], abs=2)


def test_train_and_test_are_the_parts(tmp_path):
    for seed, file in enumerate(("train/a/1.png", "train/b/1.png", "train/c/1.png", "test/c/1.png", "test/b/1.png")):
        save(tmp_path / "mine" / file, pixels(seed, 5, 6))
    found = load_folder(tmp_path / "mine")
    assert found.class_names == ("a", "b", "c")
    assert found.y_train.tolist() == [0, 1, 2]
    assert found.y_test.tolist() == [1, 2]
    torch.testing.assert_close(found.x_test[0, 0] * 255, torch.from_numpy(pixels(4, 5, 6)).float())


def test_parts_that_do_not_fit(tmp_path):
    for file in ("train/a/1.png", "test/d/1.png"):
        save(tmp_path / "mine" / file, pixels(0, 5, 6))
    refuse(tmp_path / "mine", str(Path("test") / "d"), "has no counterpart in")
    save(tmp_path / "mine" / "validation" / "a" / "1.png", pixels(0, 5, 6))
    refuse(tmp_path / "mine", "the folder 'validation' beside 'train' and 'test'")


def test_sizes_and_modes_that_are_mixed_are_named(folder):
    odd = save(folder / "b & <c>" / "11.png", pixels(0, 6, 5))
    refuse(folder, str(odd), "is 5×6 gray but", "is 6×5 gray", "images of one size", "--size 64")
    for shape in ((5, 6, 3), (6, 5, 3)):
        save(odd, pixels(0, *shape))
        refuse(folder, str(odd), f"is {shape[1]}×{shape[0]} color but", "Convert them all to gray, or all to color.")
        with pytest.raises(DataError, match=r"all gray or all color. Convert them all to gray, or all to color.$"):
            load_folder(folder, size=4)
    save(odd, pixels(0, 5, 6, 3))
    with pytest.raises(DataError, match=r"all gray or all color. Convert them all to gray, or all to color.$"):
        load_folder(folder)


@pytest.mark.parametrize("mode", ["RGBA", "P", "1", "LA", "I;16"])
def test_other_modes_are_refused(folder, mode):
    path = folder / "a" / "2.png"
    Image.new(mode, (6, 5)).save(path)
    cure = "Scale its values to 0 to 255" if mode == "I;16" else "convert('L') for gray or image.convert('RGB')"
    refuse(folder, str(path), f"has the mode {mode}", cure)


def test_files_that_cannot_be_read_are_named(folder):
    path = folder / "b & <c>" / "1.png"
    whole = path.read_bytes()
    for content, word in ((b"", "not a PNG or JPEG"), (b"text", "not a PNG or JPEG"), (whole[:-30], "cannot be read")):
        path.write_bytes(content)
        refuse(folder, str(path), word)
    altered = bytearray(whole)
    altered[50] ^= 255
    path.write_bytes(bytes(altered))
    refuse(folder, str(path), "cannot be read")


def test_a_truncated_jpeg_is_named(tmp_path):
    path = save(tmp_path / "mine" / "a" / "1.jpg", pixels(0, 64, 64, 3))
    path.write_bytes(path.read_bytes()[:2000])
    refuse(tmp_path / "mine", str(path), "truncated")


def test_other_formats_are_refused_whatever_their_name(folder):
    path = folder / "a" / "2.png"
    Image.fromarray(pixels(0, 5, 6)).save(path, format="BMP")
    refuse(folder, str(path), "is not a PNG or JPEG image")


def test_other_files_are_not_passed_over(folder):
    (folder / "a" / "notes.txt").write_text("text")
    refuse(folder, "notes.txt is not an image", ".png, .jpg, .jpeg", "Remove it.")
    (folder / "a" / "notes.txt").unlink()
    (folder / "a" / "more.png").mkdir()
    refuse(folder, "more.png is not an image")


def test_empty_folders_are_named(folder, tmp_path):
    (folder / "c").mkdir()
    refuse(folder, f"{folder / 'c'} is empty", "class 'c'")
    (tmp_path / "empty").mkdir()
    refuse(tmp_path / "empty", "has no folders: expected one per class")


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


@pytest.mark.parametrize("side", [10_000, 60_000])  # Pillow warns of the first and refuses the second
def test_a_decompression_bomb_is_refused(tmp_path, side):
    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    path = tmp_path / "bomb.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"") + chunk(b"IEND", b""))
    with pytest.raises(DataError, match="bomb.png is too large an image to decompress"):
        read_image(path)


def test_more_images_than_memory_are_refused(folder, monkeypatch):
    monkeypatch.setattr("covary.data.dataset._physical_memory", lambda: 3 * 30 * 5 - 1)
    refuse(folder, str(folder), "GiB of memory")
    monkeypatch.setattr("covary.data.dataset._physical_memory", lambda: 3 * 30 * 5)
    load_folder(folder)


def test_photographs_are_made_small_one_after_another(tmp_path, monkeypatch):
    """What they need together is what is made of them: a few large images in small files are not held at once."""
    for number, shape in enumerate(((60, 40), (70, 50), (30, 30), (40, 80))):
        save(tmp_path / "mine" / "ab"[number % 2] / f"{number}.png", pixels(number, *shape))
    whole, most = load_folder(tmp_path / "mine", size=4), 5 * 4 * 16  # bytes of four images of 4×4 pixels
    monkeypatch.setattr("covary.data.dataset._physical_memory", lambda: most)
    assert torch.equal(load_folder(tmp_path / "mine", size=4).x_train, whole.x_train)
    wide = squared(torch.zeros(1, 4, 8, dtype=torch.uint8), 4, FILE)
    assert wide.untyped_storage().nbytes() == 16, "nothing of the image around the square is kept"


def test_images_are_resized_if_the_last_one_alone_differs(tmp_path):
    values = pixels(0, 8, 8)
    for name in ("a/1.png", "b/1.png"):
        save(tmp_path / "mine" / name, values)
    assert load_folder(tmp_path / "mine", size=4).x_train.shape[-1] == 8
    save(tmp_path / "mine" / "b" / "2.png", pixels(0, 4, 9))
    found = load_folder(tmp_path / "mine", size=4)
    assert found.x_train.shape == (3, 1, 4, 4)
    assert "3 images were resized" in found.notes[0]
    expected = squared(torch.from_numpy(values)[None], 4, FILE) / 255
    torch.testing.assert_close(found.x_train[:2], expected.float().expand(2, 1, 4, 4))


def test_a_line_of_pixels_is_not_enlarged_beyond_memory():
    with pytest.raises(DataError, match="line.png needs .* GiB of memory"):
        squared(torch.zeros(1, 1, 1_000_000, dtype=torch.uint8), 100_000, Path("line.png"))


def test_the_center_of_a_resized_image_is_kept():
    """Antialiased averages of a picture twice as large: each pixel repeated, with borders that are cut off."""
    small = torch.randint(0, 255, (3, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(squared(small, 4, FILE), small)
    wide = torch.cat([torch.zeros(3, 4, 1, dtype=torch.uint8), small, torch.zeros(3, 4, 1, dtype=torch.uint8)], 2)
    assert torch.equal(squared(wide, 4, FILE), small)
    flat = torch.full((1, 9, 6), 7, dtype=torch.uint8)
    assert squared(flat, 4, FILE).shape == (1, 4, 4)
    assert torch.equal(squared(flat, 12, FILE), torch.full((1, 12, 12), 7, dtype=torch.uint8))
    assert not torch.equal(squared(small.flip(2), 4, FILE), small), "a control"
