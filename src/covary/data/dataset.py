"""The one layout of examples, whatever file they come from."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from .._types import Batch
from ..errors import DataError
from ..noise import permutation


class Dataset(NamedTuple):
    """A data set for classification: images with their labels, parted into training and test.

    A source without a test part gives test tensors of 0 rows. Each of the C classes has a training image.
    """

    x_train: Float32[Tensor, "N C H W"]
    y_train: Int64[Tensor, " N"]
    x_test: Float32[Tensor, "M C H W"]  # M may be 0
    y_test: Int64[Tensor, " M"]
    name: str
    class_names: tuple[str, ...]

    @property
    def train(self) -> Batch:
        """The training images with their labels."""
        return self.x_train, self.y_train

    @property
    def test(self) -> Batch:
        """The test images with their labels."""
        return self.x_test, self.y_test


def limited(dataset: Dataset, num_train: int, seed: int) -> Dataset:
    """The data set with the first `num_train` training images after a shuffle by `seed`; the test part is kept.

    A class of which none is among them is an error that names how many are enough.
    """
    available = len(dataset.x_train)
    if not 1 <= num_train <= available:
        raise DataError(
            f"A limit must lie between 1 and the {available} training images of {dataset.name}; {num_train} came."
        )
    order = permutation(seed, available).to(dataset.x_train.device)
    _require_classes(dataset, dataset.y_train[order], num_train)
    chosen = order[:num_train]
    return dataset._replace(x_train=dataset.x_train[chosen], y_train=dataset.y_train[chosen])


def _require_classes(dataset: Dataset, shuffled: Int64[Tensor, " N"], num_train: int) -> None:
    firsts = {label: int((shuffled == label).nonzero()[0]) for label in shuffled.unique().tolist()}
    last = max(firsts, key=lambda label: firsts[label])
    if firsts[last] >= num_train:
        raise DataError(
            f"{dataset.name}, limited to {num_train}, has no training image of class '{dataset.class_names[last]}': "
            f"expected one for each of {len(firsts)} classes. Take more images, by a larger --num-train "
            f"({firsts[last] + 1} is enough) or none."
        )


def pixels_from(values: Tensor, origin: str) -> Float32[Tensor, "N C H W"]:
    """Images (N, C, H, W) of (N, H, W), (N, H, W, C) or (N, C, H, W) with C = 1 or 3; bytes become [0, 1].

    Arguments:
        values: Bytes, or finite floats that are kept as they are.
        origin: What to call them in an error, such as a file and the name of its array.
    """
    return scaled(_channels_first(values, origin), origin)


def scaled(values: Tensor, origin: str) -> Float32[Tensor, "N C H W"]:
    """Images (N, C, H, W) with bytes divided by 255 and floats as they are, in float32, all of them finite."""
    if values.ndim != 4:
        raise DataError(f"{origin} has shape {tuple(values.shape)}: expected (N, C, H, W).")
    if values.dtype != torch.uint8 and not values.is_floating_point():
        raise DataError(f"{origin} has values of type {values.dtype}: expected uint8 from 0 to 255, or floats.")
    images = values.to(torch.float32)
    images = images / 255 if values.dtype == torch.uint8 else images
    if not images.isfinite().all():
        row = int((~images.isfinite()).flatten(1).any(1).nonzero()[0])
        raise DataError(f"{origin} has NaN or infinity in image {row}: expected finite numbers. Mend or remove it.")
    return images.contiguous()


def labels_from(values: Tensor, origin: str) -> Int64[Tensor, " N"]:
    """Labels as (N,) int64 of integers of any size."""
    if values.ndim != 1 or values.is_floating_point() or values.is_complex() or values.dtype == torch.bool:
        raise DataError(
            f"{origin} has shape {tuple(values.shape)} and type {values.dtype}: expected integers of shape (N,), the "
            "class of each image from 0 on."
        )
    return values.to(torch.int64)


def without_test(x_train: Tensor) -> Batch:
    """A test part of 0 rows, for a source that has none."""
    return x_train[:0].clone(), torch.zeros(0, dtype=torch.int64)


def checked(train: Batch, test: Batch, origin: str, name: str, class_names: Sequence[str] | None = None) -> Dataset:
    """The data set of two parts that belong together: as many labels as images, one size, two classes or more.

    Arguments:
        train: Training images (N, C, H, W) and labels (N,).
        test: Test images and labels, possibly 0 of them.
        origin: What to call the source in an error, such as its path.
        name: The name of the data set.
        class_names: A name per class; by default the labels' own digits, for labels without a gap.
    """
    if len(train[0]) == 0:
        raise DataError(f"{origin} holds no training image: expected at least one for each class.")
    for part, (images, labels) in (("training", train), ("test", test)):
        if len(images) != len(labels):
            raise DataError(f"{origin} holds {len(images)} {part} images but {len(labels)} {part} labels.")
    if train[0].shape[1:] != test[0].shape[1:]:
        shapes = f"{tuple(train[0].shape[1:])} and {tuple(test[0].shape[1:])}"
        raise DataError(f"{origin} holds training and test images of different shapes, {shapes}: expected the same.")
    num_classes = max(int(train[1].max()) + 1, 1) if class_names is None else len(class_names)
    _check_classes(train[1], test[1], num_classes, origin)
    if num_classes < 2:
        raise DataError(f"{origin} holds images of one class alone: expected two or more to tell apart. Add another.")
    names = map(str, range(num_classes)) if class_names is None else class_names
    return Dataset(*train, *test, name, tuple(names))


def _check_classes(y_train: Tensor, y_test: Tensor, num_classes: int, origin: str) -> None:
    for labels in (y_train, y_test):
        if len(labels) and (int(labels.min()) < 0 or int(labels.max()) >= num_classes):
            wrong = int(labels.min()) if int(labels.min()) < 0 else int(labels.max())
            raise DataError(f"{origin} holds the label {wrong}: expected labels from 0 to {num_classes - 1}.")
    present = y_train.unique()
    if len(present) < num_classes:
        missing = next((c for c, label in enumerate(present.tolist()) if c != label), len(present))
        raise DataError(
            f"{origin} has no training image of class {missing}: expected at least one for each label from 0 to "
            f"{num_classes - 1}. Add some, or number the classes without a gap."
        )


def _channels_first(values: Tensor, origin: str) -> Tensor:
    """Images (N, C, H, W), the place of the channels told by their number, 1 or 3."""
    shape = tuple(values.shape)
    if 0 in shape[1:]:
        raise DataError(f"{origin} has images without pixels: its shape is {shape}, expected each side above 0.")
    if values.ndim == 3:
        return values.unsqueeze(1)
    first, last = (values.ndim == 4 and shape[axis] in (1, 3) for axis in (1, -1))
    if first and last:
        raise DataError(
            f"{origin} has shape {shape}, whose channels may be the second axis or the last. Leave out the axis of a "
            "single channel, or pad the images to another size."
        )
    if not first and not last:
        raise DataError(
            f"{origin} has shape {shape}: expected (N, H, W), (N, H, W, C) or (N, C, H, W) with C = 1 (gray) or "
            "3 (color)."
        )
    return values if first else values.permute(0, 3, 1, 2)
