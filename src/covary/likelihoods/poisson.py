"""Counts."""

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from ..errors import DataError
from .checks import as_outputs, check_exponent, check_outputs, check_real_targets


class Poisson(nn.Module):
    r"""Independent counts :math:`y_c \in \{0, 1, 2, \dots\}` with the expected counts :math:`e^{f_c}`.

    Example:
        >>> import torch
        >>> from covary import Poisson
        >>> Poisson().mean(torch.tensor([[0.0]]))
        tensor([[1.]])
    """

    def check(self, outputs: Tensor, targets: Tensor) -> None:
        """Raise an error unless targets are counts, (N, C) or (N,) if C is 1, and expected counts are finite."""
        check_outputs(outputs)
        check_real_targets("Poisson", outputs, targets, integers=True)
        wrong = targets[(targets < 0) | (targets != targets.round())]
        if len(wrong):
            raise DataError(
                f"Expected counts for Poisson, whole numbers from 0 on, got {float(wrong[0]):g}. Use Gaussian for real "
                "values."
            )
        check_exponent("Poisson", "expected counts", outputs)

    def log_prob(self, outputs: Float[Tensor, "N C ..."], targets: Shaped[Tensor, "N ..."]) -> Float[Tensor, ""]:
        r"""Log-likelihood :math:`\sum_{nc} \log p(y_{nc} | f_{nc})`, summed over data."""
        return self.log_prob_each(outputs, targets).sum()

    def log_prob_each(self, outputs: Float[Tensor, "N C ..."], targets: Shaped[Tensor, "N ..."]) -> Float[Tensor, "N"]:
        r"""Log-likelihood :math:`\sum_c y_c f_c - e^{f_c} - \log y_c!` of each datum."""
        counts = as_outputs(targets, outputs)
        return (counts * outputs - outputs.exp() - torch.lgamma(counts + 1)).flatten(1).sum(1)

    def root_product(
        self, outputs: Float[Tensor, "N C ..."], epsilon: Float[Tensor, "N C ..."]
    ) -> Float[Tensor, "N C ..."]:
        r"""Product :math:`L \epsilon` with :math:`L = \mathrm{diag}(e^{f/2})`, so :math:`L L^T = \Lambda`."""
        return (0.5 * outputs).exp() * epsilon

    def mean(self, outputs: Float[Tensor, "N C ..."]) -> Float[Tensor, "N C ..."]:
        r"""Means :math:`e^f`."""
        return outputs.exp()
