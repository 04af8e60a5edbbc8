r"""The Gaussian of the outputs, :math:`\Sigma_f = \sum_\text{blocks} J (H + \delta)^{-1} J^\top`, datum by datum.

Each weight's block is computed in the cheapest of three forms that applies:

- *head*: :math:`J = \phi \otimes I`. With :math:`A = \sum a_i u_i u_i^\top`, :math:`B = V \mathrm{diag}(b) V^\top`,
  :math:`\Sigma_f = V \mathrm{diag}_j\bigl(\sum_i (\phi \cdot u_i)^2 / (a_i b_j / c + \delta)\bigr) V^\top`. The
  variance costs C·(C + D) a datum, the covariance C³, and no vector is pulled back.
- *rows*: the T = S·R rows of a Kronecker-factored weight, :math:`J^\top e_c = \sum_t g_{ct} \otimes a_t`, are
  rotated into the eigenbasis instead of the Jacobian: T·(D² + C·G²) + T²·D·G a datum, and memory without a factor G·D.
- *explicit*: :math:`J^\top e_c` and `solve`: C·P of the weight in memory a datum, C solves in time.

Data go through in chunks, and for the variance outputs too, so that about `ENTRIES` numbers are held at once; a
covariance holds at least the Jacobian of one datum for all outputs.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..batches import as_batches
from ..curvature.capture import Captured, capture
from ..curvature.exact import FULL
from ..curvature.jacobian_factors import OuterFactors
from ..curvature.passes import ROWS_AT_ONCE
from ..linalg import AbstractPSD, Block, Dense, Diagonal, Kron
from ..linalg.eigen import decompose
from ..models import Model
from .head import head_features, is_head, is_plain, send_probe

ENTRIES = 2**24
Form = Literal["head", "rows", "explicit"]


class Linearized(NamedTuple):
    """The linearized network: a model with the curvature and the prior precisions of its weights, and its seed."""

    model: Model
    curvature: Block
    shifts: Mapping[str, Tensor]
    seed: int


class OutputChunk(NamedTuple):
    """The outputs (n, C) of some data, their variances (n, C) or covariances (n, C, C), and the data's positions."""

    mean: Float[Tensor, "n C"]
    spread: Tensor
    position: Int[Tensor, " n"]


class Pair(NamedTuple):
    r"""Vectors whose products are covariances, :math:`\Sigma_f = L R^\top`."""

    left: Float[Tensor, "n c K"]
    right: Float[Tensor, "n c K"]


def variance_chunks(linearized: Linearized, x: Tensor, extra: int = 0) -> Iterator[OutputChunk]:
    """Outputs and variances, chunk by chunk; (n, C, C) is never formed.

    Arguments:
        extra: How many further numbers each output of a datum needs.
    """
    for captured, position, outputs_at_once in _chunks(linearized, x, extra, with_covariance=False):
        forms = _forms(captured, linearized.curvature)
        variance = torch.zeros_like(captured.outputs)
        for name in _of_form(forms, "head"):
            variance += _head_variance(captured, name, *_block(linearized, name))
        others = [name for name, form in forms.items() if form != "head"]
        num_outputs = variance.shape[1] if others else 0
        for start in range(0, num_outputs, outputs_at_once):
            outputs = range(start, min(start + outputs_at_once, num_outputs))
            gradients = _gradients(captured, outputs)
            for name in others:
                pair = _pair(captured, name, forms[name], gradients, linearized)
                variance[:, outputs.start : outputs.stop] += (pair.left * pair.right).sum(-1)
        yield OutputChunk(captured.outputs.detach(), variance, position)


def covariance_chunks(linearized: Linearized, x: Tensor, extra: int = 0) -> Iterator[OutputChunk]:
    """Outputs and covariances, chunk by chunk; arguments as in `variance_chunks`."""
    for captured, position, _ in _chunks(linearized, x, extra, with_covariance=True):
        forms = _forms(captured, linearized.curvature)
        num_data, num_outputs = captured.outputs.shape
        covariance = captured.outputs.new_zeros(num_data, num_outputs, num_outputs)
        for name in _of_form(forms, "head"):
            covariance += _head_covariance(captured, name, *_block(linearized, name))
        others = [name for name, form in forms.items() if form != "head"]
        gradients = _gradients(captured, range(num_outputs)) if others else []
        for name in others:
            pair = _pair(captured, name, forms[name], gradients, linearized)
            covariance += pair.left @ pair.right.mT
        yield OutputChunk(captured.outputs.detach(), (covariance + covariance.mT) / 2, position)


def _chunks(
    linearized: Linearized, x: Tensor, extra: int, *, with_covariance: bool
) -> Iterator[tuple[Captured, Int[Tensor, " n"], int]]:
    """Captured chunks with their positions, and how many outputs to take at once."""
    blocks = linearized.curvature.blocks
    # side by side, where a shift per row would not throw the decomposition away
    decompose({name: block.factors for name, block in blocks.items() if linearized.shifts[name].ndim == 0})
    positions = torch.arange(len(x), device=x.device)
    first = next(iter(as_batches((x, positions), 1).matching(linearized.model.network)))
    one = _capture(linearized, first.x, first.identity)
    num_outputs = one.outputs.shape[1]
    per_output, per_datum = _sizes(one, linearized)
    per_datum += num_outputs * (extra + per_output + (3 * num_outputs if with_covariance else 1))
    rows = max(1, ROWS_AT_ONCE // one.num_samples)
    data_at_once = min(rows, max(1, ENTRIES // per_datum))
    outputs_at_once = max(1, ENTRIES // max(1, per_output * data_at_once))
    del one
    for batch in as_batches((x, positions), data_at_once).matching(linearized.model.network):
        yield _capture(linearized, batch.x, batch.identity), batch.identity, outputs_at_once


def _capture(linearized: Linearized, x: Tensor, index: Tensor) -> Captured:
    model = linearized.model
    return capture(model.network, x, model.weights, index=index, seed=linearized.seed)


def _sizes(one: Captured, linearized: Linearized) -> tuple[int, int]:
    """How many numbers one datum needs for each output, and besides, as the pass of one datum shows."""
    forms = _forms(one, linearized.curvature)
    if all(form == "head" for form in forms.values()):
        return 0, 0
    per_output, per_datum = 0, 0
    for name, form in forms.items():
        block, _ = _block(linearized, name)
        if form == "explicit":
            per_output = max(per_output, 2 * block.size)
        elif form == "rows" and isinstance(block, Kron):
            num_rows, sizes = _num_rows(one, name), block.grad_cov.shape[-1] + block.input_cov.shape[-1]
            per_output = max(per_output, 3 * num_rows * block.grad_cov.shape[-1])
            per_datum = max(per_datum, num_rows**2 * sizes)
    return per_output + sum(shape.numel() for shape in one.shapes), per_datum


def _forms(captured: Captured, curvature: Block) -> dict[str, Form]:
    """The form of each block; a weight that was never called has none."""
    if FULL in curvature.blocks:
        return {FULL: "explicit"}
    probe = send_probe(captured)
    forms: dict[str, Form] = {}
    for name, block in curvature.blocks.items():
        if not captured.factors[name]:
            continue
        if is_head(captured, name, probe) and _head_has_form(captured, name, block):
            forms[name] = "head"
        else:
            forms[name] = "rows" if _rows_are_cheaper(captured, name, block) else "explicit"
    return forms


def _head_has_form(captured: Captured, name: str, block: AbstractPSD) -> bool:
    outer = isinstance(captured.factors[name][0].factors, OuterFactors)
    return isinstance(block, Kron | Diagonal) if outer else isinstance(block, Dense | Diagonal)


def _rows_are_cheaper(captured: Captured, name: str, block: AbstractPSD) -> bool:
    """Whether T² products of rows in the eigenbasis cost less than rotating C Jacobian rows."""
    factors = captured.factors[name]
    if not (isinstance(block, Kron) and block.input_cov.ndim == block.grad_cov.ndim == 2):
        return False
    if len(factors) != 1 or not is_plain(factors[0].factors):
        return False
    sizes = block.grad_cov.shape[-1] + block.input_cov.shape[-1]
    return _num_rows(captured, name) ** 2 <= captured.outputs.shape[1] * sizes


def _num_rows(captured: Captured, name: str) -> int:
    factors = captured.factors[name][0].factors
    assert isinstance(factors, OuterFactors), "only outer products have rows"
    unfolded = factors.unfold(factors.inputs[:1])
    return unfolded.shape[1] * unfolded.shape[2]


def _of_form(forms: Mapping[str, Form], wanted: Form) -> list[str]:
    return [name for name, form in forms.items() if form == wanted]


def _block(linearized: Linearized, name: str) -> tuple[AbstractPSD, Tensor]:
    return linearized.curvature[name], linearized.shifts[name]


def _gradients(captured: Captured, outputs: range) -> list[list[Tensor]]:
    """The gradients of each of these outputs at each call."""
    identity = torch.eye(captured.outputs.shape[1], dtype=captured.outputs.dtype, device=captured.outputs.device)
    return [captured.pull(identity[c].expand_as(captured.outputs)) for c in outputs]


def _pair(
    captured: Captured, name: str, form: Form, gradients: Sequence[Sequence[Tensor]], linearized: Linearized
) -> Pair:
    block, shift = _block(linearized, name)
    if form == "rows":
        assert isinstance(block, Kron), "only Kronecker products are rotated by rows"
        return _rows_pair(captured, name, gradients, block, shift)
    names = captured.weights if name == FULL else (name,)
    everything = slice(0, len(captured.outputs))
    per_output = [torch.cat([captured.vjp(n, g, everything) for n in names], 1) for g in gradients]
    jacobian = torch.stack(per_output, 1)
    return Pair(block.solve(jacobian, shift), jacobian)


def _rows_pair(
    captured: Captured, name: str, gradients: Sequence[Sequence[Tensor]], block: Kron, shift: Tensor
) -> Pair:
    r"""With rows in the eigenbasis, :math:`\Sigma_{cd} = \sum_{tuj} g_{ctj} g_{duj} \sum_i a_{ti} a_{ui} R_{ji}`."""
    call, factors = captured.factors[name][0]
    assert isinstance(factors, OuterFactors), "only outer products have rows"
    a, b = block.factors.spectra(name)
    features = factors.unfold(factors.inputs).flatten(1, 3) @ a.vectors[0]  # (n, T, D)
    rows = torch.stack([factors.arrange(g[call]).flatten(1, 3) for g in gradients], 1) @ b.vectors[0]  # (n, c, T, G)
    products = features[:, :, None] * features[:, None]  # (n, T, T, D)
    mixing = products @ _inverse_values(block, shift).T  # (n, T, T, G)
    left = torch.einsum("nctj,ntuj->ncuj", rows, mixing)
    return Pair(left.flatten(2), rows.flatten(2))


def _inverse_values(block: Kron, shift: Tensor) -> Float[Tensor, "G D"]:
    r"""The numbers :math:`R_{ji} = 1 / (b_j a_i / c + \delta)`."""
    a, b = block.factors.spectra(block.name)
    return 1 / (block.scale * torch.outer(b.values[0], a.values[0]) + shift)


def _head_variance(captured: Captured, name: str, block: AbstractPSD, shift: Tensor) -> Float[Tensor, "n C"]:
    if isinstance(captured.factors[name][0].factors, OuterFactors):
        weights = _head_weights(captured, name, block, shift)
        return weights @ block.factors.spectra(name)[1].vectors[0].square().T if isinstance(block, Kron) else weights
    if isinstance(block, Dense):
        values, vectors = block.factors.spectra(name)[0]
        return (vectors.square() @ (1 / (values + shift))).expand_as(captured.outputs)
    return (1 / (block.diagonal() + shift)).expand_as(captured.outputs)


def _head_covariance(captured: Captured, name: str, block: AbstractPSD, shift: Tensor) -> Float[Tensor, "n C C"]:
    if isinstance(block, Kron):
        vectors = block.factors.spectra(name)[1].vectors[0]
        return (vectors * _head_weights(captured, name, block, shift)[:, None]) @ vectors.T
    if isinstance(block, Dense):
        values, vectors = block.factors.spectra(name)[0]
        return ((vectors / (values + shift)) @ vectors.T).expand(len(captured.outputs), -1, -1)
    return torch.diag_embed(_head_variance(captured, name, block, shift))


def _head_weights(captured: Captured, name: str, block: AbstractPSD, shift: Tensor) -> Float[Tensor, "n C"]:
    r"""The variances :math:`\sum_i (\phi \cdot u_i)^2 R_{ji}` along each eigenvector of B, or of each output."""
    features = head_features(captured, name)
    if isinstance(block, Kron):
        rotated = features @ block.factors.spectra(name)[0].vectors[0]
        return rotated.square() @ _inverse_values(block, shift).T
    return features.square() @ (1 / (block.diagonal() + shift)).view(-1, features.shape[1]).T
