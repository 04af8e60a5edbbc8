r"""How probable are the data, weights integrated out?

log Z = log-likelihood + log-prior + log-volume, a sum over data, higher is better. `passes.py` reads the data once and
leaves additive statistics, `terms.py` turns them into the three terms, for whatever structure the curvature has.
`invariant.py` computes them in the coordinates of any chart.
"""

from .effective_parameters import EffectiveParameters, effective_of_factors, effective_parameters, effective_per_weight
from .invariant import ChartEvidence, chart_evidence, parametrization_of
from .laplace import evidence_terms, log_evidence
from .passes import Factors, Model, factor_pass
from .terms import EvidenceTerms, conditional_log_evidence

__all__ = [
    "ChartEvidence",
    "EffectiveParameters",
    "EvidenceTerms",
    "Factors",
    "Model",
    "chart_evidence",
    "conditional_log_evidence",
    "effective_of_factors",
    "effective_parameters",
    "effective_per_weight",
    "evidence_terms",
    "factor_pass",
    "log_evidence",
    "parametrization_of",
]
