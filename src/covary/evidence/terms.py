r"""The three terms of the evidence, for any structured curvature."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from ..linalg import Block
from ..linalg.psd import Shift


class EvidenceTerms(NamedTuple):
    r"""The Laplace evidence :math:`\log Z`, higher is better, as the sum of its terms; sums over data.

    Arguments:
        log_likelihood: :math:`\log p(D | \theta, \eta)`.
        log_prior: :math:`\log p(\theta | \delta)`.
        log_volume: :math:`\frac P2 \log 2\pi - \frac12 \log|H + \delta|`, the log-volume of the posterior.
        gradient_norm: :math:`\|g\|`, :math:`g = \nabla_\theta \log p(D, \theta)`: zero at a mode. None where it was not
            asked for.
        mode_correction: :math:`\frac12 g^\top (H + \delta)^{-1} g`, part of the sum where it was asked for.
        num_data: The number of data.
        structures: The structure of each weight's block.
    """

    log_likelihood: Float[Tensor, ""]
    log_prior: Float[Tensor, ""]
    log_volume: Float[Tensor, ""]
    gradient_norm: Float[Tensor, ""] | None
    mode_correction: Float[Tensor, ""] | None
    num_data: int
    structures: Mapping[str, str]

    @property
    def log_evidence(self) -> Float[Tensor, ""]:
        r"""The sum :math:`\log Z` of the terms, with the mode correction where it was asked for."""
        total = self.log_likelihood + self.log_prior + self.log_volume
        return total if self.mode_correction is None else total + self.mode_correction


def log_volume(curvature: Block, shifts: Mapping[str, Shift]) -> Float[Tensor, ""]:
    r"""The log-volume :math:`\frac P2 \log 2\pi - \frac12 \log|H + \delta|` of the posterior."""
    # in double: the constant of a million weights would round away nats that models are compared by
    return 0.5 * (curvature.size * math.log(2 * math.pi) - curvature.logdet(shifts).double())


def conditional_log_evidence(whole: EvidenceTerms, given: EvidenceTerms) -> Float[Tensor, ""]:
    r"""The log evidence :math:`\log Z(D) - \log Z(D_1)` of all data given a first part of them.

    Each evidence is taken at its own weights: train on the part, then on the whole. It asks how well the model predicts
    the rest once it has seen the part, and is the better guide to generalization when models are compared.

    Arguments:
        whole: The evidence of all data D, which include the part.
        given: The evidence of the part :math:`D_1`.
    """
    return whole.log_evidence - given.log_evidence
