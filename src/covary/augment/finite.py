"""Distributions over the elements of a finite group of images."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..errors import DataError, StructureError
from ..groups import act
from ..groups.square import FINITE_GROUPS, element_matrix, missing_products
from ..noise import Stream, uniform
from .protocol import require_images
from .uniform import InitialWidth, initial_values

SIGNS = {
    "quarter_turn": "content turned counter-clockwise by a quarter",
    "half_turn": "content turned by a half",
    "three_quarter_turn": "content turned clockwise by a quarter",
    "flip_x": "left and right exchanged",
    "flip_y": "top and bottom exchanged",
    "transpose": "rows and columns exchanged",
    "anti_transpose": "content mirrored at the diagonal from lower left to upper right",
}


class FiniteGroup(nn.Module):
    r"""Symmetries g of the square with probabilities :math:`p = \mathrm{softmax}(\text{logits})`.

    Samples of a datum cycle through all elements, in a random order per datum; each is weighted by its probability,
    normalized over the S samples. With S a multiple of the number of elements the average is exact,
    :math:`\hat f(x) = \sum_g p_g f(g x)`; with fewer samples than elements it omits some.

    Arguments:
        elements: "flips", "quarter_turns", "dihedral", or names of elements that form a group.
        initial_probability: The initial probability of each element but the identity, above 0; or one per element as
            a sequence or by name.

    Example:
        >>> from covary.augment import FiniteGroup
        >>> augment = FiniteGroup("quarter_turns", initial_probability=0.1)
        >>> augment.elements
        ('identity', 'quarter_turn', 'half_turn', 'three_quarter_turn')
        >>> augment.probabilities
        tensor([0.7000, 0.1000, 0.1000, 0.1000], grad_fn=<SoftmaxBackward0>)
    """

    hyperparameters = ("logits",)

    def __init__(self, elements: str | Sequence[str] = "flips", initial_probability: InitialWidth = 0.05) -> None:
        super().__init__()
        chosen = FINITE_GROUPS.get(elements, ()) if isinstance(elements, str) else tuple(elements)
        if len(chosen) < 2 or len(set(chosen)) < len(chosen):
            raise StructureError(
                f"Expected one of {', '.join(FINITE_GROUPS)}, or two or more different elements, got {elements!r}. "
                "Pass for example 'flips' or ('identity', 'flip_x')."
            )
        if missing := missing_products(chosen):
            raise StructureError(
                f"Expected elements that form a group, got {', '.join(chosen)} without their products "
                f"{', '.join(missing)}. Add those."
            )
        self.names = tuple(name for name in chosen if name != "identity")
        self.elements = ("identity", *self.names)
        self.units = ("probability",) * len(self.names)
        self.signs = tuple(SIGNS[name] for name in self.names)
        others = initial_values(self.names, initial_probability)
        if not (others > 0).all() or not others.sum() < 1:
            raise DataError(
                "Expected probabilities above 0 with a sum below 1 (the rest is that of the identity), got "
                f"{others.tolist()}. Start small, such as 0.05 each."
            )
        self.logits = nn.Parameter(torch.cat([1 - others.sum(0, keepdim=True), others]).log())

    @property
    def probabilities(self) -> Float[Tensor, "G"]:
        """Probabilities of all elements, in the order of `elements`, the identity first."""
        return self.logits.softmax(0)

    @property
    def widths(self) -> Float[Tensor, "K"]:
        """Probabilities of the elements but the identity, in the order of `names`."""
        return self.probabilities[1:]

    def sample_noise(self, index: Int[Tensor, "N"], num_samples: int, *, seed: int) -> Float[Tensor, "N S 1"]:
        """Position in `elements` of the element of each sample; sample s does not depend on S."""
        size = len(self.elements)
        order = uniform(seed, index, (size,), stream=Stream.AUGMENTATION, dtype=torch.float64).argsort(1)
        places = torch.arange(num_samples, device=index.device) % size
        return order[:, places].unsqueeze(-1).to(self.logits.dtype)

    def sample_weights(self, noise: Float[Tensor, "N S 1"]) -> Float[Tensor, "N S"]:
        """Probabilities of the samples' elements, normalized over the samples of a datum."""
        return self.logits[noise.squeeze(-1).long()].softmax(1)

    def transform(self, x: Tensor, noise: Float[Tensor, "N S 1"]) -> Float[Tensor, "N S C H W"]:
        """Images x of shape (N, C, H, W) under the samples' elements."""
        require_images(x)
        orbit = torch.stack([act(x, name) for name in self.elements], dim=1)
        return orbit[torch.arange(x.shape[0], device=x.device)[:, None], noise.squeeze(-1).long()]

    def matrices(self, noise: Float[Tensor, "N S 1"]) -> Float[Tensor, "N S 3 3"]:
        """Matrices of the samples' elements from output to input coordinates on [−1, 1]²."""
        elements = torch.stack([element_matrix(name, dtype=noise.dtype) for name in self.elements])
        return elements.to(noise.device)[noise.squeeze(-1).long()]

    def extra_repr(self) -> str:
        """Probabilities by name, for `print`."""
        return ", ".join(f"{n}={p:.3g}" for n, p in zip(self.names, self.widths.tolist(), strict=True))
