"""Distributions over mirror images in three dimensions."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..errors import DataError, ShapeError, StructureError
from ..noise import Stream, uniform
from .uniform import InitialWidth, initial_values

MIRROR_NAMES = ("mirror_x", "mirror_y", "mirror_z")
_AXES = {"mirror_x": 0, "mirror_y": 1, "mirror_z": 2}  # of points; of volumes -1, -2 and -3


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
        size = 2 ** len(self.names)
        order = uniform(seed, index, (size,), stream=Stream.AUGMENTATION, dtype=torch.float64).argsort(1)
        places = torch.arange(num_samples, device=index.device) % size
        return order[:, places].unsqueeze(-1).to(self.logits.dtype)

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
