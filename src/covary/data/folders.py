"""Images in folders, one folder per class."""

import math
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32, UInt8
from torch import Tensor
from torch.nn.functional import interpolate

from .._text import plural
from .._types import Batch
from ..errors import DataError
from .dataset import Dataset, checked, require_memory, scaled, without_test

_FORMATS = ("PNG", "JPEG")
_ENDINGS = (".png", ".jpg", ".jpeg")
_MODES = ("L", "RGB")
_BYTES_PER_VALUE = 1 + 4  # a byte, and the float32 that it becomes


RESIZED = "the shorter side to {0} pixels by bilinear interpolation with antialiasing, then the center {0}×{0} of each"


def load_folder(path: Path, size: int | None = None) -> Dataset:
    """Data set of a folder of class folders of PNG or JPEG images, all gray or all color, of one size or made so.

    Arguments:
        size: The side of the square that images are brought to if they differ in size or are not square: the shorter
            side to `size` pixels, by bilinear interpolation with antialiasing, then the center `size` × `size` pixels.

    Folders `train` and `test` are the two splits, each with the same class folders; otherwise there is no test split.
    Classes, named by their folders, and files are in lexicographic order; names that begin with a dot are ignored.
    """
    split = _is_split(path)
    folders = _class_folders(path / "train" if split else path)
    class_names = tuple(folder.name for folder in folders)
    train, changed = _labeled_images(folders, size)
    if not split:
        found = checked(train, without_test(train[0]), str(path), path.resolve().name, class_names)
        return found._replace(notes=_notes(changed, size))
    tested = _class_folders(path / "test")
    if unknown := sorted({folder.name for folder in tested} - set(class_names)):
        raise DataError(
            f"{path / 'test' / unknown[0]} has no counterpart in {path / 'train'}: expected the same classes."
        )
    (images, positions), changed_too = _labeled_images(tested, size)
    labels = torch.tensor([class_names.index(folder.name) for folder in tested])[positions]
    found = checked(train, (images, labels), str(path), path.resolve().name, class_names)
    return found._replace(notes=_notes(changed + changed_too, size))


def _notes(num_resized: int, size: int | None) -> tuple[str, ...]:
    """What was done to images that had another size."""
    return (
        (f"{plural(num_resized, 'image')} {'was' if num_resized == 1 else 'were'} resized: {RESIZED.format(size)}.",)
        if num_resized
        else ()
    )


def read_image(path: Path) -> UInt8[Tensor, "C H W"]:
    """Pixels of a PNG or JPEG file, gray (C = 1) or color (C = 3)."""
    from PIL import Image, UnidentifiedImageError  # here: `import covary` imports nothing that reads pictures

    try:
        with warnings.catch_warnings():
            # Pillow only warns about an image that is far larger than its file.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=_FORMATS) as image:
                mode, pixels = image.mode, np.array(image)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(f"{path} is too large an image to decompress. Make it smaller.") from error
    except UnidentifiedImageError as error:
        raise DataError(f"{path} is not a PNG or JPEG image. Remove it, or save it again.") from error
    except (OSError, SyntaxError, ValueError) as error:  # raised by Pillow for a damaged file
        raise DataError(f"{path} cannot be read: {error}. Remove it, or save it again.") from error
    if mode not in _MODES:
        raise DataError(
            f"{path} has the mode {mode}: expected L (gray) or RGB (color), 8 bits each. {_conversion(mode)}"
        )
    return torch.from_numpy(pixels.reshape(*pixels.shape[:2], -1)).permute(2, 0, 1)


def _conversion(mode: str) -> str:
    """What to do with an image of a mode that is not read."""
    if mode.startswith(("I", "F")):  # Pillow's convert would clip 16 bits instead of scaling them
        return "Scale its values to 0 to 255 and save them as 8 bits."
    return "Convert it, in Pillow by image.convert('L') for gray or image.convert('RGB') for color."


def _is_split(path: Path) -> bool:
    """Whether the folder has the splits `train` and `test`; raise `DataError` if it has others beside them."""
    names = {entry.name for entry in _entries(path) if entry.is_dir()}
    if {"train", "test"} <= names and len(names) > 2:
        other = min(names - {"train", "test"})
        raise DataError(
            f"{path} has the folder '{other}' beside 'train' and 'test': expected these two alone, or a folder per "
            "class."
        )
    return {"train", "test"} <= names


def _entries(path: Path) -> list[Path]:
    try:
        return sorted(
            (entry for entry in path.iterdir() if not entry.name.startswith(".")), key=lambda entry: entry.name
        )
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error


def _class_folders(path: Path) -> list[Path]:
    folders = [entry for entry in _entries(path) if entry.is_dir()]
    if not folders:
        raise DataError(f"{path} has no folders: expected one per class, with its images inside.")
    return folders


def _labeled_images(folders: Sequence[Path], size: int | None) -> tuple[Batch, int]:
    """Images (N, C, H, W) in [0, 1] with the position of the folder of each, and how many had another size."""
    files = [(file, position) for position, folder in enumerate(folders) for file in _images_in(folder)]
    images, changed = _stacked([file for file, _ in files], folders[0].parent, size)
    return (images, torch.tensor([position for _, position in files])), changed


def images_below(path: Path, size: int | None = None) -> tuple[Float32[Tensor, "N C H W"], tuple[str, ...]]:
    """Images of all PNG and JPEG files below a folder, in lexicographic order, and their paths relative to it."""
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in _ENDINGS and file.is_file())
    names = [file.relative_to(path) for file in files]
    kept = [row for row, name in enumerate(names) if not any(part.startswith(".") for part in name.parts)]
    if not kept:
        raise DataError(f"Expected PNG or JPEG files below '{path}', got none.")
    images, _ = _stacked([files[row] for row in kept], path, size)
    return images, tuple(names[row].as_posix() for row in kept)


def _stacked(files: Sequence[Path], folder: Path, size: int | None) -> tuple[Float32[Tensor, "N C H W"], int]:
    """Images of one size, in [0, 1], and how many were resized for it."""
    first = read_image(files[0])
    square = first.shape if size is None else torch.Size((len(first), size, size))
    alike = size is None or first.shape[1] == first.shape[2]  # so far: kept as they are
    require_memory(str(folder), len(files) * (first.shape if alike else square).numel() * _BYTES_PER_VALUE)
    pixels: list[UInt8[Tensor, "C H W"]] = []
    changed = 0
    for file in files:
        image = read_image(file)
        if len(image) != len(first) or (size is None and image.shape != first.shape):
            raise _unlike(image, file, first, files[0], can_size=size is None)
        if alike and image.shape != first.shape:
            alike, changed = False, len(pixels) * (first.shape != square)
            pixels = [squared(earlier, square[-1], files[0]) for earlier in pixels]
        if not alike:  # at once: photographs need far more memory than what is made of them
            changed += image.shape != square
            image = squared(image, square[-1], file)
        pixels.append(image)
    return scaled(torch.stack(pixels), str(folder)), changed


def squared(image: UInt8[Tensor, "C H W"], size: int, file: Path) -> UInt8[Tensor, "C {size} {size}"]:
    """The center of an image whose shorter side is brought to `size` pixels: bilinear, with antialiasing.

    It shares no memory with the image of that file.
    """
    height, width = image.shape[1:]
    ratio = size / min(height, width)
    sides = max(round(height * ratio), size), max(round(width * ratio), size)
    require_memory(str(file), len(image) * math.prod(sides) * _BYTES_PER_VALUE)  # one side may be far longer
    if sides != (height, width):
        image = interpolate(image[None], size=sides, mode="bilinear", align_corners=False, antialias=True)[0]
    top, left = (sides[0] - size) // 2, (sides[1] - size) // 2
    return image[:, top : top + size, left : left + size].clone()


def _images_in(folder: Path) -> list[Path]:
    """Files of a class; raise `DataError` if one is not an image."""
    files = _entries(folder)
    for file in files:
        if not file.is_file() or file.suffix.lower() not in _ENDINGS:
            raise DataError(
                f"{file} is not an image: expected files that end in {', '.join(_ENDINGS)} in {folder}. Remove it."
            )
    if not files:
        raise DataError(f"{folder} is empty: expected at least one image of the class '{folder.name}'. Add some.")
    return files


def _unlike(
    image: UInt8[Tensor, "..."], file: Path, first: UInt8[Tensor, "..."], first_file: Path, can_size: bool
) -> DataError:
    """The error for an image that has another size or another number of channels than the first."""
    advice = []
    if len(image) != len(first):
        advice.append("Convert them all to gray, or all to color.")
    if can_size and image.shape[1:] != first.shape[1:]:
        advice.append("Pass a size (--size 64) to bring them to one size.")
    return DataError(
        f"{file} is {_described(image)} but {first_file} is {_described(first)}: expected images of one size, all gray "
        f"or all color. {' '.join(advice)}"
    )


def _described(image: UInt8[Tensor, "C H W"]) -> str:
    channels, height, width = image.shape
    return f"{width}×{height} {'gray' if channels == 1 else 'color'}"
