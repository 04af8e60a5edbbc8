r"""The equivariance error of a layer on the features that it receives.

.. math:: \epsilon^2 = \frac{\sum_t \sum_n \| L(t\, x_n) - t\, L(x_n) \|^2}{\sum_t \sum_n \| L(x_n) \|^2}

over shifts t of the feature maps, circular and by whole pixels, or over the elements t of the layer's group.
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..batches import IndexedBatch, outputs_of
from ..groups import Group, permute_slices, turn_slices
from ..layers import Relaxed
from ..noise import Stream, uniform

NUM_SHIFTS = 4


class EquivarianceErrors(NamedTuple):
    """Relative errors ε ≥ 0 of one layer under shifts and under its group.

    None without a group, or where a shift of the inputs is not one of the outputs: features have one position, or a
    side of the inputs is no multiple of that of the outputs.

    Example:
        >>> from covary.layer_summary import EquivarianceErrors
        >>> EquivarianceErrors(shift=0.25, turn=None).shift
        0.25
    """

    shift: float | None
    turn: float | None


@torch.no_grad()
def equivariance_errors(
    layer: Relaxed, features: Float[Tensor, "N _ H W"], *, seed: int = 0, num_shifts: int = NUM_SHIFTS
) -> EquivarianceErrors:
    """The errors ε of a layer under random shifts of its inputs, and under its group where it has one.

    A pool that halves the grid turns a shift by t into one by t/2, rounded up or down by the phase it took: of these
    the one that fits an example best counts for it.

    Arguments:
        layer: The layer.
        features: Its inputs, such as `layer_inputs` finds.
        seed: The seed of the shifts.
        num_shifts: How many shifts are drawn.

    Example:
        >>> import torch
        >>> from covary.layer_summary import equivariance_errors
        >>> from covary.layers import Conv, Relaxed
        >>> errors = equivariance_errors(Relaxed({"conv": Conv(1, 2)}), torch.randn(3, 1, 6, 6))
        >>> errors.shift < 1e-5, errors.turn
        (True, None)
    """
    group, lifts = layer.group, layer.lifts
    outputs: Tensor = layer(features)
    shifted = (
        (_shift(features, None if lifts else group, by), [_shift(outputs, group, coarse) for coarse in induced])
        for by, induced in _shifts(features.shape[-2:], outputs.shape[-2:], seed, num_shifts)
    )
    elements = () if group is None else range(1, group.size)
    turned = ((_turn(features, group, t, lifts), [_turn(outputs, group, t, False)]) for t in elements)
    return EquivarianceErrors(_error(layer, shifted), _error(layer, turned))


@torch.no_grad()
def layer_inputs(network: nn.Module, batch: IndexedBatch, layers: dict[str, Relaxed], seed: int) -> dict[str, Tensor]:
    """The inputs of each of these layers for a batch, of each datum's first augmentation sample, by name."""
    seen: dict[str, Tensor] = {}
    hooks = [layer.register_forward_pre_hook(_noting(seen, name)) for name, layer in layers.items()]
    try:
        outputs_of(network, batch, seed)
    finally:
        for hook in hooks:
            hook.remove()
    # rows of an averaged network are datum by datum, samples fastest
    return {name: rows[:: len(rows) // len(batch.x)] for name, rows in seen.items()}


def _noting(seen: dict[str, Tensor], name: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
    return lambda _module, inputs: seen.__setitem__(name, inputs[0])


def _shifts(
    fine: torch.Size, coarse: torch.Size, seed: int, number: int
) -> Iterator[tuple[tuple[int, int], list[tuple[int, int]]]]:
    """Random nonzero shifts of a grid, with the shifts of the pooled grid that each can become.

    None where the pooled grid does not divide the other: no shift of it corresponds to one by a pixel.
    """
    height, width = fine
    if height % coarse[0] or width % coarse[1]:
        return
    strides = (height // coarse[0], width // coarse[1])
    numbers = torch.arange(number if height * width > 1 else 0, device="cpu")
    draws = uniform(seed, numbers, stream=Stream.PROBE, dtype=torch.float64)
    for place in (1 + draws * (height * width - 1)).long().tolist():
        by = divmod(place, width)
        either = ([part // stride, -(-part // stride)] for part, stride in zip(by, strides, strict=True))
        yield by, sorted(set(product(*either)))


def _shift(features: Tensor, group: Group | None, by: tuple[int, int]) -> Tensor:
    """Features under a shift of the image; over a group all slices move equally in the fixed frame only."""
    if group is None:
        return features.roll(by, (-2, -1))
    fixed = turn_slices(features, group, range(group.size)).roll(by, (-2, -1))
    return turn_slices(fixed, group, group.inverses)


def _turn(features: Tensor, group: Group | None, element: int, plain: bool) -> Tensor:
    """Plain images, or features over a group, under one of its elements."""
    assert group is not None, "elements belong to a group"
    return group.act(features, element) if plain else permute_slices(features, group, element)


def _error(layer: Relaxed, cases: Iterator[tuple[Tensor, list[Tensor]]]) -> float | None:
    """The relative error over pairs of moved inputs and possible outputs; None without any pair."""
    squares, sizes = [], 0.0
    for moved, expected in cases:
        found: Tensor = layer(moved)
        differences = torch.stack([(found - each).double().square().flatten(1).sum(1) for each in expected])
        squares.append(float(differences.amin(0).sum()))
        sizes += float(expected[0].double().square().sum())
    if not squares:
        return None
    return (sum(squares) / sizes) ** 0.5 if sizes else 0.0
