"""Every hyperparameter of a model, by name: the network's, the likelihood's, the prior's."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ..distributed import all_sum_each
from ..evidence import EvidenceTerms
from ..models import Model
from ..priors import Prior, hyperparameters_of


class HyperGradient(dict[str, Tensor]):
    r"""The gradient of :math:`\log Z`, ascent direction, by hyperparameter name, and the evidence's `terms`.

    Example:
        >>> import torch
        >>> from covary import hypergrad
        >>> gradient = hypergrad.direct(torch.nn.Linear(4, 3), (torch.zeros(8, 4), torch.arange(8) % 3))
        >>> gradient["prior.log_precision"].shape, gradient.terms.num_data
        (torch.Size([2]), 8)
    """

    def __init__(self, gradients: Mapping[str, Tensor], terms: EvidenceTerms) -> None:
        super().__init__(gradients)
        self.terms = terms


def model_hyperparameters(model: Model) -> dict[str, nn.Parameter]:
    """What the curvature depends on: hyperparameters of the network, and of the likelihood as `likelihood.NAME`."""
    own = hyperparameters_of(model.network, model.trained_weights)
    learned = {f"likelihood.{n}": p for n, p in model.likelihood.named_parameters() if p.requires_grad}
    return own | learned


def prior_hyperparameters(prior: Prior) -> dict[str, nn.Parameter]:
    """The prior's, as `prior.NAME`."""
    return {f"prior.{name}": p for name, p in prior.named_parameters() if p.requires_grad}


def gradients(value: Tensor, parameters: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """The derivatives of a number, zero where it does not depend on a parameter; `.grad` stays as it is."""
    if not parameters or not value.requires_grad:
        return {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
    found = torch.autograd.grad(value, list(parameters.values()), allow_unused=True)
    return {
        name: torch.zeros_like(parameter) if gradient is None else gradient
        for (name, parameter), gradient in zip(parameters.items(), found, strict=True)
    }


def summed(gradients: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The gradients of all processes together."""
    return dict(zip(gradients, all_sum_each(list(gradients.values())), strict=True))


def detached(terms: EvidenceTerms) -> EvidenceTerms:
    """The same terms as plain numbers."""
    return terms._replace(
        log_likelihood=terms.log_likelihood.detach(),
        log_prior=terms.log_prior.detach(),
        log_volume=terms.log_volume.detach(),
    )
