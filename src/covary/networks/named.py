"""Networks by name, for images of a given shape."""

import re

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from ..errors import ShapeError, StructureError
from ..references import function_of
from .convnet import cnn, lenet
from .mlp import mlp
from .relaxed import VARIANTS, relaxed_network
from .resnet import fixup_resnet

NAMES = (
    *("mlp", "mlp:WIDTH[-WIDTH…]", "cnn", "lenet", "resnet-DEPTH-WIDTH"),
    *("relaxed:VARIANT:ALPHA[:LENGTH_SCALE]", "package.module:function"),
)

_MLP = re.compile(r"mlp(?::(\d+(?:-\d+)*))?")
_RESNET = re.compile(r"resnet-(\d+)-(\d+)")
_RELAXED = re.compile(r"relaxed:([^:]*):(\d+)(?::([^:]*))?")
_SQUARE = {"cnn": cnn, "lenet": lenet}


def build(name: str, image_shape: tuple[int, int, int], num_outputs: int, seed: int) -> nn.Module:
    """The network called `name`, (N, c, H, W) -> (N, C), with initial weights from the seed.

    Arguments:
        name: "mlp" (one hidden layer of 1000, tanh), "mlp:300" or "mlp:300-100" (its hidden widths), "cnn", "lenet",
            "resnet-8-16" (Fixup, depth and width), "relaxed:f-fc+conv:4" (a variant and width α of
            `relaxed_network`; "relaxed:s-fc:4:weight" makes length-scales weights), or "package.module:function",
            called with (image_shape, num_outputs).
        image_shape: The channels c, the rows H and the columns W of an image.
        num_outputs: The number of outputs C.
        seed: The seed of the initial weights, of a function's too.
    """
    num_channels, height, width = image_shape
    generator = torch.Generator().manual_seed(seed)
    if match := _MLP.fullmatch(name):
        hidden = [int(number) for number in (match[1] or "1000").split("-")]
        if 0 in hidden:
            raise ShapeError(f"'{name}' has a hidden layer without units: expected widths of 1 or more.")
        return mlp(num_channels * height * width, hidden, num_outputs, generator=generator)
    if name in _SQUARE:
        if height != width:
            raise ShapeError(f"{name} takes square images; {height}×{width} came. Pad them, or use mlp.")
        return _SQUARE[name](num_channels, height, num_outputs, generator=generator)
    if match := _RESNET.fullmatch(name):
        return fixup_resnet(int(match[1]), int(match[2]), num_channels, num_outputs, generator=generator)
    if match := _RELAXED.fullmatch(name):
        alpha, scale = int(match[2]), match[3] or "fixed"
        return relaxed_network(match[1], alpha, image_shape, num_outputs, length_scale=scale, generator=generator)
    if _is_reference(name):
        return _made_by(name, image_shape, num_outputs, seed)
    raise StructureError(
        f"No network is called '{name}': expected {', '.join(NAMES[:-1])} or {NAMES[-1]}. "
        f"The variants of a relaxed network are {', '.join(VARIANTS)}."
    )


def outline(name: str, image_shape: tuple[int, int, int], num_outputs: int) -> nn.Module | None:
    """The network called `name` without its numbers, on the device "meta"; None for a user's function.

    It takes no memory, however large the network is: to count before there is anything to count.

    Arguments:
        name: As for `build`.
        image_shape: The channels c, the rows H and the columns W of an image.
        num_outputs: The number of outputs C.
    """
    if _is_reference(name):  # which may do anything, also what no "meta" tensor can
        return None
    try:
        with torch.device("meta"):
            return build(name, image_shape, num_outputs, 0)
    except (RuntimeError, TypeError, OverflowError) as error:  # numbers of more than 64 bits
        raise ShapeError(
            f"'{name}' on images of shape {image_shape} is larger than can be counted. Choose a narrower network, or "
            "smaller images."
        ) from error


def _is_reference(name: str) -> bool:
    return ":" in name and not name.startswith(("mlp:", "relaxed:"))


def _made_by(reference: str, image_shape: tuple[int, int, int], num_outputs: int, seed: int) -> nn.Module:
    """The network that a user's function makes; what it draws from torch's global state begins at the seed."""
    expected = "a function of (image_shape, num_outputs) that makes a network"
    function = function_of(reference, ("image_shape", "num_outputs"), expected, StructureError)
    if isinstance(function, nn.Module):  # which can be called, but with images
        raise StructureError(f"{reference} is a {type(function).__name__}: expected {expected}.")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        network = function(image_shape, num_outputs)
    if not isinstance(network, nn.Module):
        raise StructureError(f"{reference} returned a {type(network).__name__}: expected a torch.nn.Module.")
    for name, weight in network.named_parameters():
        if is_lazy(weight):
            raise StructureError(
                f"{reference} returned a network whose '{name}' has no shape yet: expected weights that can be "
                "counted. Compute the layer's size from image_shape, or pass an image through the network first."
            )
    return network
