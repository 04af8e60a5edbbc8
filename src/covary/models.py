"""A network with its likelihood and its prior, as one value."""

from collections.abc import Iterable
from dataclasses import dataclass
from glob import escape

import torch
from torch import nn

from .errors import StructureError
from .likelihoods import Categorical, Likelihood
from .priors import Prior


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
        object.__setattr__(self, "likelihood", Categorical() if likelihood is None else likelihood)
        object.__setattr__(self, "prior", Prior(network) if prior is None else prior)

    @property
    def weights(self) -> dict[str, nn.Parameter]:
        """The network's weights that the prior covers, by name."""
        return self.prior.weights(self.network)

    @torch.no_grad()
    def restricted(self, names: Iterable[str]) -> "Model":
        """The model whose prior covers only these weights, with the same precisions; itself for all of them.

        Arguments:
            names: Names of weights that the prior covers.

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
        part = Prior(self.network, structure, exclude=[*prior.exclude, *others]).to(prior.log_precision)
        shifts = prior.shifts()
        part.log_precision.copy_(torch.cat([shifts[name].log().flatten() for name in part.names]))
        return Model(self.network, self.likelihood, part)


def as_model(model: object) -> Model:
    """The model itself, or that of a bare network with the default likelihood and prior.

    Arguments:
        model: A `Model` or an `nn.Module`.
    """
    if isinstance(model, Model):
        return model
    if isinstance(model, nn.Module):
        return Model(model)
    raise StructureError(f"Expected a torch.nn.Module or a covary.Model, got {type(model).__name__}.")
