r"""The evidence: the probability of the data, with the weights integrated out.

log Z = log-likelihood + log-prior + log-volume, a sum over data, higher is better. A pass over the data
(`covary.curvature`) gives additive statistics, `terms.py` computes the three terms from them, for any structure of the
curvature; `correction.py` corrects what a structure neglects. `invariant.py` computes them in the coordinates of any
chart.
"""

from .correction import Correction
from .effective_parameters import EffectiveParameters, effective_parameters
from .invariant import ChartEvidence, chart_evidence, parametrization_of
from .laplace import conditional_log_evidence, log_evidence
from .terms import EvidenceTerms

__all__ = [
    "ChartEvidence",
    "Correction",
    "EffectiveParameters",
    "EvidenceTerms",
    "chart_evidence",
    "conditional_log_evidence",
    "effective_parameters",
    "log_evidence",
    "parametrization_of",
]
