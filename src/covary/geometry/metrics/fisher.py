r"""Metrics from a model's predictions on data: Fisher, Gauss–Newton, empirical Fisher, KFAC.

Each is a sum over data. The first three belong to the family :math:`\sum_n J_n^\top A_n J_n`, with the Jacobian
:math:`J_n` of the model (paper 3, Eq. (12)), so differentiation in any chart gives their pulled-back matrix.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import hessian, jacrev

from ...batches import Data
from ...curvature import kfac
from ...likelihoods import Likelihood
from ...linalg import Block, Dense
from ...models import Model, as_model
from ..charts.network import unflatten
from .metric import Metric

Outputs = Callable[[Tensor], Tensor]  # coordinates (P,) -> outputs (N, C), such as `flat_outputs(network, x)`


def fisher_metric(outputs: Outputs, likelihood: Likelihood) -> Metric:
    r"""The Fisher metric :math:`\sum_n J_n^\top \Lambda_n J_n` of a model, which is its GGN.

    Arguments:
        outputs: The model's outputs on the data as a function of its parameters.
        likelihood: A likelihood whose Λ does not depend on the targets, such as covary's own.

    Example:
        >>> from covary import Gaussian
        >>> metric = fisher_metric(lambda theta: theta.unsqueeze(0), Gaussian())  # one datum, outputs θ
        >>> metric.matrix(torch.zeros(2, dtype=torch.float64)).diagonal().detach()
        tensor([1., 1.], dtype=torch.float64)
    """
    return Metric("Fisher metric", partial(_fisher, outputs, likelihood))


def ggn_metric(outputs: Outputs, loss: Callable[[Tensor], Tensor]) -> Metric:
    r"""The generalized Gauss–Newton metric :math:`J^\top \nabla^2_f \ell\, J` of a loss convex in the outputs.

    Arguments:
        outputs: The model's outputs on the data as a function of its parameters.
        loss: The loss ℓ, summed over data, as a function of the outputs (N, C).

    Example:
        >>> ggn_metric(lambda theta: 2 * theta.unsqueeze(0), lambda f: f.square().sum()).matrix(torch.zeros(1))
        tensor([[8.]])
    """
    return Metric("GGN metric", partial(_ggn, outputs, loss))


def empirical_fisher_metric(outputs: Outputs, likelihood: Likelihood, targets: Tensor) -> Metric:
    r"""The empirical Fisher metric :math:`\sum_n g_n g_n^\top`, with :math:`g_n = \nabla_\theta \log p(y_n | f_n)`.

    Arguments:
        outputs: The model's outputs on the data as a function of its parameters.
        likelihood: The likelihood.
        targets: The targets y.

    Example:
        >>> from covary import Gaussian
        >>> outputs = lambda theta: theta.expand(2, 1)
        >>> metric = empirical_fisher_metric(outputs, Gaussian(), torch.tensor([[1.0], [2.0]], dtype=torch.float64))
        >>> metric.matrix(torch.zeros(1, dtype=torch.float64)).detach()
        tensor([[5.]], dtype=torch.float64)
    """
    return Metric("empirical Fisher metric", partial(_empirical_fisher, outputs, likelihood, targets))


def kfac_metric(model: Model | nn.Module, data: Data) -> Metric:
    """The Kronecker-factored GGN metric of a model over its weights; it cannot be differentiated in θ.

    Arguments:
        model: The model, or its network; a copy of the network is made, whose weights are set to θ.
        data: Inputs and targets, or batches of them.

    Example:
        >>> import covary
        >>> network = nn.Linear(2, 1, bias=False)
        >>> metric = kfac_metric(covary.Model(network, covary.Gaussian()), (torch.eye(2), torch.zeros(2, 1)))
        >>> metric.matrix(torch.zeros(2))
        tensor([[1., 0.],
                [0., 1.]])
    """
    model = as_model(model)
    field = partial(_kfac, replace(model, network=deepcopy(model.network)), data)
    return Metric("KFAC metric", field, differentiable=False)


def _fisher(outputs: Outputs, likelihood: Likelihood, theta: Float[Tensor, " P"]) -> Dense:
    f = outputs(theta)
    units = torch.eye(f.shape[1]).to(f)
    roots = torch.stack([likelihood.root_product(f, unit.expand_as(f)) for unit in units], dim=-1)  # (N, C, K)
    columns = torch.einsum("nck,ncp->nkp", roots, jacrev(outputs)(theta)).flatten(0, 1)
    return Dense(columns.mT @ columns)


def _ggn(outputs: Outputs, loss: Callable[[Tensor], Tensor], theta: Float[Tensor, " P"]) -> Dense:
    f, jacobian = outputs(theta), jacrev(outputs)(theta)
    # the Hessian of the loss of the linearized model, so that Λ of all data is never formed
    return Dense(hessian(lambda step: loss(f + jacobian @ step))(torch.zeros_like(theta)))


def _empirical_fisher(outputs: Outputs, likelihood: Likelihood, targets: Tensor, theta: Float[Tensor, " P"]) -> Dense:
    gradients = jacrev(lambda weights: likelihood.log_prob_each(outputs(weights), targets))(theta)
    return Dense(gradients.mT @ gradients)


@torch.no_grad()
def _kfac(model: Model, data: Data, theta: Float[Tensor, " P"]) -> Block:
    weights = model.weights
    for name, value in unflatten(theta, weights).items():
        weights[name].copy_(value)
    return kfac(model, data)
