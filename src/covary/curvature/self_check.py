r"""The self-check of captured passes against autograd, on a few data, before a curvature is computed.

For up to 32 random data and one vector v per datum,

- the output of a datum must be the same when half of the others are missing (all of these data);
- the sum of the products with random factors, :math:`\sum_n c_n \hat J_n^\top v_n`, must be autograd's gradient of
  :math:`\sum_n c_n v_n^\top \hat f_n` (all of these data, each weight);
- the products :math:`\hat J_n^\top v_n` of a datum and a weight must be autograd's gradient of
  :math:`v_n^\top \hat f_n` (two data, each weight).

The first finds networks that mix data or draw noise, the second rules that are wrong, a weight that some data use
outside its module, and rows that a network moves between any two of these data, which no plain sum shows: factors have
either sign and sizes from 1/2 to 3/2, so that two are hardly ever alike and none hides its datum. The third finds
products of a datum that are wrong by little. What no checked datum shows is not found. The difference must be below
1e-6 of the size of both sides in float64, 1e-3 in float32.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .._types import SampleAveraging
from ..errors import UnsupportedLayerError
from ..noise import Stream, normal, permutation, uniform
from .capture import Captured, capture, outputs_without_capture
from .rules.user import layer_of

NUM_SINGLE, NUM_TOGETHER = 2, 32
DOUBLE = torch.float64  # of random numbers, which are then alike in all types
MAX_ENTRIES, MAX_ROWS = 2**26, 256  # of all products, and of the inner batch: fewer data keep the check cheap


@torch.no_grad()
def check_jacobian_factors(network: nn.Module, x: Tensor, weights: Mapping[str, nn.Parameter]) -> None:
    """Raise `UnsupportedLayerError` if a datum depends on others or its Jacobian products are not autograd's.

    Arguments:
        x: Inputs, of which a few random ones are checked.
    """
    num_params = sum(weight.numel() for weight in weights.values())
    num_samples = network.num_samples if isinstance(network, SampleAveraging) else 1
    affordable = min(NUM_TOGETHER, MAX_ENTRIES // max(1, num_params), MAX_ROWS // num_samples)
    index = permutation(0, len(x), stream=Stream.SUBSET)[: max(NUM_SINGLE, affordable)].to(x.device)
    captured = capture(network, x[index], weights, index=index)
    # of another number of data, which shows a layer that is called once for all
    few = index[: min(NUM_SINGLE, max(1, len(index) - 1))]
    alone = capture(network, x[few], weights, index=few)
    outputs = captured.outputs
    for half in (slice(0, None, 2), slice(1, None, 2)):
        own = index[half]
        if len(own):
            _require_independent(outputs_without_capture(network, x[own], weights, index=own), outputs[half])
    probe = normal(0, torch.arange(len(outputs), device=x.device), outputs.shape[1:], stream=Stream.PROBE, dtype=DOUBLE)
    largest = _check_together(captured, probe.to(outputs))
    _check_each(alone, probe[: len(few)].to(outputs), largest)


def _check_together(captured: Captured, probe: Float[Tensor, "N C"]) -> float:
    """Check the sums over all data with random factors; the largest norm of autograd's gradient of a weight."""
    index = torch.arange(len(probe), device=probe.device)
    spread = 2 * uniform(1, index, stream=Stream.PROBE, dtype=DOUBLE) - 1
    factors = (spread + spread.new_tensor(0.5).copysign(spread)).to(probe)
    expected = _gradient(captured, probe * factors[:, None])
    largest = max((float(gradient.norm()) for gradient in expected.values()), default=0.0)
    mixed = [_scaled(gradient, factors) for gradient in captured.pull(probe)]
    for name, theirs in expected.items():
        ours = captured.summed_vjp(name, mixed)
        _require_size(captured, name, len(ours))
        _require_equal(captured, name, (ours, theirs), largest)
    return largest


def _check_each(captured: Captured, probe: Float[Tensor, "N C"], largest: float) -> None:
    """Check the products of each datum, one after the other: those of all are several times the weights."""
    gradients = captured.pull(probe)
    rows = torch.eye(len(probe), dtype=probe.dtype, device=probe.device)
    for number, row in enumerate(rows):
        expected = _gradient(captured, row[:, None] * probe)
        for name, theirs in expected.items():
            (ours,) = captured.vjp(name, gradients, slice(number, number + 1))
            _require_size(captured, name, len(ours))
            _require_equal(captured, name, (ours, theirs), largest)


def _scaled(gradient: Float[Tensor, "NF S *outputs"], factors: Float[Tensor, " N"]) -> Float[Tensor, "NF S *outputs"]:
    """The gradients of each datum times its factor."""
    rows = factors.repeat_interleave(len(gradient) // len(factors))
    return gradient * rows.reshape(-1, *[1] * (gradient.ndim - 1))


def _gradient(captured: Captured, probe: Float[Tensor, "N C"]) -> dict[str, Tensor]:
    """Autograd's gradient of the outputs' product with the probe, by weight and flat."""
    weights = captured.weights
    found = torch.autograd.grad(captured.outputs, list(weights.values()), probe, retain_graph=True, allow_unused=True)
    return {
        name: torch.zeros_like(weight).flatten() if gradient is None else gradient.to_dense().flatten()
        for (name, weight), gradient in zip(weights.items(), found, strict=True)
    }


def _tolerance(dtype: torch.dtype) -> float:
    return min(max(1e-6, 1e4 * torch.finfo(dtype).eps), 0.05)


def _require_independent(half: Float[Tensor, "n C"], together: Float[Tensor, "n C"]) -> None:
    error, size = (half - together).norm(dim=1), half.norm(dim=1) + together.norm(dim=1)
    # outputs that vanish by chance are rounding error of the others
    changed = (error > _tolerance(half.dtype) * size) & (error > torch.finfo(half.dtype).eps ** (2 / 3) * size.max())
    if bool(changed.any()):
        raise UnsupportedLayerError(
            f"Expected outputs of a datum that depend on this datum alone, but those of one datum change by "
            f"{float((error / size)[changed].max()):.0e} of their size when it is passed without half of the others. "
            "The network mixes data (as h + h.mean(0) does, or statistics of the batch) or draws random numbers: "
            "compute means within each datum, and call network.eval() first."
        )


def _require_size(captured: Captured, name: str, size: int) -> None:
    weight = captured.weights[name]
    if size != weight.numel():
        raise UnsupportedLayerError(
            f"Expected products of {weight.numel()} entries for parameter '{name}' of shape {tuple(weight.shape)}, got "
            f"{size} by the rule of {_layer(captured, name)}. Check the last axes of a, g or the product."
        )


def _layer(captured: Captured, name: str) -> str | None:
    """The layer whose user's rule covers a parameter; None for a rule of covary's own."""
    return next((layer for call in captured.factors[name] if (layer := layer_of(call.factors))), None)


def _require_equal(captured: Captured, name: str, pair: tuple[Tensor, Tensor], largest: float) -> None:
    ours, theirs = pair
    # a gradient that vanishes by symmetry (a key bias under softmax) is rounding error of the others, on both sides
    error = (ours - theirs).norm()
    if not error > torch.finfo(ours.dtype).eps ** (2 / 3) * largest:
        return
    size = theirs.norm() + ours.norm()
    if error > _tolerance(ours.dtype) * size:
        share = error / (theirs.norm() if theirs.any() else ours.norm())
        if layer := _layer(captured, name):
            raise UnsupportedLayerError(
                f"Expected the gradient of parameter '{name}' as autograd has it, got one that differs by "
                f"{float(share):.0e} of its size by the rule of {layer}. Correct the formula, check that the "
                "layer uses its parameter nowhere else, or give it an attribute by_autograd = True."
            )
        raise UnsupportedLayerError(
            f"The captured calls explain parameter '{name}' only in part: its gradient differs from autograd's by "
            f"{float(share):.0e} of its size. It is used outside the module that holds it (as in F.linear(x, "
            "layer.weight)), the network moves rows between data around the module (as roll, flip or sort along the "
            "batch do), or its rule is wrong. Keep each datum in its row, or cover the weight by autograd: give the "
            "module that holds it an attribute by_autograd = True."
        )
