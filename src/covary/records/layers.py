"""What each relaxed layer of a run became, as records."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerPath:
    """What one path of a relaxed layer became.

    Arguments:
        name: The path, such as "conv".
        num_params: Its number of weights P.
        precisions: The prior precision of each of its tensors (the geometric mean of a tensor that has many).
        weight_norm: The norm of all its weights.
        effective: Its effective number of parameters γ, between 0 and P.
        normalized: γ / P.
        relative: The same, divided by the sum over the layer's paths.
        inactive: Whether the normalized number of each of its tensors, biases included, is below the threshold in units
            of that sum; then its relative number is, too.

    Example:
        >>> from covary.records import LayerPath
        >>> LayerPath("conv", 20, {"weight": 11.0}, 1.2, 18.0, 0.9, 0.99, False).relative
        0.99
    """

    name: str
    num_params: int
    precisions: dict[str, float]
    weight_norm: float
    effective: float
    normalized: float
    relative: float
    inactive: bool


@dataclass(frozen=True)
class Layer:
    """What one relaxed layer became.

    Arguments:
        name: The layer, by its name in the network.
        learned: The path with the largest relative share: the type that the layer has learned to be.
        paths: Its paths.
        shift_error: The norm of the change of its outputs when its inputs are shifted instead, relative to the outputs;
            None where no shift of its inputs is one of its outputs.
        turn_error: The same of the elements of its group; None where it has none.

    Example:
        >>> from covary.records import Layer, LayerPath
        >>> path = LayerPath("conv", 20, {"weight": 11.0}, 1.2, 18.0, 0.9, 1.0, False)
        >>> Layer("blocks.0", "conv", [path], 0.0, None).learned
        'conv'
    """

    name: str
    learned: str
    paths: list[LayerPath]
    shift_error: float | None
    turn_error: float | None
