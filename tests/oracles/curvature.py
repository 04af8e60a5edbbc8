"""Curvature by brute force: the slow definitions, from torch alone."""

import torch
from torch import Tensor, nn
from torch.func import functional_call, hessian, jacrev


def flat_function(network: nn.Module, x: Tensor, names: list[str] | None = None):
    """The map from the flat vector of weights to the outputs (N, C), and the weights' present value."""
    parameters = dict(network.named_parameters())
    chosen = {n: parameters[n].detach() for n in (names if names is not None else parameters)}

    def function(theta: Tensor) -> Tensor:
        pieces = theta.split([p.numel() for p in chosen.values()])
        state = {n: piece.view_as(p) for (n, p), piece in zip(chosen.items(), pieces, strict=True)}
        return functional_call(network, state, (x,))

    return function, torch.cat([p.flatten() for p in chosen.values()])


def loss_of(kind: str, y: Tensor, scale: float = 1.0):
    """Minus the log-likelihood of outputs (N, C), summed over data, without constants."""
    if kind == "categorical":
        return lambda f: nn.functional.cross_entropy(f / scale, y, reduction="sum")
    if kind == "gaussian":
        return lambda f: 0.5 * ((f - y) / scale).square().sum()
    return lambda f: nn.functional.binary_cross_entropy_with_logits(f, y, reduction="sum")


def ggn(network: nn.Module, x: Tensor, loss, names: list[str] | None = None) -> Tensor:
    """The GGN as the Hessian of the loss of the linearized network, shape (P, P)."""
    function, theta = flat_function(network, x, names)
    outputs, jacobian = function(theta), jacrev(function)(theta)
    return hessian(lambda step: loss(outputs + jacobian @ step))(torch.zeros_like(theta))


def output_hessian(loss_one, outputs: Tensor) -> Tensor:
    """Λ of one datum, shape (C, C)."""
    return hessian(loss_one)(outputs)


def matrix_root(matrix: Tensor) -> Tensor:
    """The symmetric root of a positive semi-definite matrix."""
    values, vectors = torch.linalg.eigh(matrix)
    return (vectors * values.clamp(min=0).sqrt()) @ vectors.T


def row_gradients(layer_outputs: Tensor, tail, roots: Tensor) -> Tensor:
    """The gradients g of every column of Λ^½ at every row of a layer's outputs, (N, C, R, G), datum by datum.

    Arguments:
        layer_outputs: The layer's outputs, (N, R, G).
        tail: From the layer's outputs of one datum (R, G) to its outputs (C,).
        roots: Λ^½ of each datum, shape (N, C, C).
    """
    jacobians = [jacrev(tail)(outputs) for outputs in layer_outputs]
    return torch.stack([torch.einsum("ck,crg->krg", r, j) for r, j in zip(roots, jacobians, strict=True)])


def shared_factors(signals: Tensor, tail, roots: Tensor, approx: str):
    """KFAC factors of a layer y = W a by loops, with count.

    Arguments:
        signals: a, shape (N, R, D).
        tail: From the layer's outputs of one datum (R, G) to its outputs (C,); needs `outputs` of the layer.
        roots: Λ^½ of each datum, shape (N, C, C).
        approx: "expand" or "reduce".
    """
    layer_outputs, function = tail
    num_data, num_shared = signals.shape[:2]
    input_factor, gradient_factor = 0.0, 0.0
    for n in range(num_data):
        jacobian = jacrev(function)(layer_outputs[n])  # (C, R, G)
        g = torch.einsum("ck,crg->krg", roots[n], jacobian)
        if approx == "reduce":
            mean = signals[n].mean(0)
            input_factor = input_factor + torch.outer(mean, mean)
            for k in range(len(g)):
                gradient_factor = gradient_factor + torch.outer(g[k].sum(0), g[k].sum(0))
        else:
            for r in range(num_shared):
                input_factor = input_factor + torch.outer(signals[n, r], signals[n, r])
                for k in range(len(g)):
                    gradient_factor = gradient_factor + torch.outer(g[k, r], g[k, r])
    return input_factor, gradient_factor, num_data * (num_shared if approx == "expand" else 1)
