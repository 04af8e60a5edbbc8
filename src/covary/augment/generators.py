"""Distributions over transforms whose generators are learned too."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..errors import DataError, ShapeError, StructureError
from ..groups import exponential
from ..groups.affine import check_padding, to_normalized, warp_normalized
from ..noise import normal
from .protocol import require_images
from .sampling import SAMPLERS, check_sampler


class LearnedGenerators(nn.Module):
    r"""Transforms :math:`T = \exp(\sum_k \epsilon_k G_k)` with free generators :math:`G_k`, ε uniform in [−1, 1).

    Vectors and points of d coordinates are multiplied by T, and every G is a d × d matrix. Of images, T maps output to
    input coordinates as in `Affine2d`, and every G is a 2 × 3 matrix of the affine algebra. The width of a generator is
    its Frobenius norm over √2: of a rotation, the angle in radians. Generators are known up to sign.

    Arguments:
        num_generators: The number K of generators.
        dim: The number d of coordinates, for data (N, d) or (N, P, d); None for images (N, C, H, W).
        initial_width: The initial width of all generators, which start in random directions; above 0.
        seed: The seed of these directions.
        padding: The pixels outside of an image: "zeros", "border" or "reflection".
        sampler: How noise is sampled: "sobol", evenly over the samples of a datum, or "random", independently.

    Example:
        >>> import torch
        >>> from covary.augment import LearnedGenerators
        >>> augment = LearnedGenerators(1, dim=3, initial_width=0.2)
        >>> augment.generators.shape, augment.widths
        (torch.Size([1, 3, 3]), tensor([0.2000], grad_fn=<DivBackward0>))
    """

    hyperparameters = ("generators",)

    def __init__(
        self,
        num_generators: int = 1,
        dim: int | None = None,
        *,
        initial_width: float | int = 0.05,
        seed: int = 0,
        padding: str = "zeros",
        sampler: str = "sobol",
    ) -> None:
        super().__init__()
        if num_generators < 1 or (dim is not None and dim < 2):
            raise StructureError(
                f"Expected one generator or more, of two coordinates or more, got {num_generators} and {dim}. Pass for "
                "example LearnedGenerators(2, dim=3)."
            )
        if not (math.isfinite(initial_width) and initial_width > 0):
            raise DataError(f"Expected initial_width above 0, where a generator has a direction, got {initial_width}.")
        self.dim, self.padding, self.sampler = dim, check_padding(padding), check_sampler(sampler)
        self.names = tuple(f"generator_{number}" for number in range(1, num_generators + 1))
        self.units = ("generator norm",) * num_generators
        self.signs = ("known up to sign",) * num_generators
        shape = (2, 3) if dim is None else (dim, dim)
        drawn = normal(seed, torch.arange(num_generators), shape, dtype=torch.float64).to(torch.get_default_dtype())
        self.generators = nn.Parameter(drawn * (initial_width / _norms(drawn))[:, None, None])

    @property
    def widths(self) -> Float[Tensor, "K"]:
        r"""Widths :math:`\|G_k\| / \sqrt 2`: of a rotation, the angle in radians."""
        return _norms(self.generators)

    def sample_noise(self, index: Int[Tensor, "N"], num_samples: int, *, seed: int) -> Float[Tensor, "N S K"]:
        """Noise ε in [−1, 1) per datum, sample and generator."""
        return SAMPLERS[self.sampler](seed, index, num_samples, len(self.names), self.generators.dtype)

    def transform(self, x: Tensor, noise: Float[Tensor, "N S K"]) -> Float[Tensor, "N S ..."]:
        """Transformed vectors (N, d), points (N, P, d) or images (N, C, H, W)."""
        algebra = torch.einsum("nsk,kij->nsij", noise.to(x), self.generators.to(x))
        if self.dim is None:
            if x.ndim in (2, 3):
                raise ShapeError(
                    f"Expected images (N, C, H, W), got {tuple(x.shape)}. For vectors and points pass their number of "
                    f"coordinates: dim={x.shape[-1]}."
                )
            require_images(x)
            whole = torch.cat([algebra, torch.zeros_like(algebra[..., :1, :])], dim=-2)
            maps = exponential(to_normalized(whole, x.shape[-2], x.shape[-1]))
            return warp_normalized(x, maps, self.padding)
        if x.ndim not in (2, 3) or x.shape[-1] != self.dim:
            raise ShapeError(
                f"Expected data (N, {self.dim}) or (N, P, {self.dim}), got {tuple(x.shape)}. Set dim to the number of "
                "coordinates, None for images."
            )
        points = x.unsqueeze(1) if x.ndim == 2 else x
        samples = torch.einsum("nsij,npj->nspi", torch.linalg.matrix_exp(algebra), points)
        return samples.squeeze(2) if x.ndim == 2 else samples

    def extra_repr(self) -> str:
        """Widths by name, for `print`."""
        return ", ".join(f"{n}={w:.3g}" for n, w in zip(self.names, self.widths.tolist(), strict=True))


def _norms(generators: Float[Tensor, "K I J"]) -> Float[Tensor, "K"]:
    return torch.linalg.vector_norm(generators, dim=(1, 2)) / math.sqrt(2)
