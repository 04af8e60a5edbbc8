r"""The layer whose output is the network's: its Jacobian is :math:`\phi \otimes I` and need not be formed.

For a linear layer at the end, :math:`J_n^\top e_c = \phi_n \otimes e_c`, with :math:`\phi` its input, the mean over
augmentation samples in an averaged network. Whether a layer is one is measured: a random vector must be pulled back
from the network's output to the layer's unchanged. A linear map that keeps a random vector is the identity, with
probability one.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ..curvature.capture import Captured
from ..curvature.jacobian_factors import DirectVJP, OuterFactors
from ..curvature.registry import Curvature
from ..likelihoods import Bernoulli, Categorical, Gaussian, HeteroscedasticGaussian, Likelihood, Poisson
from ..linalg import AbstractPSD, Dense, Kron
from ..noise import Stream, normal


class Probe(NamedTuple):
    """A random vector of the outputs and its gradients at each call."""

    vector: Float[Tensor, "N C"]
    gradients: list[Tensor]


def send_probe(captured: Captured) -> Probe:
    """A random vector with its gradients, the same in every pass."""
    num_data, num_outputs = captured.outputs.shape
    index = torch.arange(num_data, device=captured.outputs.device)
    vector = normal(0, index, (num_outputs,), stream=Stream.PROBE, dtype=torch.float64).to(captured.outputs)
    return Probe(vector, captured.pull(vector))


def is_head(captured: Captured, name: str, probe: Probe) -> bool:
    r"""Whether the Jacobian is :math:`\phi_n \otimes e_c`, or for a bias :math:`e_c` itself, for every datum."""
    if len(captured.factors[name]) != 1:
        return False
    call, factors = captured.factors[name][0]
    if isinstance(factors, DirectVJP):
        found, expected = factors.vjp(probe.gradients[call]), probe.vector
    elif isinstance(factors, OuterFactors) and is_plain(factors):
        found = factors.arrange(probe.gradients[call]) * captured.num_samples
        expected = probe.vector[:, None, None, None].expand(-1, captured.num_samples, -1, -1, -1)
    else:
        return False
    tolerance = 8 * torch.finfo(probe.vector.dtype).eps
    return found.shape == expected.shape and torch.allclose(found, expected, rtol=tolerance, atol=0)


def is_plain(factors: object) -> bool:
    """Whether these are the factors of a whole weight whose rows are outputs, without folded rows."""
    return (
        isinstance(factors, OuterFactors) and not factors.input_rows and factors.block == (0, 1) and factors.fold == 1
    )


def head_features(captured: Captured, name: str) -> Float[Tensor, "N D"]:
    r"""The input :math:`\phi` of the head, the mean over samples."""
    factors = captured.factors[name][0].factors
    assert isinstance(factors, OuterFactors), "a head's weight is an outer product"
    return factors.averaged_inputs()[:, 0, 0]


def head_kron_blocks(
    likelihood: Likelihood, curvature: Curvature, captured: Captured, probes: Iterable[Float[Tensor, "N C"]]
) -> Mapping[str, AbstractPSD]:
    r"""The blocks of KFAC, without pulling C probes where all weights are those of the head.

    There :math:`B = \sum_n \Lambda_n`, which costs N·C² instead of N·C³.

    Arguments:
        probes: The columns of the root of Λ; not read where they are not needed.
    """
    total = _total_curvature(likelihood, captured.outputs)
    probe = send_probe(captured)
    if total is None or not all(is_head(captured, name, probe) for name in captured.weights):
        return curvature.blocks(captured, probes)
    blocks: dict[str, AbstractPSD] = {}
    for name, ((_, factors),) in captured.factors.items():
        if isinstance(factors, DirectVJP):
            blocks[name] = Dense(total)
        else:
            features = head_features(captured, name)
            blocks[name] = Kron(features.T @ features, total, len(features))
    return blocks


def _total_curvature(likelihood: Likelihood, outputs: Float[Tensor, "N C"]) -> Float[Tensor, "C C"] | None:
    r"""The sum :math:`\sum_n \Lambda_n` of the output curvatures, where it has a closed form."""
    if isinstance(likelihood, Categorical) and likelihood.num_classes is None and likelihood.ignore_index is None:
        probabilities = likelihood.mean(outputs)
        centered = torch.diag(probabilities.sum(0)) - probabilities.T @ probabilities
        return centered / likelihood.temperature.to(outputs).square()
    if isinstance(likelihood, Gaussian | HeteroscedasticGaussian | Bernoulli | Poisson):
        # Λ is diagonal, so L 1 holds the roots of its diagonal
        return torch.diag(likelihood.root_product(outputs, torch.ones_like(outputs)).square().sum(0))
    return None
