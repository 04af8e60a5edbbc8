"""Distributions over the elements of finite groups: symmetries of the square, and mirror images in space."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..errors import DataError, ShapeError, StructureError
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
MIRROR_NAMES = ("mirror_x", "mirror_y", "mirror_z")
_AXES = {"mirror_x": 0, "mirror_y": 1, "mirror_z": 2}  # of points; of volumes -1, -2 and -3


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
        return _cycle(seed, index, num_samples, len(self.elements)).to(self.logits.dtype)

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


class Mirror3d(nn.Module):
    r"""Mirror images along x, y and z of points (N, P, 3) or volumes (N, C, D, H, W), each with a probability p.

    Samples of a datum cycle through all :math:`2^K` combinations, in a random order per datum; each is weighted by its
    probability, normalized over the S samples. With S a multiple of :math:`2^K` the average is exact. Flips of flat
    images are `FiniteGroup`.

    Arguments:
        names: The mirrors, by default "mirror_x", "mirror_y" and "mirror_z": about the origin of points, or the center
            of volumes, x along W, y along H and z along D.
        initial_probability: The initial probability of each, above 0 and below 1, or one each.

    Example:
        >>> import torch
        >>> from covary.augment import Mirror3d
        >>> augment = Mirror3d(("mirror_x",), initial_probability=0.2)
        >>> augment.transform(torch.tensor([[[1.0, 2.0, 3.0]]]), torch.tensor([[[0.0], [1.0]]]))
        tensor([[[[ 1.,  2.,  3.]],
        <BLANKLINE>
                 [[-1.,  2.,  3.]]]])
    """

    hyperparameters = ("logits",)

    def __init__(self, names: Sequence[str] = MIRROR_NAMES, initial_probability: InitialWidth = 0.05) -> None:
        super().__init__()
        if isinstance(names, str) or not names or len(set(names)) < len(names) or set(names) - _AXES.keys():
            raise StructureError(
                f"Expected one or more different names among {', '.join(MIRROR_NAMES)}, got {names!r}. Pass a tuple."
            )
        self.names = tuple(names)
        self.units = ("probability",) * len(self.names)
        self.signs = tuple(f"content mirrored along {name[-1]}" for name in self.names)
        probabilities = initial_values(self.names, initial_probability)
        if not bool(((probabilities > 0) & (probabilities < 1)).all()):
            raise DataError(
                f"Expected probabilities above 0 and below 1, got {probabilities.tolist()}. Start small, such as 0.05."
            )
        self.logits = nn.Parameter(probabilities.logit())

    @property
    def widths(self) -> Float[Tensor, "K"]:
        """Probabilities of the mirrors, in the order of `names`."""
        return self.logits.sigmoid()

    def sample_noise(self, index: Int[Tensor, "N"], num_samples: int, *, seed: int) -> Float[Tensor, "N S 1"]:
        """Number of the combination of each sample, whose bits are the mirrors; sample s does not depend on S."""
        return _cycle(seed, index, num_samples, 2 ** len(self.names)).to(self.logits.dtype)

    def sample_weights(self, noise: Float[Tensor, "N S 1"]) -> Float[Tensor, "N S"]:
        """Probabilities of the samples' combinations, normalized over the samples of a datum."""
        return (self._mirrored(noise) * self.logits).sum(-1).softmax(1)  # of p and 1 − p, the odds remain

    def transform(self, x: Tensor, noise: Float[Tensor, "N S 1"]) -> Float[Tensor, "N S ..."]:
        """Points (N, P, 3) or volumes (N, C, D, H, W) under the samples' combinations."""
        if x.ndim != 5 and (x.ndim != 3 or x.shape[-1] != 3):
            raise ShapeError(f"Expected points (N, P, 3) or volumes (N, C, D, H, W), got {tuple(x.shape)}. Reshape x.")
        samples = x.unsqueeze(1).expand(-1, noise.shape[1], *x.shape[1:])
        for name, mirrored in zip(self.names, self._mirrored(noise).unbind(-1), strict=True):
            if x.ndim == 5:
                other = samples.flip(-1 - _AXES[name])
            else:
                other = samples * (1 - 2 * torch.eye(3).to(x)[_AXES[name]])
            samples = torch.where(mirrored.reshape(*mirrored.shape, *[1] * (x.ndim - 1)), other, samples)
        return samples

    def _mirrored(self, noise: Float[Tensor, "N S 1"]) -> Bool[Tensor, "N S K"]:
        places = torch.arange(len(self.names), device=noise.device)
        return (noise.long() >> places) & 1 == 1

    def extra_repr(self) -> str:
        """Probabilities by name, for `print`."""
        return ", ".join(f"{n}={w:.3g}" for n, w in zip(self.names, self.widths.tolist(), strict=True))


def _cycle(seed: int, index: Int[Tensor, "N"], num_samples: int, size: int) -> Int[Tensor, "N S 1"]:
    """Samples that cycle through the numbers below `size`, in a random order per datum."""
    order = uniform(seed, index, (size,), stream=Stream.AUGMENTATION, dtype=torch.float64).argsort(1)
    places = torch.arange(num_samples, device=index.device) % size
    return order[:, places].unsqueeze(-1)
