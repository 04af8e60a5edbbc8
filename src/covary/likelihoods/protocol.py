"""The members of a likelihood; any module that has them is one, without a base class."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn


@runtime_checkable
class Likelihood(Protocol):
    """The interface of a likelihood p(y | f); its learnable parameters are hyperparameters.

    Example:
        >>> from covary import Categorical
        >>> from covary.likelihoods import Likelihood
        >>> isinstance(Categorical(), Likelihood)
        True
    """

    def check(self, outputs: Tensor, targets: Tensor) -> None:
        """Raise `ShapeError` or `DataError` if outputs and targets do not match; called once per batch of a user."""
        ...

    def log_prob(self, outputs: Float[Tensor, "N C ..."], targets: Tensor) -> Float[Tensor, ""]:
        """Log-likelihood Σ_n log p(y_n | f_n), summed over data."""
        ...

    def log_prob_each(self, outputs: Float[Tensor, "N C ..."], targets: Tensor) -> Float[Tensor, "N"]:
        """Log-likelihood log p(y_n | f_n) of each datum."""
        ...

    def root_product(
        self, outputs: Float[Tensor, "N C ..."], epsilon: Float[Tensor, "N C ..."]
    ) -> Float[Tensor, "N C ..."]:
        """Product L ε with L Lᵀ = Λ: column k of L for ε = e_k, a random probe of Λ for random signs ε."""
        ...

    def mean(self, outputs: Float[Tensor, "N C ..."]) -> Float[Tensor, "N ..."]:
        """Predictive mean E[y | f]."""
        ...

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Hyperparameters with their names; those with `requires_grad` are learned."""
        ...


@runtime_checkable
class RankDeficient(Likelihood, Protocol):
    """A likelihood whose Λ has fewer columns than outputs; exact curvature costs as many passes as it has columns.

    Example:
        >>> import torch
        >>> from covary.likelihoods import Categorical, RankDeficient
        >>> isinstance(Categorical(), RankDeficient), len(list(Categorical().root_columns(torch.zeros(5, 3))))
        (True, 2)
    """

    def root_columns(self, outputs: Float[Tensor, "N C ..."]) -> Iterator[Float[Tensor, "N C ..."]]:
        r"""Vectors :math:`v_k` with :math:`\sum_k v_k v_k^T = \Lambda` for every datum."""
        ...


@runtime_checkable
class TargetDependent(Likelihood, Protocol):
    """A likelihood whose Λ depends on the targets, such as one that ignores some of them.

    Example:
        >>> from covary import Categorical, Gaussian
        >>> from covary.likelihoods import TargetDependent
        >>> isinstance(Categorical(), TargetDependent), isinstance(Gaussian(), TargetDependent)
        (True, False)
    """

    def given(self, targets: Tensor) -> Likelihood:
        """The likelihood with the Λ of these targets, for the outputs of the same data."""
        ...


def given(likelihood: Likelihood, targets: Tensor) -> Likelihood:
    """The likelihood with the Λ of these targets; itself where Λ does not depend on them.

    Arguments:
        likelihood: The likelihood.
        targets: The targets of a batch.

    Example:
        >>> import torch
        >>> from covary import Categorical
        >>> from covary.likelihoods import given
        >>> known = given(Categorical(ignore_index=-100), torch.tensor([0, -100]))
        >>> known.root_product(torch.zeros(2, 2), torch.tensor([[1.0, 0.0], [1.0, 0.0]])).abs()
        tensor([[0.3536, 0.3536],
                [0.0000, 0.0000]])
    """
    return likelihood.given(targets) if isinstance(likelihood, TargetDependent) else likelihood
