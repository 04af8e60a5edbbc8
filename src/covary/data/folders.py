"""Images in folders, one folder per class."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32, UInt8
from torch import Tensor

from .._types import Batch
from ..errors import DataError
from .dataset import Dataset, checked, require_memory, scaled, without_test

_FORMATS = ("PNG", "JPEG")
_ENDINGS = (".png", ".jpg", ".jpeg")
_MODES = ("L", "RGB")
_BYTES_PER_VALUE = 1 + 4  # a byte, and the float32 that it becomes


def load_folder(path: Path) -> Dataset:
    """Data set of a folder of class folders of PNG or JPEG images, all gray or all color and of one size.

    Folders `train` and `test` are the two splits, each with the same class folders; otherwise there is no test split.
    Classes, named by their folders, and files are in lexicographic order; names that begin with a dot are ignored.
    """
    split = _is_split(path)
    folders = _class_folders(path / "train" if split else path)
    class_names = tuple(folder.name for folder in folders)
    train = _labeled_images(folders)
    if not split:
        return checked(train, without_test(train[0]), str(path), path.resolve().name, class_names)
    tested = _class_folders(path / "test")
    if unknown := sorted({folder.name for folder in tested} - set(class_names)):
        raise DataError(
            f"{path / 'test' / unknown[0]} has no counterpart in {path / 'train'}: expected the same classes."
        )
    images, positions = _labeled_images(tested)
    labels = torch.tensor([class_names.index(folder.name) for folder in tested])[positions]
    return checked(train, (images, labels), str(path), path.resolve().name, class_names)


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
        raise DataError(f"{path} has the mode {mode}: expected L (gray) or RGB (color), 8 bits each. Convert it.")
    return torch.from_numpy(pixels.reshape(*pixels.shape[:2], -1)).permute(2, 0, 1)


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


def _labeled_images(folders: Sequence[Path]) -> Batch:
    """Images (N, C, H, W) in [0, 1] and the position of the folder of each."""
    files = [(file, position) for position, folder in enumerate(folders) for file in _images_in(folder)]
    images = _stacked([file for file, _ in files], folders[0].parent)
    return images, torch.tensor([position for _, position in files])


def images_below(path: Path) -> tuple[Float32[Tensor, "N C H W"], tuple[str, ...]]:
    """Images of all PNG and JPEG files below a folder, in lexicographic order, and their paths relative to it."""
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in _ENDINGS and file.is_file())
    names = [file.relative_to(path) for file in files]
    kept = [row for row, name in enumerate(names) if not any(part.startswith(".") for part in name.parts)]
    if not kept:
        raise DataError(f"Expected PNG or JPEG files below '{path}', got none.")
    return _stacked([files[row] for row in kept], path), tuple(names[row].as_posix() for row in kept)


def _stacked(files: Sequence[Path], folder: Path) -> Float32[Tensor, "N C H W"]:
    first = read_image(files[0])
    require_memory(str(folder), len(files) * first.numel() * _BYTES_PER_VALUE)
    pixels = torch.empty(len(files), *first.shape, dtype=torch.uint8)
    for row, file in enumerate(files):
        image = read_image(file)
        if image.shape != first.shape:
            raise DataError(
                f"{file} is {_described(image)} but {files[0]} is {_described(first)}: expected images of one size, "
                "all gray or all color. Resize or convert them."
            )
        pixels[row] = image
    return scaled(pixels, str(folder))


def _images_in(folder: Path) -> list[Path]:
    """Files of a class; raise `DataError` if one is not an image."""
    files = _entries(folder)
    for file in files:
        if not file.is_file() or file.suffix.lower() not in _ENDINGS:
            raise DataError(f"{file} is not an image: expected files that end in {', '.join(_ENDINGS)} in {folder}.")
    if not files:
        raise DataError(f"{folder} is empty: expected at least one image of the class '{folder.name}'. Add some.")
    return files


def _described(image: UInt8[Tensor, "C H W"]) -> str:
    channels, height, width = image.shape
    return f"{width}×{height} {'gray' if channels == 1 else 'color'}"
