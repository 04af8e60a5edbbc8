"""The shape of a run's inputs: a network made for it, and errors for inputs of another shape."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import CovaryError, ShapeError, StructureError
from ..records import RunRecord

Array = Tensor | np.ndarray[Any, np.dtype[Any]]


def trained_shape(record: RunRecord) -> tuple[int, ...]:
    """The shape of a datum of the training data; () where the record does not show it."""
    pictures = [] if record.samples is None else record.samples.shape[2:]
    return tuple(record.input_shape or pictures)


def num_outputs(record: RunRecord) -> int:
    """The number of classes; without their names the size of the last weight, which loading then verifies."""
    shapes = [row.shape for row in record.coverage if row.shape]
    if not record.class_names and not shapes:
        raise StructureError("The record is without the number of classes. Pass a function that needs no arguments.")
    return len(record.class_names) or shapes[-1][0]


def made_for(make: Callable[..., nn.Module], record: RunRecord) -> nn.Module:
    """The user's network by a function without arguments, or of (image_shape, num_outputs) as commands call it."""
    try:
        signature = inspect.signature(make)
    except ValueError:  # not every function written in C has one
        return make()
    if _takes(signature):
        return make()
    if not _takes(signature, "image_shape", "num_outputs"):
        raise StructureError(
            "Expected a network, or a function of (image_shape, num_outputs) or without arguments that makes it, got a "
            f"function of {signature}."
        )
    if not trained_shape(record):
        raise StructureError("The record is without the shape of the inputs. Pass a function that needs no arguments.")
    return make(trained_shape(record), num_outputs(record))


def _takes(signature: inspect.Signature, *arguments: str) -> bool:
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


def require_inputs(x: Array, trained: Sequence[int], names: Sequence[str] = (), exact: bool = True) -> None:
    """Raise `ShapeError` for data of another shape than the training data, also of one that would be broadcast.

    Arguments:
        x: The data.
        trained: The shape of a datum of the training data; an empty one is not known, and not compared.
        names: The names of the columns of a table.
        exact: Whether sizes beside the number of channels have to be those of the training data.
    """
    shape, got = tuple(trained), tuple(x.shape)
    alone, same_channels = got == shape, len(shape) != 3 or len(got) != 4 or got[1] == shape[0]
    if shape and (alone or not (got[1:] == shape if exact else same_channels)):
        raise ShapeError(_expected(got, shape, names, alone))


def _expected(got: tuple[int, ...], shape: tuple[int, ...], names: Sequence[str], alone: bool) -> str:
    """The message for data of shape `got`; `alone` says that they are one datum."""
    if len(shape) == 1:
        named = f" ({', '.join(names[:20])}{', …' if len(names) > 20 else ''})" if names else ""
        found = str(got[1]) if len(got) == 2 else f"data of shape {got}"
        text = f"Expected rows of {shape[0]} column{'s' * (shape[0] > 1)}{named}, as in training, got "
        return text + ("a single one. Add the batch axis: x[None]." if alone else f"{found}.")
    what, sizes = "images" if len(shape) == 3 else "data", ", ".join(map(str, shape))
    advice = "Add the batch axis: x[None]." if alone else "Pass data of that shape."
    if len(shape) == 3 and not alone:
        advice = "Pass images of that size and number of channels."
    return f"Expected {what} of shape (N, {sizes}) as in training, got {got}. {advice}"


def takes_tokens(network: nn.Module) -> bool:
    """Whether inputs of a network are numbers of tokens."""
    return any(isinstance(module, nn.Embedding) for module in network.modules())


def is_exact(record: RunRecord, network: nn.Module) -> bool:
    """Whether the inputs of a run have one shape: rows of a table, and what an augmentation transforms."""
    return record.samples is not None or (len(record.input_shape) == 1 and not takes_tokens(network))


@contextmanager
def explained(x: Array, trained: Sequence[int]) -> Iterator[None]:
    """Raise `ShapeError` in place of an error of torch for inputs that a network cannot process."""
    try:
        yield
    except (torch.cuda.OutOfMemoryError, CovaryError):
        raise
    except (RuntimeError, IndexError) as error:
        require_inputs(x, trained)
        reason = " ".join(str(error).split())
        raise ShapeError(
            f"The network cannot process inputs of shape {tuple(x.shape)} and type {x.dtype} ({reason}). Pass inputs "
            "of the shape and type that it was trained on."
        ) from error
