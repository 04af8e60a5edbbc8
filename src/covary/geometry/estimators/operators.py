r"""Symmetric matrices known by their products: the curvature of a network of any size, never formed.

Layout: vectors are rows, (K, P), flat over the weights in the order of their names. A product reads all data
once, batch by batch, and the K vectors share each batch's forward pass. Signs: the loss is −log p(D | θ), summed over
data, without the prior, so that its curvature is positive at a minimum.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..._types import SampleAveraging, TensorMap, Weights
from ...batches import Batches, Data, IndexedBatch, as_batches
from ...curvature.coverage import require_independence
from ...curvature.passes import chunk_slices
from ...errors import NumericalError
from ...likelihoods import Likelihood, given
from ...models import Model, as_model
from ...priors import hyperparameters_of
from ..charts.chart import Chart
from ..charts.network import unflatten
from ..objects import Point

CPU = torch.device("cpu")
VECTORS_AT_ONCE = 64  # unit vectors that `to_dense` multiplies at once


@dataclass(frozen=True)
class MatrixFree:
    """A symmetric matrix A, shape (P, P), by its products.

    Arguments:
        product: From rows v, shape (K, P), to rows A v.
        size: The number P of rows of the matrix.
        dtype: The dtype of the vectors.
        device: Their device.

    Example:
        >>> matrix = MatrixFree(lambda vectors: 2 * vectors, size=2)
        >>> matrix.to_dense()
        tensor([[2., 0.],
                [0., 2.]], dtype=torch.float64)
    """

    product: Callable[[Tensor], Tensor]
    size: int
    dtype: torch.dtype = torch.float64
    device: torch.device = CPU

    def __call__(self, vectors: Float[Tensor, "K P"]) -> Float[Tensor, "K P"]:
        """Products A v, row by row; an error if one is not finite."""
        products = self.product(vectors)
        if not bool(products.isfinite().all()):
            raise NumericalError(
                "Expected finite products with the curvature, got NaN or infinity. Look for weights, inputs or a "
                "metric that are not finite, or compute in float64."
            )
        return products

    def under(self, metric: Float[Tensor, " P"], point: Point | None = None) -> "MatrixFree":
        r"""The matrix :math:`M^{-1/2} J^\top A J M^{-1/2}` for a metric M > 0, diagonal and constant in θ.

        It is symmetric and has the eigenvalues of the operator :math:`E = \hat M^{-1} A` with
        :math:`\hat M^{-1} = J M^{-1} J^\top`, hence its trace and determinant.

        Arguments:
            metric: The diagonal of M, in Cartesian θ.
            point: The point in the chart whose coordinates A has, with Jacobian J; Cartesian, J = I, by default.
        """
        scale = metric.rsqrt()
        if point is None:
            return replace(self, product=lambda vectors: scale * self.product(scale * vectors))
        return replace(self, product=partial(_product_in_chart, self.product, point.chart, point.cartesian, scale))

    def to_dense(self) -> Float[Tensor, "P P"]:
        """The matrix itself, by P products: for small P."""
        identity = torch.eye(self.size, dtype=self.dtype, device=self.device)
        dense = torch.cat([self(rows) for rows in identity.split(VECTORS_AT_ONCE)])
        return 0.5 * (dense + dense.T)


@torch.no_grad()
def _product_in_chart(
    product: TensorMap, chart: Chart, theta: Float[Tensor, " P"], scale: Float[Tensor, " P"], vectors: Tensor
) -> Float[Tensor, "K P"]:
    points = theta.repeat(len(vectors), 1)
    return scale * chart.pull(points, product(chart.push(points, scale * vectors)))


class _Loss(NamedTuple):
    """The loss −log p(D | θ) of a model, as a function of its weights."""

    model: Model
    weights: Weights
    seed: int


_Pieces = Sequence[Tensor]  # a vector as tensors in the shapes of the weights
_Products = Callable[[_Loss, IndexedBatch, Tensor], Iterator[_Pieces]]


def loss_hessian(model: Model | nn.Module, data: Data, *, seed: int = 0) -> MatrixFree:
    r"""The Hessian :math:`-\nabla^2_\theta \log p(D | \theta)`, summed over data, by differentiating twice.

    θ are the weights that the prior of the model covers.

    Arguments:
        model: The model, or its network, of any layers that can be differentiated twice.
        data: A pair of tensors, a `Dataset`, or an iterable of batches that can be read more than once.
        seed: The seed of the noise of an averaged network.

    Example:
        >>> network = nn.Linear(2, 3)
        >>> data = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([0, 1])
        >>> hessian = loss_hessian(network, data)
        >>> hessian(torch.ones(1, hessian.size)).shape
        torch.Size([1, 9])
    """
    return _operator(_hessian_products, as_model(model), data, seed)


def gauss_newton(model: Model | nn.Module, data: Data, *, seed: int = 0) -> MatrixFree:
    r"""The generalized Gauss–Newton matrix :math:`\sum_n \hat J_n^\top \Lambda_n \hat J_n`, positive semi-definite.

    Arguments as for `loss_hessian`.

    Example:
        >>> import covary
        >>> model = covary.Model(nn.Linear(1, 1, bias=False), covary.Gaussian())
        >>> gauss_newton(model, (torch.tensor([[2.0], [3.0]]), torch.zeros(2, 1))).to_dense().detach()
        tensor([[13.]])
    """
    return _operator(_gauss_newton_products, as_model(model), data, seed)


def _operator(products: _Products, model: Model, data: Data, seed: int) -> MatrixFree:
    """The operator of one kind of products, after all checks of the arguments."""
    require_independence(model.network)  # matrix-free products need no rules, only independent data
    loss, batches = _Loss(model, model.weights, seed), as_batches(data).matching(model.network)
    with torch.no_grad():
        for batch in batches:
            model.likelihood.check(_outputs(loss, batch), batch.y)
    first = next(iter(loss.weights.values()))
    size = sum(weight.numel() for weight in loss.weights.values())
    return MatrixFree(partial(_sum_over_data, products, loss, batches), size, first.dtype, first.device)


@torch.no_grad()
def _sum_over_data(
    products: _Products, loss: _Loss, batches: Batches, vectors: Float[Tensor, "K P"]
) -> Float[Tensor, "K P"]:
    total = torch.zeros_like(vectors)
    for batch in batches:
        for rows in chunk_slices(loss.model.network, len(batch.x)):
            chunk = IndexedBatch(*(tensor[rows] for tensor in batch))
            for row, product in zip(total, products(loss, chunk, vectors), strict=True):
                row += torch.cat([piece.flatten() for piece in product])
    return total


def _hessian_products(loss: _Loss, batch: IndexedBatch, vectors: Float[Tensor, "K P"]) -> Iterator[_Pieces]:
    """Products v → ∇(vᵀ∇loss), one vector after the other on one graph."""
    weights = list(loss.weights.values())
    with torch.enable_grad():
        value = -loss.model.likelihood.log_prob(_outputs(loss, batch), batch.y)
        gradients = _derivatives([value], weights, None, create_graph=True)
    for vector in vectors:
        yield _derivatives(gradients, weights, _pieces(vector, loss.weights))


def _gauss_newton_products(loss: _Loss, batch: IndexedBatch, vectors: Float[Tensor, "K P"]) -> Iterator[_Pieces]:
    """Products v → Jv → ΛJv → JᵀΛJv, one vector after the other on one graph."""
    chunk = _linearized(loss, batch)
    for vector in vectors:
        yield chunk.pull(chunk.push(vector))


class _Linearized(NamedTuple):
    """The products of one chunk of data with B = LᵀJ, where L Lᵀ = Λ, on one graph."""

    loss: _Loss
    outputs: Tensor
    likelihood: Likelihood
    u: Tensor
    pulled: _Pieces  # Jᵀu, which is linear in u: its derivative along v is Jv at any u

    def push(self, vector: Float[Tensor, " P"]) -> Float[Tensor, "N C ..."]:
        """B v."""
        (pushed,) = _derivatives(self.pulled, [self.u], _pieces(vector, self.loss.weights))
        with torch.enable_grad():
            epsilon = torch.zeros_like(self.outputs, requires_grad=True)
            root = self.likelihood.root_product(self.outputs.detach(), epsilon)
        return _derivatives([root], [epsilon], [pushed])[0]

    def pull(self, rooted: Float[Tensor, "N C ..."]) -> _Pieces:
        """Bᵀ r."""
        curved = self.likelihood.root_product(self.outputs.detach(), rooted)
        return _derivatives([self.outputs], list(self.loss.weights.values()), [curved])


def _linearized(loss: _Loss, batch: IndexedBatch) -> _Linearized:
    with torch.enable_grad():
        outputs = _outputs(loss, batch)
        u = torch.zeros_like(outputs, requires_grad=True)
        pulled = _derivatives([outputs], list(loss.weights.values()), [u], create_graph=True)
    return _Linearized(loss, outputs, given(loss.model.likelihood, batch.y), u, pulled)


@dataclass(frozen=True)
class JacobianRoot:
    r"""The matrix B, shape (R, P), with :math:`B^\top B` the Gauss–Newton matrix, by its products.

    A row is :math:`(L_n^\top \hat J_n)_c` of a datum n and an output c, where :math:`L_n L_n^\top = \Lambda_n`.
    Products with B alone give :math:`v^\top B^\top B w` for half of what the Gauss–Newton matrix costs.
    """

    model: Model
    batches: Batches
    seed: int = 0  # the seed of the noise of an averaged network

    @torch.no_grad()
    def push(self, vectors: Float[Tensor, "K P"]) -> Float[Tensor, "K R"]:
        """Products B v, row by row."""
        found = [torch.stack([chunk.push(v).flatten() for v in vectors]) for chunk in self._chunks()]
        return torch.cat(found, dim=1) if found else vectors.new_zeros(len(vectors), 0)

    @torch.no_grad()
    def pull(self, rows: Float[Tensor, "K R"]) -> Float[Tensor, "K P"]:
        """Products Bᵀ r, row by row."""
        weights, start = self.model.weights.values(), 0
        total = rows.new_zeros(len(rows), sum(weight.numel() for weight in weights))
        for chunk in self._chunks():
            part = rows[:, start : start + chunk.outputs.numel()]
            start += chunk.outputs.numel()
            for own, row in zip(total, part, strict=True):
                own += torch.cat([piece.flatten() for piece in chunk.pull(row.view_as(chunk.outputs))])
        return total

    def _chunks(self) -> Iterator[_Linearized]:
        loss = _Loss(self.model, self.model.weights, self.seed)
        for batch in self.batches:
            for rows in chunk_slices(self.model.network, len(batch.x)):
                yield _linearized(loss, IndexedBatch(*(tensor[rows] for tensor in batch)))


def _outputs(loss: _Loss, batch: IndexedBatch) -> Float[Tensor, "N C ..."]:
    """Outputs of a batch, hyperparameters held constant."""
    network = loss.model.network
    constants = {k: p.detach() for k, p in hyperparameters_of(network, loss.weights).items()}
    arguments = {"index": batch.identity, "seed": loss.seed} if isinstance(network, SampleAveraging) else {}
    with sdpa_kernel(SDPBackend.MATH):  # fused attention kernels have no second derivative; the plain one has
        outputs: Tensor = torch.func.functional_call(network, constants, (batch.x,), arguments)
    return outputs


def _pieces(vector: Float[Tensor, " P"], weights: Weights) -> _Pieces:
    return list(unflatten(vector, weights).values())


def _derivatives(values: _Pieces, inputs: _Pieces, cotangents: _Pieces | None, create_graph: bool = False) -> _Pieces:
    """Derivatives of the values along the cotangents, zero if none depends on an input; the graph is kept."""
    kept = [number for number, value in enumerate(values) if value.requires_grad]
    if not kept:
        return [torch.zeros_like(each) for each in inputs]
    return torch.autograd.grad(
        [values[number] for number in kept],
        inputs,
        None if cotangents is None else [cotangents[number] for number in kept],
        retain_graph=True,
        create_graph=create_graph,
        materialize_grads=True,
    )
