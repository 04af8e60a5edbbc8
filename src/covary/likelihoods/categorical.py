"""Classes, one per datum or one per position."""

from collections.abc import Iterator
from copy import copy

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from .._text import warn_once
from ..errors import DataError, ShapeError, StructureError
from .checks import check_outputs, check_target_shape, log_parameter


class Categorical(nn.Module):
    r"""Class probabilities :math:`p = \mathrm{softmax}(f / T)`, normalized at every temperature.

    With `num_classes` each datum has a class per position, such as a pixel or a step of a sequence. The layout is
    torch's: outputs (N, C, ...) against targets (N, ...). Positions are independent, their log-likelihoods are summed.

    Arguments:
        temperature: The temperature :math:`T = \exp(t) > 0`, with t the parameter `log_temperature`.
        learn_temperature: Whether the temperature is a hyperparameter.
        num_classes: The number C of classes, for outputs with positions; None if every output is a class.
        ignore_index: The target of data or positions that count for nothing, such as −100; None if all count.

    Example:
        >>> import torch
        >>> from covary import Categorical
        >>> outputs, targets = torch.tensor([[2.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 0])
        >>> round(float(Categorical().log_prob(outputs, targets)), 3)
        -2.254
        >>> segmentation = Categorical(num_classes=3, ignore_index=-100)
        >>> segmentation.log_prob_each(torch.zeros(2, 3, 4, 4), torch.zeros(2, 4, 4, dtype=torch.int64))
        tensor([-17.5778, -17.5778])
    """

    def __init__(
        self,
        temperature: float = 1.0,
        learn_temperature: bool = False,
        *,
        num_classes: int | None = None,
        ignore_index: int | None = None,
    ) -> None:
        super().__init__()
        if num_classes is not None and num_classes < 2:
            raise StructureError(f"Expected num_classes of 2 or more, got {num_classes}. Use Bernoulli for one output.")
        if ignore_index is not None and ignore_index >= 0:
            raise StructureError(f"Expected a negative ignore_index, which is no class, got {ignore_index}. Pass -100.")
        self.log_temperature = log_parameter("temperature", temperature, learn_temperature)
        self.num_classes, self.ignore_index = num_classes, ignore_index
        self.counted: Bool[Tensor, "N 1 ..."] | None = None

    @property
    def temperature(self) -> Float[Tensor, ""]:
        """Temperature T > 0."""
        return self.log_temperature.exp()

    def check(self, outputs: Tensor, targets: Tensor) -> None:
        """Raise `ShapeError` or `DataError` unless targets are class indices, int64, one per datum or position."""
        check_outputs(outputs)
        if targets.dtype != torch.int64:
            raise DataError(
                f"Expected class indices of dtype torch.int64 for Categorical, got {targets.dtype}. "
                "Pass targets.long() if they are indices, targets.argmax(-1) if they are one-hot, or for real targets "
                "the model covary.Model(network, covary.Gaussian())."
            )
        num_classes = self._check_positions(outputs, targets)
        wrong = targets[(targets < 0) | (targets >= num_classes)]
        wrong = wrong if self.ignore_index is None else wrong[wrong != self.ignore_index]
        if len(wrong):
            raise DataError(
                f"Class {int(wrong[0])} is out of range: expected 0 to {num_classes - 1}, as the network has "
                f"{num_classes} outputs. {self._repair(int(wrong[0]), targets, num_classes)}"
            )
        self._warn_of_probabilities(outputs)

    def log_prob(self, outputs: Float[Tensor, "N C ..."], targets: Int[Tensor, "N ..."]) -> Float[Tensor, ""]:
        r"""Log-likelihood :math:`\sum_n \log p_{n y_n}`, summed over data."""
        return self.log_prob_each(outputs, targets).sum()

    def log_prob_each(self, outputs: Float[Tensor, "N C ..."], targets: Int[Tensor, "N ..."]) -> Float[Tensor, "N"]:
        r"""Log-likelihood :math:`\log p_{n y_n}` of each datum, summed over its positions."""
        log_probs = self._log_probs(outputs)
        index = targets.reshape(len(targets), 1, *log_probs.shape[2:])
        if self.ignore_index is None:
            chosen = log_probs.gather(1, index)
        else:
            counted = index != self.ignore_index
            chosen = torch.where(counted, log_probs.gather(1, index.where(counted, 0)), 0.0)
        return chosen.flatten(1).sum(1)

    def root_product(
        self, outputs: Float[Tensor, "N C ..."], epsilon: Float[Tensor, "N C ..."]
    ) -> Float[Tensor, "N C ..."]:
        r"""Product :math:`L \epsilon` with :math:`L = (\mathrm{diag}(\sqrt p) - p \sqrt p^T) / T` at each position.

        :math:`L L^T = (\mathrm{diag}(p) - p p^T) / T^2 = \Lambda`; 0 at positions that are ignored, see `given`.
        """
        # √p from log p, never sqrt(p): the derivative of sqrt at an underflowed p is infinite.
        root = (0.5 * self._log_probs(outputs)).exp()
        by_class = epsilon.reshape(root.shape)
        residual = by_class - root * (root * by_class).sum(1, keepdim=True)
        product = root * residual / self.temperature.to(outputs)
        if self.counted is not None:
            product = product * self.counted.reshape(len(product), 1, *product.shape[2:])
        return product.reshape(outputs.shape)

    def root_columns(self, outputs: Float[Tensor, "N C ..."]) -> Iterator[Float[Tensor, "N C ..."]]:
        r"""The C − 1 columns of a root of Λ at each position, which has no higher rank: :math:`\Lambda 1 = 0`.

        The Householder reflection that maps :math:`\sqrt p` to :math:`-e_1` has C − 1 further columns :math:`h_k`, an
        orthonormal basis of what is orthogonal to :math:`\sqrt p`, where L is :math:`\mathrm{diag}(\sqrt p) / T`.
        """
        root = (0.5 * self._log_probs(outputs)).exp()
        root = root.reshape(*root.shape[:2], -1)  # (N, C, positions)
        normal = torch.cat([root[:, :1] + 1, root[:, 1:]], 1)  # its squared length is twice its first entry
        scaled = normal / normal[:, :1]
        classes, positions = (torch.eye(size, dtype=root.dtype, device=root.device) for size in root.shape[1:])
        for k in range(1, root.shape[1]):
            column = classes[k][:, None] - scaled[:, k : k + 1] * normal
            for position in positions:
                yield self.root_product(outputs, (column * position).reshape(outputs.shape))

    def mean(self, outputs: Float[Tensor, "N _ ..."]) -> Float[Tensor, "N _ ..."]:
        """Class probabilities softmax(f / T), the classes in the second axis."""
        return self._log_probs(outputs).exp()

    def given(self, targets: Int[Tensor, "N ..."]) -> "Categorical":
        """The likelihood whose Λ is 0 where these targets are ignored, for the outputs of the same data."""
        if self.ignore_index is None:
            return self
        known = copy(self)
        known.counted = targets.unsqueeze(1) != self.ignore_index
        return known

    def by_class(self, outputs: Float[Tensor, "N _ ..."]) -> Float[Tensor, "N _ ..."]:
        """Outputs with the classes in the second axis: (N, C·P), flattened, becomes (N, C, P)."""
        if self.num_classes in (None, outputs.shape[1]):
            return outputs
        return outputs.unflatten(1, (self.num_classes, -1))

    def _log_probs(self, outputs: Tensor) -> Tensor:
        return self.by_class(outputs / self.temperature.to(outputs)).log_softmax(1)

    def _check_positions(self, outputs: Tensor, targets: Tensor) -> int:
        """The number of classes; raise `ShapeError` unless there is a target for each datum or position."""
        num_data, num_outputs = outputs.shape[:2]
        if self.num_classes is None:
            if outputs.ndim > 2 or targets.ndim > 2:
                raise ShapeError(
                    f"Expected outputs (N, C) and one class per datum, got {tuple(outputs.shape)} and targets "
                    f"{tuple(targets.shape)}. Use Categorical(num_classes=C) for a class per position."
                )
            check_target_shape("Categorical", targets, [(num_data,)])
            if num_outputs < 2:
                raise ShapeError(
                    "Expected two outputs or more for Categorical, one per class, got 1. Use Bernoulli() for one "
                    "output of two classes, or Gaussian() for real targets."
                )
            return num_outputs
        num_positions, rest = divmod(num_outputs, self.num_classes)
        if rest or (outputs.ndim > 2 and num_positions != 1):
            raise ShapeError(
                f"Expected outputs (N, {self.num_classes}, ...), the classes in the second axis, got "
                f"{tuple(outputs.shape)}. Permute the outputs, or set num_classes to their number."
            )
        positions = tuple(outputs.shape[2:])
        if outputs.ndim == 2 and targets.ndim > 1 and targets[:1].numel() == num_positions:
            positions = tuple(targets.shape[1:])  # flattened outputs
        elif outputs.ndim == 2 and num_positions > 1:
            positions = (num_positions,)
        check_target_shape("Categorical", targets, [(num_data, *positions)])
        return self.num_classes

    def _warn_of_probabilities(self, outputs: Tensor) -> None:
        by_class = self.by_class(outputs)
        if bool((by_class >= 0).all()) and bool(((by_class.sum(1) - 1).abs() < 1e-4).all()):
            warn_once(
                "Outputs are at least 0 and sum to 1, like probabilities: Categorical takes their softmax, as "
                "torch.nn.functional.cross_entropy does. Return logits, without a softmax in the network."
            )

    def _repair(self, wrong: int, targets: Tensor, num_classes: int) -> str:
        if wrong == -100:
            return "Pass Categorical(ignore_index=-100) to ignore it."
        if (int(targets.min()), int(targets.max())) == (1, num_classes):
            return "Classes are counted from 0: subtract 1."
        return "Renumber the targets, or give the network more outputs."
