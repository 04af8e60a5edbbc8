"""Networks by name, for images of a given shape."""

import math
import re

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from .._text import meant
from ..errors import ShapeError, StructureError
from ..references import function_of
from .feedforward import cnn, lenet, mlp
from .relaxed import VARIANTS, relaxed_network
from .resnet import fixup_resnet

NAMES = (
    *("mlp", "mlp:WIDTH[-WIDTH…]", "cnn", "lenet", "resnet-DEPTH-WIDTH"),
    *("relaxed:VARIANT:ALPHA[:LENGTH_SCALE]", "package.module:function"),
)

_MLP = re.compile(r"mlp(?::(\d+(?:-\d+)*))?")
_RESNET = re.compile(r"resnet-(\d+)-(\d+)")
_RELAXED = re.compile(r"relaxed:([^:]*):(\d+)(?::([^:]*))?")
_SIZED = re.compile(r"\w+:(\d[\d-]*|[^:]*:.*)")  # numbers or a second colon after the first, as no function has
_SQUARE = {"cnn": cnn, "lenet": lenet}
_FAMILIES = {re.split(r"[:-]", name)[0]: name for name in NAMES[1:-1]}


def build(name: str, image_shape: tuple[int, ...], num_outputs: int, seed: int) -> nn.Module:
    """Network of that name, (N, c, H, W) -> (N, C), with initial weights from the seed.

    Arguments:
        name: "mlp" (one hidden layer of 1000, tanh), "mlp:300" or "mlp:300-100" (its hidden widths), "cnn", "lenet",
            "resnet-8-16" (Fixup, depth and width), "relaxed:f-fc+conv:4" (a variant and width α of
            `relaxed_network`; "relaxed:s-fc:4:weight" makes length-scales weights), or "package.module:function",
            called with (image_shape, num_outputs).
        image_shape: The channels c, height H and width W of an image; for an mlp or a function, of any datum its shape.
        num_outputs: The number of outputs C.
        seed: The seed of the initial weights, also of those that a function draws from torch's global generator.

    Example:
        >>> from covary.networks import build
        >>> build("mlp:30", (1, 28, 28), 10, seed=0)
        Sequential(
          (0): Flatten(start_dim=1, end_dim=-1)
          (1): Linear(in_features=784, out_features=30, bias=True)
          (2): Tanh()
          (3): Linear(in_features=30, out_features=10, bias=True)
        )
    """
    generator = torch.Generator().manual_seed(seed)
    if match := _MLP.fullmatch(name):
        hidden = [int(number) for number in (match[1] or "1000").split("-")]
        if 0 in hidden:
            raise ShapeError(f"Expected hidden layers of 1 unit or more, got '{name}'.")
        return mlp(math.prod(image_shape), hidden, num_outputs, generator=generator)
    if is_function(name):
        return _made_by(name, image_shape, num_outputs, seed)
    if name not in _SQUARE and not _RESNET.fullmatch(name) and not _RELAXED.fullmatch(name):
        raise _unknown(name)
    num_channels, height, width = _image_shape(name, image_shape)
    if name in _SQUARE:
        if height != width:
            raise ShapeError(f"Expected square images for {name}, got {height}×{width}. Pad them, or use mlp.")
        return _SQUARE[name](num_channels, height, num_outputs, generator=generator)
    if match := _RESNET.fullmatch(name):
        return fixup_resnet(int(match[1]), int(match[2]), num_channels, num_outputs, generator=generator)
    if match := _RELAXED.fullmatch(name):
        alpha, scale = int(match[2]), match[3] or "fixed"
        shape = num_channels, height, width
        return relaxed_network(match[1], alpha, shape, num_outputs, length_scale=scale, generator=generator)
    raise _unknown(name)


def _image_shape(name: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise ShapeError(
            f"Expected images (C, H, W) for the network '{name}', got data of shape {shape}. Use mlp, or name a "
            "function of your own that makes a network for them."
        )
    return shape[0], shape[1], shape[2]


def outline(name: str, image_shape: tuple[int, ...], num_outputs: int) -> nn.Module | None:
    """Network of `build` on the device "meta", whose weights need no memory; None for a user's function."""
    if is_function(name):  # a function may do what "meta" tensors do not support
        return None
    try:
        with torch.device("meta"):
            return build(name, image_shape, num_outputs, 0)
    except (RuntimeError, TypeError, OverflowError) as error:  # numbers of more than 64 bits
        raise ShapeError(
            f"Expected a network whose weights can be counted with 64 bits, got '{name}' on images of shape "
            f"{image_shape}. Choose a narrower network, or smaller images."
        ) from error


def is_function(name: str) -> bool:
    """Whether `build` calls a function of the user for this name."""
    return ":" in name and not name.startswith(("mlp:", "relaxed:")) and not _SIZED.fullmatch(name)


def _unknown(name: str) -> StructureError:
    """The error for a name that no network has, with the one that it may have been meant as."""
    kind = re.split(r"[^a-zA-Z]", name)[0]
    known = kind in _FAMILIES
    advice = f" Write {_FAMILIES[kind]}." if known else meant(kind, _FAMILIES, name.removeprefix(kind))
    variants = f" Its variants are {', '.join(VARIANTS)}." if kind == "relaxed" else ""
    return StructureError(
        f"Expected a network among {', '.join(NAMES[:-1])} or {NAMES[-1]}, got '{name}'.{advice}{variants}"
    )


def _made_by(reference: str, image_shape: tuple[int, ...], num_outputs: int, seed: int) -> nn.Module:
    """Network that a user's function returns, with torch's global generator seeded while it runs."""
    expected = "a function of (image_shape, num_outputs) that makes a network"
    function = function_of(reference, ("image_shape", "num_outputs"), expected, StructureError)
    if isinstance(function, nn.Module):  # it can be called, but with images
        raise StructureError(f"Expected {expected}, got '{reference}', a {type(function).__name__}.")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        network = function(image_shape, num_outputs)
    if not isinstance(network, nn.Module):
        raise StructureError(f"Expected a torch.nn.Module from '{reference}', got a {type(network).__name__}.")
    for name, weight in network.named_parameters():
        if is_lazy(weight):
            raise StructureError(
                f"Expected weights with a shape from '{reference}', got '{name}' without one. Compute the layer's "
                "size from image_shape, or pass an image through the network first."
            )
    return network
