"""Data that a function of the user's own makes."""

from collections.abc import Callable

import numpy as np
from torch import Tensor

from .._types import Batch
from ..errors import DataError
from ..references import function_of
from .arrays import tensor_from
from .dataset import Dataset, checked, labels_from, pixels_from, scaled, without_test

_EXPECTED = "a Dataset, (x_train, y_train, x_test, y_test) or (x_train, y_train), of tensors or arrays"


def load_function(reference: str) -> Dataset:
    """The data set that a function called without arguments returns, by its reference `package.module:function`.

    It returns a `Dataset`, (x_train, y_train, x_test, y_test) or (x_train, y_train), of tensors or arrays in the
    layouts of an `.npz` archive.
    """
    made = function_of(reference, (), f"a function that needs no arguments and returns {_EXPECTED}", DataError)()
    if isinstance(made, Dataset):
        # Its layout is known, so that images of any number of channels may come.
        train = _part(made.x_train, made.y_train, scaled, reference)
        test = _part(made.x_test, made.y_test, scaled, reference)
        return checked(train, test, reference, made.name, made.class_names)
    if not isinstance(made, tuple | list) or len(made) not in (2, 4):
        came = f"{type(made).__name__} of {len(made)}" if isinstance(made, tuple | list) else type(made).__name__
        raise DataError(f"{reference} returned a {came}: expected {_EXPECTED}.")
    train = _part(made[0], made[1], pixels_from, reference)
    test = _part(made[2], made[3], pixels_from, reference) if len(made) == 4 else without_test(train[0])
    return checked(train, test, reference, reference)


def _part(images: object, labels: object, convert: Callable[[Tensor, str], Tensor], reference: str) -> Batch:
    x, y = (_tensor(values, reference) for values in (images, labels))
    return convert(x, f"x of {reference}"), labels_from(y, f"y of {reference}")


def _tensor(value: object, reference: str) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, np.ndarray):
        return tensor_from(value, reference)
    raise DataError(f"{reference} returned a {type(value).__name__} among its parts: expected {_EXPECTED}.")
