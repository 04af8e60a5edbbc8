"""Every hyperparameter of a model, by name: the network's, the likelihood's, the prior's."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ..distributed import all_sum
from ..errors import StructureError
from ..evidence import EvidenceTerms, Model
from ..priors import Prior, hyperparameters_of


class HyperGradient(dict[str, Tensor]):
    r"""The gradient of :math:`\log Z`, ascent direction, by hyperparameter name, and the evidence's `terms`."""

    def __init__(self, gradients: Mapping[str, Tensor], terms: EvidenceTerms) -> None:
        super().__init__(gradients)
        self.terms = terms


def model_hyperparameters(model: Model) -> dict[str, nn.Parameter]:
    """What the factors depend on: hyperparameters of the network, and of the likelihood as `likelihood.NAME`."""
    own = hyperparameters_of(model.network, model.weights)
    learned = {f"likelihood.{n}": p for n, p in model.likelihood.named_parameters() if p.requires_grad}
    return own | learned


def prior_hyperparameters(prior: Prior) -> dict[str, nn.Parameter]:
    """The prior's, as `prior.NAME`."""
    return {f"prior.{name}": p for name, p in prior.named_parameters() if p.requires_grad}


def slopes(value: Tensor, parameters: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """The derivatives of a number, zero where it does not depend on a parameter; `.grad` is left alone."""
    if not parameters or not value.requires_grad:
        return {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
    found = torch.autograd.grad(value, list(parameters.values()), allow_unused=True)
    return {
        name: torch.zeros_like(parameter) if slope is None else slope
        for (name, parameter), slope in zip(parameters.items(), found, strict=True)
    }


def summed(gradients: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The gradients of all processes together."""
    return {name: all_sum(gradient) for name, gradient in gradients.items()}


def detached(terms: EvidenceTerms) -> EvidenceTerms:
    """The same terms as plain numbers."""
    return terms._replace(
        log_likelihood=terms.log_likelihood.detach(),
        log_prior=terms.log_prior.detach(),
        log_volume=terms.log_volume.detach(),
    )


def refuse_kernel(curvature: str, name: str) -> None:
    """Nothing, or the way to the gradient of the kernel's evidence."""
    if curvature == "kernel":
        raise StructureError(
            f"hypergrad.{name} takes curvature 'kron', 'kron-traced', 'full' or 'diag'; for 'kernel' use "
            "hypergrad.stochastic, which differentiates the kernel of a minibatch."
        )
