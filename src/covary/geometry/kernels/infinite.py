r"""Kernels of infinitely wide, fully connected networks, in closed form.

With weights of variance :math:`\sigma_w^2 / \text{fan-in}` and biases of variance :math:`\sigma_b^2`, all normal, the
outputs become a Gaussian process as the hidden layers widen. Its covariance, the NNGP kernel K, and the tangent
kernel Θ of the NTK parametrization follow layer by layer from two moments of the activation φ,

.. math:: K_0 = \Theta_0 = \sigma_w^2 \tfrac{x \cdot x'}{D} + \sigma_b^2, \qquad
    K_{l+1} = \sigma_w^2 E[\phi(u)\phi(v)] + \sigma_b^2, \qquad
    \Theta_{l+1} = K_{l+1} + \sigma_w^2 E[\phi'(u)\phi'(v)]\, \Theta_l,

for (u, v) Gaussian with mean 0 and covariance :math:`K_l`: arc-cosine kernels for ReLU (Cho and Saul 2009), arcsine
ones for erf (Williams 1997). Kernels of one output, (N, M); different outputs are independent.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ...errors import DataError, ShapeError, StructureError


class Moments(NamedTuple):
    r"""The moments :math:`E[\phi(u)\phi(v)]` and :math:`E[\phi'(u)\phi'(v)]` of a Gaussian pair (u, v)."""

    product: Tensor
    derivative: Tensor


class Layer(NamedTuple):
    r"""A layer: :math:`E[\phi\phi]` and :math:`E[\phi'\phi']` of the units that it reads, and its covariance K."""

    product: Float[Tensor, "N M"]
    derivative: Float[Tensor, "N M"]
    covariance: Float[Tensor, "N M"]


@dataclass(frozen=True)
class InfiniteNetwork:
    r"""A fully connected network whose hidden layers are infinitely wide, with its prior.

    Arguments:
        num_hidden: The number of hidden layers; 0 is a linear model.
        activation: The activation after each, "relu" or "erf".
        weight_variance: :math:`\sigma_w^2 > 0`, the prior variance of a weight times its layer's fan-in; 2 keeps the
            scale of ReLU layers.
        bias_variance: :math:`\sigma_b^2 \ge 0`, the prior variance of a bias; 0 means that there are no biases.

    Example:
        >>> InfiniteNetwork(num_hidden=1, activation="erf").has_bias
        False
    """

    num_hidden: int
    activation: str = "relu"
    weight_variance: float | int | Tensor = 2.0
    bias_variance: float | int | Tensor = 0.0

    def __post_init__(self) -> None:
        if self.num_hidden < 0:
            raise StructureError(f"Expected `num_hidden` of 0 or more, got {self.num_hidden}.")
        if self.activation not in _MOMENTS:
            raise StructureError(
                f"Expected an activation with a closed-form kernel ({', '.join(_MOMENTS)}), got '{self.activation}'."
            )
        weight_variance, bias_variance = _number(self.weight_variance), _number(self.bias_variance)
        if not (weight_variance > 0 and bias_variance >= 0 and math.isfinite(weight_variance + bias_variance)):
            raise DataError(
                f"Expected finite variances, of weights above 0 and of biases at least 0, got {weight_variance:g} and "
                f"{bias_variance:g}."
            )

    @property
    def has_bias(self) -> bool:
        """Whether the layers have biases."""
        return _number(self.bias_variance) > 0


def nngp(
    network: InfiniteNetwork, x: Float[Tensor, "N ..."], other: Float[Tensor, "M ..."] | None = None
) -> Float[Tensor, "N M"]:
    """The NNGP kernel K: the prior covariance of an output at two inputs.

    Differentiable in the inputs and the variances. For the kernel of points with themselves pass `other=None`: given
    twice, rounding of their cosine by 1e-16 is an error of 1e-8 in their angle.

    Arguments:
        network: The architecture and the prior.
        x: Inputs, flattened to D features each.
        other: The inputs of the columns; those of the rows by default.

    Example:
        >>> nngp(InfiniteNetwork(1), torch.eye(2, dtype=torch.float64))
        tensor([[1.0000, 0.3183],
                [0.3183, 1.0000]], dtype=torch.float64)
    """
    *_, outputs = _recursion(network, x, other)
    return outputs.covariance


def ntk(
    network: InfiniteNetwork, x: Float[Tensor, "N ..."], other: Float[Tensor, "M ..."] | None = None
) -> Float[Tensor, "N M"]:
    r"""The neural tangent kernel Θ: the limit of :math:`J J^\top` in the NTK parametrization.

    There, weights are :math:`\sigma_w / \sqrt{\text{fan-in}}` times standard normal parameters, and derivatives are
    with respect to those. For ReLU it has a kink where two inputs are parallel. Arguments as in `nngp`.

    Example:
        >>> ntk(InfiniteNetwork(1), torch.eye(2, dtype=torch.float64))
        tensor([[2.0000, 0.3183],
                [0.3183, 2.0000]], dtype=torch.float64)
    """
    first, *hidden = _recursion(network, x, other)
    kernel = first.covariance
    for layer in hidden:
        kernel = layer.covariance + network.weight_variance * layer.derivative * kernel
    return kernel


def standard_ntk(
    network: InfiniteNetwork, width: int, x: Float[Tensor, "N ..."], other: Float[Tensor, "M ..."] | None = None
) -> Float[Tensor, "N M"]:
    r"""The mean of :math:`J J^\top` in the standard parametrization, with hidden layers of that width h.

    A layer's weights add their fan-in times the features' covariance, so it grows like h and has no limit:

    .. math:: \Theta_0 = x \cdot x' + 1, \qquad
        \Theta_{l+1} = h\,E[\phi(u)\phi(v)] + 1 + \sigma_w^2 E[\phi'(u)\phi'(v)]\, \Theta_l,

    without the 1 where there are no biases. Exact for one hidden layer or none, to leading order in h for more.
    Other arguments as in `nngp`.

    Example:
        >>> standard_ntk(InfiniteNetwork(1), 100, torch.eye(2, dtype=torch.float64)).diagonal()
        tensor([51., 51.], dtype=torch.float64)
    """
    if width < 1:
        raise StructureError(f"Expected a width of at least 1, got {width}.")
    first, *hidden = _recursion(network, x, other)
    bias = float(network.has_bias)
    kernel = x[0].numel() * first.product + bias
    for layer in hidden:
        kernel = width * layer.product + bias + network.weight_variance * layer.derivative * kernel
    return kernel


def _recursion(network: InfiniteNetwork, x: Tensor, other: Tensor | None) -> Iterator[Layer]:
    """The layers from the first, which reads the inputs, to the one of the outputs."""
    rows = _features(x)
    columns = rows if other is None else _features(other)
    if rows.shape[1] != columns.shape[1]:
        raise ShapeError(
            f"Expected the same number of features in both sets of inputs, got {rows.shape[1]} and {columns.shape[1]}."
        )
    products = rows @ columns.mT / rows.shape[1]
    if other is None:
        # from the same numbers, so that the cosine of a point with itself is exactly 1
        left = right = products.diagonal()
    else:
        left, right = rows.square().mean(1), columns.square().mean(1)
    return _layers(network, products, left[:, None], right[None])


def _layers(network: InfiniteNetwork, product: Tensor, left: Tensor, right: Tensor) -> Iterator[Layer]:
    """The layers from the inputs' products: of rows with columns, and of each row and column with itself."""
    moments, weight, bias = _MOMENTS[network.activation], network.weight_variance, network.bias_variance
    covariance = weight * product + bias
    yield Layer(product, torch.ones_like(product), covariance)
    for _ in range(network.num_hidden):
        left, right = weight * left + bias, weight * right + bias
        product, derivative = moments(covariance, left, right)
        left, right = moments(left, left, left).product, moments(right, right, right).product
        covariance = weight * product + bias
        yield Layer(product, derivative, covariance)


def _number(value: float | int | Tensor) -> float:
    return float(value.detach() if isinstance(value, Tensor) else value)


def _features(x: Tensor) -> Float[Tensor, "N D"]:
    if x.ndim < 2 or x[0].numel() == 0:
        raise ShapeError(f"Expected inputs of shape (N, ...) with at least one feature, got {tuple(x.shape)}.")
    if not (x.is_floating_point() and bool(x.isfinite().all())):
        raise DataError(f"Expected finite floating-point inputs, got {x.dtype}, or NaN or infinity in them.")
    return x.flatten(1)


def _relu_moments(covariance: Tensor, left: Tensor, right: Tensor) -> Moments:
    r"""The moments :math:`\sqrt{qq'}(\sin t + (\pi-t)\cos t) / 2\pi` and :math:`(\pi-t) / 2\pi`, t the angle."""
    squared = left * right
    nonzero = squared > 0
    size = torch.where(nonzero, squared, 1.0).sqrt()
    ratio = covariance / size
    # rounding may pass ±1; clamp the value and keep the derivative
    cosine = ratio - (ratio - ratio.clamp(-1.0, 1.0)).detach()
    squared_sine = (1 - cosine) * (1 + cosine)
    # parallel pairs apart: the root has no derivative at 0, while the first moment has one, and it is that of cos θ
    oblique = squared_sine > 0
    root = torch.where(oblique, squared_sine, 1.0).sqrt()
    straight = math.pi * (cosine <= 0).to(cosine)
    sine, angle = torch.where(oblique, root, 0.0), torch.where(oblique, torch.atan2(root, cosine), straight)
    product = size * nonzero / (2 * math.pi) * (sine + (math.pi - angle) * cosine)
    return Moments(product, (math.pi - angle) / (2 * math.pi))


def _erf_moments(covariance: Tensor, left: Tensor, right: Tensor) -> Moments:
    r"""The moments :math:`\frac2\pi \arcsin(2k/\sqrt s)` and :math:`\frac4\pi/\sqrt{s - 4k^2}`, s = (1+2q)(1+2q')."""
    squared = (1 + 2 * left) * (1 + 2 * right)
    product = 2 / math.pi * torch.asin(2 * covariance * squared.rsqrt())
    return Moments(product, 4 / math.pi * (squared - 4 * covariance.square()).rsqrt())


_MOMENTS: Mapping[str, Callable[[Tensor, Tensor, Tensor], Moments]] = {"relu": _relu_moments, "erf": _erf_moments}
