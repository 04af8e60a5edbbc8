"""What all hyper steps share: network and curvature as the settings choose them, steps upwards, terms as a record."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

from torch import Tensor, nn
from torch.optim import Optimizer

from .._types import Probes, Resampling
from ..config import FitConfig
from ..curvature.registry import KRON, Curvature, CurvatureName
from ..errors import NumericalError
from ..evidence import EvidenceTerms
from ..hypergrad import HyperGradient
from ..models import Model
from ..records import Evidence
from .hyper_state import HyperState
from .schedule import HYPER, seed_for


def climb(parameters: Mapping[str, nn.Parameter], optimizer: Optimizer, gradient: Mapping[str, Tensor]) -> None:
    """Take one step upwards along the gradients that are given; the other parameters stay."""
    optimizer.zero_grad()
    check_finite(gradient)
    for name, entry in gradient.items():
        parameters[name].grad = -entry
    optimizer.step()
    optimizer.zero_grad()


def check_finite(gradient: Mapping[str, Tensor]) -> None:
    """Raise `NumericalError` for a gradient that is not finite."""
    for name, entry in gradient.items():
        if not bool(entry.isfinite().all()):
            raise NumericalError(
                f"The gradient of '{name}' is not finite. Lower its learning rate or that of the weights, or use "
                "float64."
            )


def climb_prior(
    state: HyperState, optimizer: Optimizer, gradient_of: Callable[[], HyperGradient], config: FitConfig
) -> EvidenceTerms:
    """Steps on the prior for one pass over the data; the terms are those before the first of them."""
    first: EvidenceTerms | None = None
    for _ in range(config.hyper.num_prior_steps):
        gradient = gradient_of()
        first = gradient.terms if first is None else first
        climb(state.hyperparameters(), optimizer, gradient)
    assert first is not None, "there is at least one step on the prior"
    return first


def hyper_model(state: HyperState, config: FitConfig) -> Model:
    """The model with the network of hyper steps."""
    return replace(state.model, network=hyper_network(state.network, config))


def hyper_network(network: nn.Module, config: FitConfig) -> nn.Module:
    """The network with the number of samples that hyper steps take; it shares all its parameters."""
    return _resampled(network, config.hyper.num_samples, config)


def evaluated_network(network: nn.Module, config: FitConfig) -> nn.Module:
    """The network with the number of samples that evaluations take; it shares all its parameters."""
    return _resampled(network, config.evaluation.num_samples, config)


def evaluated_curvature(config: FitConfig) -> Curvature:
    """The choice of curvature of evaluations; the settings have checked the names, and are filled in."""
    assert config.evaluation.probes != "auto", "settings are filled in when a fit starts"
    return chosen_curvature(config, config.evaluation.probes)


def chosen_curvature(config: FitConfig, probes: Probes) -> Curvature:
    """The choice of curvature of the settings, with these probes."""
    return Curvature(cast(CurvatureName, config.curvature), probes, max_factor_size=config.max_factor_size)


def _resampled(network: nn.Module, num_samples: int | None, config: FitConfig) -> nn.Module:
    """The network with another number of samples, in sets as hyper steps have them where that divides it."""
    if not isinstance(network, Resampling):
        return network
    number = num_samples or cast(int, getattr(network, "num_samples", 1))
    # independent sets are used for Kronecker factors alone
    num_sets = config.hyper.num_sets if config.curvature in KRON else 1
    return network.with_samples(number, num_sets if number % num_sets == 0 else 1)


def evidence_record(terms: EvidenceTerms, curvature: str, probes: int | str) -> Evidence:
    """The terms as numbers."""
    return Evidence(
        log_likelihood=float(terms.log_likelihood),
        log_prior=float(terms.log_prior),
        log_volume=float(terms.log_volume),
        log_evidence=float(terms.log_evidence),
        num_data=terms.num_data,
        curvature=curvature,
        probes=str(probes),
        gradient_norm=_finite(terms.gradient_norm),
        corrected_by=None if terms.standard_error is None else "lanczos" if float(terms.standard_error) else "exact",
        standard_error=None if terms.standard_error is None else float(terms.standard_error),
        mode_distance=_finite(terms.mode_distance),
    )


def _finite(value: Tensor | None) -> float | None:
    """A number that is not part of the evidence; None where it has overflowed, for no record holds it then."""
    return None if value is None or not bool(value.isfinite()) else float(value)


def hyper_seed(state: HyperState, config: FitConfig) -> int:
    """The seed of the hyper step that is next."""
    return seed_for(config.seed, HYPER, state.learning.num_steps)
