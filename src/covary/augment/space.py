"""Distributions over transforms in three dimensions: of point clouds, and of volumes of voxels."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import grid_sample

from ..errors import ShapeError
from .sampling import white_noise
from .uniform import InitialWidth, Kind, PaddedWidths, UniformWidths

_TURN = "positive turns content about the {} axis by the right-hand rule"
_SCALE = Kind("log-scale", "positive makes content larger, by exp(amount)")
_TURNS = {f"rotation_{axis}": Kind("radians", _TURN.format(axis), angular=True) for axis in "xyz"}
POINT_KINDS = _TURNS | {"scale": _SCALE, "jitter": Kind("standard deviation", "normal noise of every coordinate")}
VOLUME_KINDS = _TURNS | {"scale": _SCALE}
_GENERATORS = {
    "rotation_x": [[0.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]],
    "rotation_y": [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [-1.0, 0.0, 0.0]],
    "rotation_z": [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    "scale": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
}


class Points3d(UniformWidths):
    r"""Point clouds (N, P, 3): :math:`x' = \exp(\sum_i c_i G_i) x` about the origin, then jitter.

    The generators G are the rotations about x, y and z and the scale; the coefficients are c = w ε. Jitter adds w times
    normal numbers to every coordinate of every point.

    Arguments:
        names: The transforms, by default rotation_x, rotation_y, rotation_z, scale and jitter.
        initial_width: The initial width of all, or one each as a sequence or by name; 0 is a stationary point.
        sampler: How noise is sampled: "sobol", evenly over the samples of a datum, or "random", independently.

    Example:
        >>> import torch
        >>> from covary.augment import Points3d
        >>> augment = Points3d(("rotation_z",), initial_width=torch.pi / 2)
        >>> augment.transform(torch.tensor([[[1.0, 0.0, 2.0]]]), torch.ones(1, 1, 1)).round().int().tolist()
        [[[[0, 1, 2]]]]
    """

    def __init__(
        self, names: Sequence[str] = tuple(POINT_KINDS), *, initial_width: InitialWidth = 0.05, sampler: str = "sobol"
    ) -> None:
        super().__init__(POINT_KINDS, names, initial_width, sampler)

    def transform(self, x: Tensor, noise: Float[Tensor, "N S K"]) -> Float[Tensor, "N S P 3"]:
        """Transformed points x of shape (N, P, 3)."""
        if x.ndim != 3 or x.shape[2] != 3:
            raise ShapeError(f"Expected points (N, P, 3), got {tuple(x.shape)}. Put the coordinates last.")
        samples = torch.einsum("nsij,npj->nspi", _maps(self, noise.to(x)), x)
        if "jitter" in self.names:
            own = self.names.index("jitter")
            samples = samples + self.widths[own].to(x) * white_noise(noise[..., own], x.shape[1:]).to(x)
        return samples


class Volume3d(PaddedWidths):
    r"""Volumes (N, C, D, H, W) under :math:`\exp(\sum_i c_i G_i)` about their center, by trilinear interpolation.

    The generators G are the rotations about the axes x (along W), y (along H) and z (along D) and the scale, in units
    of voxels on every axis, so that a rotation is one on volumes that are not cubes too; the coefficients are c = w ε.

    Arguments:
        names: The transforms, by default rotation_x, rotation_y, rotation_z and scale.
        initial_width: The initial width of all, or one each as a sequence or by name; 0 is a stationary point.
        padding: The values outside of a volume: "zeros", "border" or "reflection".
        sampler: How noise is sampled: "sobol", evenly over the samples of a datum, or "random", independently.

    Example:
        >>> import torch
        >>> from covary.augment import Volume3d
        >>> augment = Volume3d(("rotation_z", "scale"), initial_width=0.2)
        >>> augment.transform(torch.rand(2, 1, 6, 6, 6), augment.sample_noise(torch.arange(2), 4, seed=0)).shape
        torch.Size([2, 4, 1, 6, 6, 6])
    """

    def __init__(
        self,
        names: Sequence[str] = tuple(VOLUME_KINDS),
        *,
        initial_width: InitialWidth = 0.05,
        padding: str = "zeros",
        sampler: str = "sobol",
    ) -> None:
        super().__init__(VOLUME_KINDS, names, initial_width, padding, sampler)

    def transform(self, x: Tensor, noise: Float[Tensor, "N S K"]) -> Float[Tensor, "N S C D H W"]:
        """Transformed volumes x of shape (N, C, D, H, W)."""
        if x.ndim != 5:
            raise ShapeError(f"Expected volumes (N, C, D, H, W), got {tuple(x.shape)}. Reshape x to volumes.")
        (num_data, channels), sides, num_samples = x.shape[:2], x.shape[2:], noise.shape[1]
        # content moves by the inverse of the map from output to input coordinates
        maps = _maps(self, -noise.to(x))
        voxels = torch.stack(torch.meshgrid(*[_centers(side, x) for side in sides], indexing="ij"), -1).flip(-1)
        halves = x.new_tensor(sides[::-1]) / 2  # half the sides along x, y and z, in voxels
        read_at = torch.einsum("nsij,dhwj->nsdhwi", maps, voxels) / halves
        # the samples of a datum are stacked along the depth of one grid
        found = grid_sample(x, read_at.flatten(1, 2), padding_mode=self.padding, align_corners=False)
        return found.reshape(num_data, channels, num_samples, *sides).transpose(1, 2)


def _maps(augment: UniformWidths, noise: Float[Tensor, "N S K"]) -> Float[Tensor, "N S 3 3"]:
    """Linear maps exp(Σ c G) of the rotations and the scale."""
    named = augment.by_name(noise)
    algebra = noise.new_zeros(*noise.shape[:2], 3, 3)
    for name, amounts in named.items():
        if name in _GENERATORS:
            algebra = algebra + amounts[..., None, None] * noise.new_tensor(_GENERATORS[name])
    return torch.linalg.matrix_exp(algebra)


def _centers(num_voxels: int, like: Tensor) -> Float[Tensor, "num_voxels"]:
    """Centers of the voxels of one side, from the center of the volume, in voxels."""
    return torch.arange(num_voxels, dtype=like.dtype, device=like.device) - (num_voxels - 1) / 2
