"""The layout of a data set: images, labels and class names, checked."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float32, Int64, Shaped
from torch import Tensor

from .._text import clipped, is_plain
from .._types import Batch
from ..errors import DataError
from ..noise import permutation


class Dataset(NamedTuple):
    """A data set: images, or other data, with their labels or real targets, split into training and test.

    Images are (N, C, H, W); signals, points, volumes and tables have their own axes. Labels are (N,), with a training
    datum of each class; real targets, for regression, are (N, K) in float32, and there are no class names. Test tensors
    have 0 rows if there is no test split.

    Example:
        >>> from covary.data import load
        >>> digits = load("mnist-mini")
        >>> digits.x_train.shape, digits.y_train.shape, digits.class_names[:3]
        (torch.Size([5000, 1, 28, 28]), torch.Size([5000]), ('0', '1', '2'))
    """

    x_train: Float32[Tensor, "N ..."]
    y_train: Shaped[Tensor, "N ..."]
    x_test: Float32[Tensor, "M ..."]  # M may be 0
    y_test: Shaped[Tensor, "M ..."]
    name: str
    class_names: tuple[str, ...]
    notes: tuple[str, ...] = ()  # what was done to the data on the way, such as a new size
    feature_names: tuple[str, ...] = ()  # of the columns of a table
    target_names: tuple[str, ...] = ()

    @property
    def train(self) -> Batch:
        """Training images and labels."""
        return self.x_train, self.y_train

    @property
    def test(self) -> Batch:
        """Test images and labels."""
        return self.x_test, self.y_test

    @property
    def num_outputs(self) -> int:
        """The number of classes, or of real targets."""
        return len(self.class_names) or self.y_train.shape[1]

    @property
    def is_regression(self) -> bool:
        """Whether the targets are real numbers."""
        return not self.class_names


@dataclass(frozen=True)
class Augmented:
    """Training data with a random transform that is not learned: `fit` applies it in weight steps only.

    The evidence uses the data themselves: transformed samples would count a datum more than once.

    Arguments:
        data: Arrays or tensors (x, y), a data set, or an iterable of batches, as for `as_batches`.
        transform: A map (x, index, seed) -> x of a batch; its noise is a function of `index` and `seed`, which is
            another one each epoch. `covary.data.flips_and_shifts` is one.

    Example:
        >>> import torch, covary
        >>> digits = torch.rand(8, 1, 28, 28), torch.arange(8) % 2
        >>> train = covary.data.Augmented(digits, covary.data.flips_and_shifts)
        >>> train.transform(digits[0], torch.arange(8), 0).shape
        torch.Size([8, 1, 28, 28])
    """

    data: Any
    transform: Callable[[Tensor, Tensor, int], Tensor]


def limited(dataset: Dataset, num_train: int, seed: int) -> Dataset:
    """Data set with the first `num_train` training images after a shuffle by `seed`, and all test images.

    Arguments:
        dataset: The data set.
        num_train: The number of training images, enough for each class to have one.
        seed: Any integer.

    Example:
        >>> from covary.data import limited, load
        >>> len(limited(load("mnist-mini"), 100, seed=0).x_train)
        100
    """
    available = len(dataset.x_train)
    if not 1 <= num_train <= available:
        raise DataError(
            f"Expected num_train between 1 and the {available} training images of {dataset.name}, got {num_train}."
        )
    order = permutation(seed, available).to(dataset.x_train.device)
    if not dataset.is_regression:
        _require_classes(dataset, dataset.y_train[order], num_train)
    chosen = order[:num_train]
    return dataset._replace(x_train=dataset.x_train[chosen], y_train=dataset.y_train[chosen])


def held_out(dataset: Dataset, share: float, seed: int) -> Dataset:
    """Data set with a share of its training data, drawn by the seed, as its test part.

    Arguments:
        dataset: The data set, without a test part of its own.
        share: The share, above 0 and below 1.
    """
    if len(dataset.x_test):
        raise DataError(f"{dataset.name} has test data of its own, got test_share={share:g}. Leave it at 0.")
    order = permutation(seed, len(dataset.x_train)).to(dataset.x_train.device)
    num_test = round(share * len(order))
    test, train = order[:num_test], order[num_test:]
    if not len(test) or not len(train):
        raise DataError(
            f"Expected a share of {len(order)} data for test that leaves data in both parts, got {share:g}."
        )
    left = dataset._replace(x_train=dataset.x_train[train], y_train=dataset.y_train[train])
    if not dataset.is_regression:
        _check_classes(left.y_train, dataset.y_train[test], len(dataset.class_names), dataset.name)
    return left._replace(x_test=dataset.x_train[test], y_test=dataset.y_train[test])


def _require_classes(dataset: Dataset, shuffled: Int64[Tensor, " N"], num_train: int) -> None:
    firsts = {label: int((shuffled == label).nonzero()[0]) for label in shuffled.unique().tolist()}
    last = max(firsts, key=lambda label: firsts[label])
    if firsts[last] >= num_train:
        raise DataError(
            f"{dataset.name}, limited to {num_train}, has no training image of class '{dataset.class_names[last]}': "
            f"expected one for each of {len(firsts)} classes. Use a larger --num-train ({firsts[last] + 1} is enough)."
        )


def pixels_from(values: Tensor, origin: str) -> Float32[Tensor, "N C H W"]:
    """Images (N, C, H, W) of (N, H, W), (N, H, W, C) or (N, C, H, W) with C = 1 or 3; bytes become [0, 1].

    Arguments:
        values: Bytes, or finite floats, which are not rescaled.
    """
    return scaled(_channels_first(values, origin), origin)


def scaled(values: Tensor, origin: str) -> Float32[Tensor, "N C H W"]:
    """Images (N, C, H, W) in float32, bytes divided by 255, all finite."""
    if values.ndim != 4:
        raise DataError(f"{origin} has shape {tuple(values.shape)}: expected (N, C, H, W).")
    if values.dtype != torch.uint8 and not values.is_floating_point():
        raise DataError(f"{origin} has values of type {values.dtype}: expected uint8 from 0 to 255, or floats.")
    images = values.to(torch.float32)
    images = images / 255 if values.dtype == torch.uint8 else images
    if not images.isfinite().all():
        row = int((~images.isfinite()).flatten(1).any(1).nonzero()[0])
        raise DataError(f"{origin} has NaN or infinity in image {row}: expected finite numbers. Fix or remove it.")
    return images.contiguous()


def labels_from(values: Tensor, origin: str) -> Int64[Tensor, " N"]:
    """Labels (N,) as int64, from integers of any size."""
    if values.ndim != 1 or values.is_floating_point() or values.is_complex() or values.dtype == torch.bool:
        raise DataError(
            f"{origin} has shape {tuple(values.shape)} and type {values.dtype}: expected integers of shape (N,), the "
            "class of each image, counted from 0."
        )
    return values.to(torch.int64)


def without_test(x_train: Tensor) -> Batch:
    """Test images and labels of 0 rows."""
    return x_train[:0].clone(), torch.zeros(0, dtype=torch.int64)


def checked(train: Batch, test: Batch, origin: str, name: str, class_names: Sequence[str] | None = None) -> Dataset:
    """Data set of training and test data; raise `DataError` if sizes, labels or classes do not agree.

    Arguments:
        class_names: A name per class; by default the labels themselves.
    """
    if len(train[0]) == 0:
        raise DataError(f"{origin} holds no training image: expected at least one for each class.")
    _require_sizes(train, test, origin, ("images", "labels"))
    _require_one_shape(train[0], test[0], f"{origin} holds training and test images")
    num_classes = max(int(train[1].max()) + 1, 1) if class_names is None else len(class_names)
    _check_classes(train[1], test[1], num_classes, origin)
    if num_classes < 2:
        raise DataError(f"{origin} holds images of one class alone: expected two or more. Add another.")
    names = tuple(map(str, range(num_classes)) if class_names is None else class_names)
    for title, text in (("is called", name), *(("has the class", text) for text in names)):
        _require_plain(f"{origin} {title}", text)
    return Dataset(*train, *test, name, names)


def checked_targets(train: Batch, test: Batch, origin: str, name: str) -> Dataset:
    """Data set for regression of training and test data; raise `DataError` if their sizes do not agree."""
    _require_sizes(train, test, origin, ("data", "targets"))
    if len(train[0]) < 2:
        raise DataError(f"{origin} holds {len(train[0])} training data: expected two or more.")
    for what, first, second in zip(("data", "targets"), train, test, strict=True):
        _require_one_shape(first, second, f"{origin} holds training and test {what}")
    _require_plain(f"{origin} is called", name)
    return Dataset(*train, *test, name, ())


def _require_sizes(train: Batch, test: Batch, origin: str, names: tuple[str, str]) -> None:
    for part, (x, y) in (("training", train), ("test", test)):
        if len(x) != len(y):
            raise DataError(f"{origin} holds {len(x)} {part} {names[0]} but {len(y)} {part} {names[1]}.")


def _require_one_shape(train: Tensor, test: Tensor, held: str) -> None:
    if train.shape[1:] != test.shape[1:]:
        shapes = f"{tuple(train.shape[1:])} and {tuple(test.shape[1:])}"
        raise DataError(f"{held} of different shapes, {shapes}: expected the same.")


def _require_plain(said: str, text: object) -> None:
    if not isinstance(text, str) or not is_plain(text):
        raise DataError(f"{said} {clipped(text)}: expected text without control characters. Rename it.")


def _check_classes(y_train: Tensor, y_test: Tensor, num_classes: int, origin: str) -> None:
    for labels in (y_train, y_test):
        if len(labels) and (int(labels.min()) < 0 or int(labels.max()) >= num_classes):
            wrong = int(labels.min()) if int(labels.min()) < 0 else int(labels.max())
            raise DataError(f"{origin} holds the label {wrong}: expected labels from 0 to {num_classes - 1}.")
    present = y_train.unique()
    if len(present) < num_classes:
        missing = next((c for c, label in enumerate(present.tolist()) if c != label), len(present))
        if missing == 0 and len(present) == num_classes - 1 and not (y_test == 0).any():
            raise DataError(f"{origin} has labels from 1 to {num_classes - 1}: expected them from 0. Subtract 1.")
        raise DataError(
            f"{origin} has no training image of class {missing}: expected at least one for each label from 0 to "
            f"{num_classes - 1}. Add some, or number the classes without gaps."
        )


def _channels_first(values: Tensor, origin: str) -> Tensor:
    """Images (N, C, H, W); the axis of the channels is the one of size 1 or 3."""
    shape = tuple(values.shape)
    if 0 in shape[1:]:
        raise DataError(f"{origin} has images without pixels: its shape is {shape}, expected each side above 0.")
    if values.ndim == 3:
        return values.unsqueeze(1)
    first, last = (values.ndim == 4 and shape[axis] in (1, 3) for axis in (1, -1))
    if first and last:
        raise DataError(
            f"{origin} has shape {shape}: expected channels in the second axis or in the last, not in both. Leave out "
            "the axis of a single channel, or pad the images to another size."
        )
    if not first and not last:
        raise DataError(
            f"{origin} has shape {shape}: expected (N, H, W), (N, H, W, C) or (N, C, H, W) with C = 1 (gray) or "
            "3 (color)."
        )
    return values if first else values.permute(0, 3, 1, 2)


_DEFAULT_MEMORY = 16 << 30


def require_memory(origin: str, num_bytes: int) -> None:
    """Raise `DataError` that names `origin` if `num_bytes` are more than the memory of this machine."""
    limit = _physical_memory()
    if num_bytes > limit:
        raise DataError(
            f"{origin} needs {num_bytes / 2**30:,.1f} GiB of memory: expected at most the {limit / 2**30:,.1f} GiB "
            "that this machine has. Use fewer or smaller images, or fix the file if it should hold less."
        )


def _physical_memory() -> int:
    """Memory of this machine in bytes, or a default if the system does not report it."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return _DEFAULT_MEMORY
