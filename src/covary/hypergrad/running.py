r"""Statistics of the curvature that follow training: sums over few data at a time, older ones discounted.

After step t with the statistics :math:`\Delta_t` (factors, blocks, log-likelihood) of :math:`m_t` data,

.. math:: T_t = \rho\, T_{t-1} + \Delta_t, \qquad n_t = \rho\, n_{t-1} + m_t,

and :math:`N T_t / n_t` estimates the statistics of all N data. At fixed weights and hyperparameters the estimate is
unbiased for every ρ, and with ρ = 1 and each datum once it is the sum over all data itself. While weights move, ρ
trades the age of the statistics against their noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..curvature.passes import CurvatureStatistics
from ..linalg import AbstractPSD, Block, Dense, Diagonal, Kron


@dataclass(frozen=True)
class RunningStatistics:
    """Discounted sums over the data of past hyper steps.

    Arguments:
        curvature: The blocks T.
        log_likelihood: The log-likelihood.
        num_data: The discounted number n of data.

    Example:
        >>> import torch, covary
        >>> from covary.curvature.passes import curvature_pass
        >>> from covary.hypergrad import RunningStatistics
        >>> model, data = covary.Model(torch.nn.Linear(4, 3)), (torch.randn(8, 4), torch.arange(8) % 3)
        >>> part = curvature_pass(model, covary.as_batches(data), covary.Curvature())
        >>> RunningStatistics.of(part).updated(part, decay=0.5).scaled(100).num_data
        100
    """

    curvature: Block
    log_likelihood: Float[Tensor, ""]
    num_data: float

    @classmethod
    def of(cls, statistics: CurvatureStatistics) -> "RunningStatistics":
        """The sums after a first step."""
        return cls(statistics.curvature, statistics.log_likelihood, float(statistics.num_data))

    @torch.no_grad()
    def updated(self, statistics: CurvatureStatistics, decay: float) -> "RunningStatistics":
        """The sums after one more step.

        Arguments:
            statistics: The statistics of the step's data, without graph.
            decay: The factor ρ by which all earlier data count less, from 0 to 1.
        """
        return RunningStatistics(
            self.curvature.map(lambda statistic: decay * statistic).accumulate(statistics.curvature),
            decay * self.log_likelihood + statistics.log_likelihood,
            decay * self.num_data + statistics.num_data,
        )

    @torch.no_grad()
    def scaled(self, num_data: int) -> CurvatureStatistics:
        """The estimate for all N data."""
        factor = num_data / self.num_data
        return CurvatureStatistics(
            self.curvature.map(lambda statistic: factor * statistic), factor * self.log_likelihood, None, num_data
        )

    def to_tensors(self) -> dict[str, Tensor]:
        """The sums as tensors by name, for a checkpoint."""
        num_data = torch.tensor(self.num_data, dtype=torch.float64, device=self.log_likelihood.device)
        found = {"log_likelihood": self.log_likelihood, "num_data": num_data}
        for name, block in self.curvature.blocks.items():
            kind = _kind(block)
            found |= {f"{name}/{kind}/{number}": tensor for number, tensor in enumerate(block.tensors)}
            if isinstance(block, Kron) and block.count is not None:
                found[f"{name}/{kind}/count"] = block.count
        return found

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], names: Sequence[str]) -> "RunningStatistics":
        """The sums from what `to_tensors` returned, in any order.

        Arguments:
            tensors: The tensors.
            names: The names of the blocks in their order, on which the last digit of a sum over blocks depends.
        """
        parts: dict[tuple[str, str], dict[str, Tensor]] = {}
        for key, tensor in tensors.items():
            if "/" in key:
                name, kind, part = key.rsplit("/", 2)
                parts.setdefault((name, kind), {})[part] = tensor
        found = {name: _block(kind, own) for (name, kind), own in parts.items()}
        ordered = {name: found[name] for name in names if name in found} | found
        return cls(Block(ordered), tensors["log_likelihood"], float(tensors["num_data"]))


def _kind(block: Dense | Diagonal | Kron) -> str:
    kind = type(block).__name__
    return f"{kind}, estimated" if isinstance(block, Kron) and block.estimated else kind


def _block(kind: str, tensors: Mapping[str, Tensor]) -> AbstractPSD:
    if kind == "Dense":
        return Dense(tensors["0"])
    if kind == "Diagonal":
        return Diagonal(tensors["0"])
    return Kron(tensors["0"], tensors["1"], tensors.get("count"), estimated=kind.endswith("estimated"))
