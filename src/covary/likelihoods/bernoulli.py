"""Binary targets."""

from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from ..errors import DataError
from .checks import as_outputs, check_outputs, check_real_targets


class Bernoulli(nn.Module):
    r"""Independent binary targets, :math:`p(y_c = 1) = \mathrm{sigmoid}(f_c)`.

    Example:
        >>> import torch
        >>> from covary import Bernoulli
        >>> Bernoulli().mean(torch.tensor([[0.0]]))
        tensor([[0.5000]])
    """

    def check(self, outputs: Tensor, targets: Tensor) -> None:
        """Raise an error unless targets are 0 or 1, (N, C) or (N,) if C is 1, integers or in the outputs' dtype."""
        check_outputs(outputs)
        check_real_targets("Bernoulli", outputs, targets, integers=True)
        wrong = targets[(targets != 0) & (targets != 1)]
        if len(wrong):
            raise DataError(
                f"Expected targets that are 0 or 1 for Bernoulli, got {float(wrong[0]):g}. "
                "Threshold the targets, or use Gaussian for real values."
            )

    def log_prob(self, outputs: Float[Tensor, "N C ..."], targets: Shaped[Tensor, "N ..."]) -> Float[Tensor, ""]:
        r"""Log-likelihood :math:`\sum_{nc} \log p(y_{nc} | f_{nc})`, summed over data."""
        return self.log_prob_each(outputs, targets).sum()

    def log_prob_each(self, outputs: Float[Tensor, "N C ..."], targets: Shaped[Tensor, "N ..."]) -> Float[Tensor, "N"]:
        r"""Log-likelihood :math:`\sum_c \log \mathrm{sigmoid}(\pm f_c)` of each datum, + where y is 1."""
        return logsigmoid((2 * as_outputs(targets, outputs) - 1) * outputs).flatten(1).sum(1)

    def root_product(
        self, outputs: Float[Tensor, "N C ..."], epsilon: Float[Tensor, "N C ..."]
    ) -> Float[Tensor, "N C ..."]:
        r"""Product :math:`L \epsilon` with :math:`L = \mathrm{diag}(\sqrt{p (1 - p)})`, so :math:`L L^T = \Lambda`."""
        return (0.5 * (logsigmoid(outputs) + logsigmoid(-outputs))).exp() * epsilon

    def mean(self, outputs: Float[Tensor, "N C ..."]) -> Float[Tensor, "N C ..."]:
        """Probabilities sigmoid(f) that y is 1."""
        return outputs.sigmoid()
