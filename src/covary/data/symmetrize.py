"""Versions of a data set with a known symmetry, made once."""

import math
from collections.abc import Mapping
from types import MappingProxyType

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import DataError
from ..groups import affine_generators, exponential, warp
from ..noise import Stream, fold, uniform
from .dataset import Dataset

_CHUNK = 2000  # images at a time, to bound the memory of the grids


_AMOUNTS: Mapping[str, str] = MappingProxyType(
    {
        "rotate": "DEGREES above 0, at most 180",
        "translate": "PIXELS above 0, at most the side of the images",
        "scale": "FACTOR above 1",
    }
)


def symmetrize(dataset: Dataset, spec: str, seed: int) -> Dataset:
    """The data set with each image, training and test, under one random transform of its own, in float32.

    A transform is a function of the seed, the part and the position of its image. Images are resampled bilinearly,
    with zeros outside.

    Arguments:
        dataset: The data set to transform.
        spec: "rotate:DEGREES", uniform in ±DEGREES; "translate:PIXELS", uniform in ±PIXELS in x and y, independently;
            "scale:FACTOR", isotropic, log-uniform between 1/FACTOR and FACTOR; or "none".
        seed: Any integer.
    """
    widths = true_widths(spec, dataset.x_train.shape[-2], dataset.x_train.shape[-1])
    if not widths:
        return dataset
    x_train, x_test = (
        _transformed(images, widths, spec.startswith("scale"), fold(seed, part))
        for part, images in enumerate((dataset.x_train, dataset.x_test))
    )
    return dataset._replace(x_train=x_train, x_test=x_test, name=f"{dataset.name}, {spec}")


def true_widths(spec: str, height: int, width: int) -> dict[str, float]:
    """The amounts of a symmetry by the names and in the units of `Affine2d`, empty for "none".

    Arguments:
        spec: As in `symmetrize`.
        height: The number of rows of the images.
        width: The number of columns of the images.
    """
    if spec == "none":
        return {}
    kind, _, text = spec.partition(":")
    amount = _amount(text)
    if kind == "rotate" and 0 < amount <= 180:
        return {"rotation": math.radians(amount)}
    if kind == "translate" and 0 < amount <= min(height, width):
        return {"shift_x": 2 * amount / width, "shift_y": 2 * amount / height}
    if kind == "scale" and 1 < amount < math.inf:
        return {"scale_x": math.log(amount), "scale_y": math.log(amount)}
    if kind in _AMOUNTS:
        raise DataError(
            f"'{spec}' is no symmetry of images of {height}×{width} pixels: expected {kind}:{_AMOUNTS[kind]}."
        )
    kinds = ", ".join(f"{name}:{text.split()[0]}" for name, text in _AMOUNTS.items())
    raise DataError(f"'{spec}' is no symmetry: expected {kinds} or none, for example rotate:90.")


def _amount(text: str) -> float:
    """The number in a spec, NaN where there is none: it fails every comparison."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _transformed(
    images: Float[Tensor, "N C H W"], widths: Mapping[str, float], joint: bool, seed: int
) -> Float[Tensor, "N C H W"]:
    """Images under one transform each, exp(Σ ε_i w_i G_i), ε uniform on [−1, 1) and, if joint, the same for all i."""
    index = torch.arange(len(images))
    shape = (1 if joint else len(widths),)
    noise = uniform(seed, index, shape, stream=Stream.SYMMETRIZE, dtype=torch.float64)
    amounts = (2 * noise - 1) * torch.tensor(list(widths.values()), dtype=torch.float64)
    algebra = torch.einsum("nk,kij->nij", amounts, affine_generators(tuple(widths), dtype=torch.float64))
    matrices = exponential(algebra).to(images).unsqueeze(1)
    parts = zip(images.split(_CHUNK), matrices.split(_CHUNK), strict=True)
    return torch.cat([warp(part, maps)[:, 0] for part, maps in parts])
