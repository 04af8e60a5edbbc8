"""Inputs, targets and identities of a batch in any form: tensors, arrays, lists, pictures, by position or by name."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from ._text import clipped
from .errors import DataError

Keys = tuple[str, ...]  # the names of inputs, targets and, where there is one, the identity of each datum
# Names that data sets use, for batches that are dictionaries.
INPUT_KEYS = ("x", "image", "images", "img", "pixel_values", "input", "inputs", "input_values")
TARGET_KEYS = ("y", "label", "labels", "target", "targets")
INDEX_KEYS = ("index", "idx")


class Fields(NamedTuple):
    """Inputs (N, ...), targets (N, ...), and identities (N,) where they are given."""

    x: Tensor
    y: Tensor
    identity: Tensor | None


def fields_of(batch: Any, keys: Keys | None = None) -> Fields:
    """The tensors of a batch: (x, y), (x, y, index), or a dictionary.

    Arguments:
        batch: A tuple, list or mapping of tensors, arrays, lists of numbers or pictures, with N entries each.
        keys: The names of inputs, targets and, optionally, identities in a mapping; None for the usual ones.
    """
    if isinstance(batch, Mapping):
        names = _checked_keys(batch, keys) if keys is not None else _usual_keys(batch)
        parts, named = [batch[name] for name in names], [f"'{name}'" for name in names]
    elif isinstance(batch, tuple | list) and len(batch) in (2, 3):
        parts, named = list(batch), ["inputs", "targets", "index"][: len(batch)]
    else:
        got = f"{type(batch).__name__} of {len(batch)}" if isinstance(batch, tuple | list) else type(batch).__name__
        raise DataError(
            f"Expected batches (x, y), (x, y, index) or a dictionary, got {got}. Pass the input and the target of each "
            "datum."
        )
    _require_no_text(parts[1])
    x, y, *index = (as_tensor(part, name) for part, name in zip(parts, named, strict=True))
    if len({len(part) for part in (x, y, *index)}) > 1:
        sizes = " and ".join(str(len(part)) for part in (x, y, *index))
        raise DataError(f"Expected equally many {' and '.join(named)}, got {sizes}. Pass one of each per datum.")
    return Fields(x, y, index[0] if index else None)


def as_tensor(values: Any, name: str) -> Tensor:
    """Tensor (N, ...) of a tensor, an array, or a list of numbers, tensors, arrays or pictures.

    Arguments:
        values: The values; pictures (of Pillow) become bytes (N, C, H, W).
    """
    try:
        if isinstance(values, Tensor):
            found = values
        elif isinstance(values, Sequence) and len(values) and isinstance(values[0], Tensor):
            found = torch.stack(list(values))
        elif isinstance(values, Sequence) and len(values) and is_picture(values[0]):
            found = torch.from_numpy(np.stack([_pixels(picture) for picture in values]))
        else:
            found = _from_array(np.asarray(values))
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(
            f"Expected {name} as numbers of one shape for all data, got others ({_first_line(error)}). Convert or "
            "resize them first."
        ) from error
    if found.ndim == 0:
        raise DataError(
            f"Expected {name} with one entry per datum, got a single number. A list is read as batches: of single "
            "data, pass arrays of all of them, or a DataLoader of the list."
        )
    return found


def as_inputs(x: Tensor) -> Tensor:
    """Inputs as a network has them: bytes (uint8) become floats in [0, 1]."""
    return x.to(torch.get_default_dtype()) / 255 if x.dtype == torch.uint8 else x


def as_targets(y: Tensor) -> Tensor:
    """Targets as a likelihood has them: integers of any size become int64."""
    return y if y.is_floating_point() or y.is_complex() else y.long()


def is_picture(value: object) -> bool:
    """Whether a value is an image of Pillow, which is not imported for it."""
    return type(value).__module__.startswith("PIL.") and hasattr(value, "getbands")


def hashed(x: Tensor) -> Int[Tensor, " N"]:
    """Identities by content: a 64-bit hash of each row, equal for equal inputs in any order."""
    rows = x.detach().cpu().contiguous().reshape(len(x), -1).numpy()
    words = [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows]
    return torch.tensor([int.from_bytes(word, "little", signed=True) for word in words], device=x.device)


def _require_no_text(labels: Any) -> None:
    """Raise `DataError` for labels that are text, with how to number them."""
    is_listed = isinstance(labels, Sequence) or (isinstance(labels, np.ndarray) and labels.ndim == 1)
    if is_listed and len(labels) and isinstance(labels[0], str | bytes):
        names = list(dict.fromkeys(str(label) for label in labels[:1000]))
        shown = ", ".join(clipped(name) for name in names[:2]) + (", …" if len(names) > 2 else "")
        raise DataError(
            f"Labels are text ({shown}). Number them: names, y = numpy.unique(labels, return_inverse=True)."
        )


def _usual_keys(batch: Mapping[str, Any]) -> Keys:
    inputs, targets, index = (
        [name for name in names if name in batch] for names in (INPUT_KEYS, TARGET_KEYS, INDEX_KEYS)
    )
    if len(inputs) != 1 or len(targets) != 1:
        raise DataError(
            f"Expected one input and one target among the names {_listed(batch)}, got {len(inputs)} and "
            f"{len(targets)} usual ones. Name them: covary.as_batches(data, keys=('image', 'label'))."
        )
    return (*inputs, *targets, *index[:1])


def _checked_keys(batch: Mapping[str, Any], keys: Keys) -> Keys:
    if isinstance(keys, str) or len(keys) not in (2, 3):
        raise DataError(
            f"Expected keys (input, target) or (input, target, index), got {keys!r}. Pass a tuple of names."
        )
    for name in keys:
        if name not in batch:
            raise DataError(f"Expected '{name}' among the names of a batch, got {_listed(batch)}. Choose from these.")
    return tuple(keys)


def _listed(batch: Mapping[str, Any]) -> str:
    return ", ".join(f"'{name}'" for name in batch) or "none"


def _pixels(picture: Any) -> Shaped[np.ndarray, "..."]:
    """Bytes (C, H, W) of a picture, gray or color."""
    if picture.mode not in ("L", "RGB"):
        raise ValueError(f"a picture of mode {picture.mode}, neither L nor RGB")
    pixels = np.asarray(picture)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def _from_array(values: Shaped[np.ndarray, "..."]) -> Tensor:
    if values.dtype.kind not in "biuf":
        raise ValueError(f"values of type {values.dtype}")
    if values.dtype.kind == "u" and values.itemsize > 1:
        values = values.astype(np.int64)  # torch has few operations on these
    native = np.asarray(values, dtype=values.dtype.newbyteorder("="), order="C")
    return torch.from_numpy(native if native.flags.writeable else native.copy())


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]
