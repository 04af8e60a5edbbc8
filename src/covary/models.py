"""A network with its likelihood and its prior, as one value."""

from collections.abc import Iterable
from dataclasses import dataclass
from glob import escape
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import nn

from ._text import clipped
from .errors import StructureError
from .likelihoods import Categorical, Likelihood
from .priors import Prior, mean_precisions

Role = Literal["integrated", "point", "hyperparameter", "frozen"]


@dataclass(frozen=True, init=False)
class Model:
    r"""A network with its likelihood and the prior of its weights: :math:`p(y|f(x, \theta))` and :math:`p(\theta)`.

    Arguments:
        network: The network, averaged or plain.
        likelihood: The likelihood; `Categorical()` by default.
        prior: The prior, made for this network; `Prior(network)` by default.

    Example:
        >>> import torch, covary
        >>> model = covary.Model(torch.nn.Linear(4, 3))
        >>> type(model.likelihood).__name__, list(model.weights)
        ('Categorical', ['weight', 'bias'])
    """

    network: nn.Module
    likelihood: Likelihood
    prior: Prior

    def __init__(self, network: nn.Module, likelihood: Likelihood | None = None, prior: Prior | None = None) -> None:
        object.__setattr__(self, "network", network)
        object.__setattr__(self, "likelihood", _likelihood(Categorical() if likelihood is None else likelihood))
        object.__setattr__(self, "prior", _prior(Prior(network) if prior is None else prior))

    @property
    def weights(self) -> dict[str, nn.Parameter]:
        """The integrated weights, which the prior covers, by name."""
        return self.prior.weights(self.network)

    @property
    def trained_weights(self) -> dict[str, nn.Parameter]:
        """The weights that are trained on the log joint, by name: the integrated ones, then the point weights."""
        return self.prior.weights(self.network) | self.prior.point_weights(self.network)

    @property
    def roles(self) -> dict[str, Role]:
        """The role of each of the `parameters`, by name."""
        found: dict[str, Role] = {
            name: "hyperparameter" if parameter.requires_grad else "frozen"
            for name, parameter in self.parameters().items()
        }
        return found | dict.fromkeys(self.weights, "integrated") | dict.fromkeys(self.prior.point_names, "point")

    def parameters(self) -> dict[str, nn.Parameter]:
        """All parameters by name: the network's, `likelihood.NAME` and `prior.NAME`."""
        named = dict(self.network.named_parameters())
        named |= {f"likelihood.{name}": parameter for name, parameter in self.likelihood.named_parameters()}
        return named | {f"prior.{name}": parameter for name, parameter in self.prior.named_parameters()}

    @torch.no_grad()
    def restricted(self, names: Iterable[str]) -> "Model":
        """The model that integrates only these weights, with the same precisions; itself for all of them.

        Its other weights are point weights, with the same precisions (the geometric mean of a tensor with several).

        Arguments:
            names: Names of integrated weights.

        Example:
            >>> import torch, covary
            >>> list(covary.Model(torch.nn.Linear(4, 3)).restricted(["bias"]).weights)
            ['bias']
        """
        prior, names = self.prior, set(names)
        if unknown := sorted(names - set(prior.names)):
            raise StructureError(f"Weight '{unknown[0]}' is not covered by the prior. Choose from {list(prior.names)}.")
        if len(names) == len(prior.names):
            return self
        structure = "diagonal" if prior.structure == "diagonal" else "layerwise"
        others = [escape(name) for name in prior.names if name not in names]
        point, hyperparameters = (*prior.patterns["point"], *others), prior.patterns["hyperparameters"]
        precisions = {escape(name): value for name, value in mean_precisions(prior).items()}
        part = Prior(self.network, structure, precisions, point=point, hyperparameters=hyperparameters)
        part = part.to(prior.log_precision)
        shifts = prior.shifts()
        part.log_precision.copy_(torch.cat([shifts[name].log().flatten() for name in part.names]))
        return Model(self.network, self.likelihood, part)


@runtime_checkable
class _HasModel(Protocol):
    @property
    def model(self) -> Model:
        """Network, likelihood and prior."""
        ...


class ModelParts:
    """The network, likelihood and prior of the `model` that an object has, as attributes of the object."""

    @property
    def network(self: _HasModel) -> nn.Module:
        """The network."""
        return self.model.network

    @property
    def likelihood(self: _HasModel) -> Likelihood:
        """The likelihood."""
        return self.model.likelihood

    @property
    def prior(self: _HasModel) -> Prior:
        """The prior."""
        return self.model.prior


def as_model(model: object) -> Model:
    """The model itself, or that of a bare network with the default likelihood and prior."""
    if isinstance(model, Model):
        return model
    if isinstance(model, nn.Module):
        return Model(model)
    raise StructureError(f"Expected a torch.nn.Module or a covary.Model, got {type(model).__name__}.")


def _likelihood(given: object) -> Likelihood:
    if isinstance(given, Likelihood) and isinstance(given, nn.Module):
        return given
    raise StructureError(
        f"Expected a likelihood, such as covary.Gaussian(), got {clipped(given)}. Pass an instance out of "
        "covary.Categorical, Bernoulli, Gaussian, HeteroscedasticGaussian and Poisson, or one of your own."
    )


def _prior(given: object) -> Prior:
    if isinstance(given, Prior):
        return given
    raise StructureError(f"Expected a covary.Prior, got {clipped(given)}. Pass covary.Prior(network, precision=...).")
