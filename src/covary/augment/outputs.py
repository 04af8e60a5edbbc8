r"""How outputs move with the input: the inverse actions :math:`\rho(g)^{-1}` of sampled transforms g on outputs.

A transform of the input may move what the network is to say: a flip turns "left" into "right", and keypoints, boxes and
masks move with the image. The average :math:`\hat f(x) = \sum_s w_s\, \rho(g_s)^{-1} f(g_s x)` moves each sample's
output back before the mean, so that it is equivariant where a plain mean would be invariant. Coordinates are those of
`covary.groups`: x to the right, y down, and matrices from output to input coordinates. A point p of the image is at
:math:`M^{-1} p` after the transform with matrix M, so that M moves a prediction back.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .._text import require_choice
from ..errors import ShapeError, StructureError
from ..groups.affine import check_padding, warp_normalized
from ..groups.square import product
from .color import ColorJitter
from .composed import Composed, affine_maps
from .finite import FiniteGroup, Mirror3d
from .protocol import Augmentation

Coordinates = Literal["pixels", "normalized"]
Samples = Float[Tensor, "N S ..."]  # outputs, or noise, of S samples of each datum
_TURNING = ("rotation", "shear")


@runtime_checkable
class OutputAction(Protocol):
    r"""How outputs move with the input, as the inverse :math:`\rho(g)^{-1}` on the outputs of sampled transforms.

    Any object with this method is one; it has no parameters to learn.

    Example:
        >>> import torch
        >>> from covary.augment import OutputAction, Rotation2d
        >>> class Vectors:  # outputs (N, S, 2) that rotate as the points (N, 2) of Rotation2d do
        ...     def inverse(self, outputs, augment, noise, input_shape):
        ...         angles = -augment.coefficients(noise)[..., 0]
        ...         cos, sin, (x, y) = angles.cos(), angles.sin(), outputs.unbind(-1)
        ...         return torch.stack([cos * x - sin * y, sin * x + cos * y], dim=-1)
        >>> isinstance(Vectors(), OutputAction)
        True
    """

    def inverse(self, outputs: Samples, augment: Augmentation, noise: Samples, input_shape: tuple[int, ...]) -> Samples:
        """Outputs of transformed samples, moved back to the datum that they are samples of.

        Arguments:
            outputs: The outputs f(g x) of each sample.
            augment: The distribution that transformed the samples.
            noise: The noise that they were transformed with.
            input_shape: The shape of one datum, such as (C, H, W).
        """
        ...


class PermutedOutputs:
    """Outputs that are permuted by elements of a finite group: classes "left" and "right" under a flip.

    The permutations of a group's elements have to multiply as the elements do. Elements that are not named, and
    transforms other than those of `FiniteGroup` and `Mirror3d`, permute nothing.

    Arguments:
        permutations: For each element by name, the class that every class becomes: {"flip_x": (1, 0, 2)} exchanges the
            first two of three classes.

    Example:
        >>> import covary, torch
        >>> from covary.augment import FiniteGroup, PermutedOutputs
        >>> flip = FiniteGroup(("identity", "flip_x"), initial_probability=0.5)
        >>> action = PermutedOutputs({"flip_x": (1, 0)})
        >>> network = covary.Averaged(covary.networks.mlp(16, 8, 2), flip, num_samples=2, output_action=action)
        >>> x = torch.rand(5, 1, 4, 4)
        >>> torch.allclose(network(x.flip(-1)), network(x).flip(1), atol=1e-6)  # the mirrored image swaps the classes
        True
    """

    def __init__(self, permutations: Mapping[str, Sequence[int]]) -> None:
        self.permutations = {name: tuple(entries) for name, entries in permutations.items()}
        sizes = {len(entries) for entries in self.permutations.values()}
        if len(sizes) != 1 or any(sorted(p) != list(range(len(p))) for p in self.permutations.values()):
            raise StructureError(
                "Expected permutations of the same outputs, each number from 0 once, got "
                f"{self.permutations}. Pass for example {{'flip_x': (1, 0, 2)}}."
            )
        (self.num_outputs,) = sizes

    def inverse(self, outputs: Samples, augment: Augmentation, noise: Samples, input_shape: tuple[int, ...]) -> Samples:
        """Outputs (N, S, C, ...) with the entry of each class taken from the class that it became."""
        if outputs.shape[2] != self.num_outputs:
            raise ShapeError(
                f"Expected {self.num_outputs} outputs, one per entry of the permutations, got {outputs.shape[2]}. Pass "
                "permutations of all outputs."
            )
        found, missing = outputs, set(self.permutations)
        for part, own in reversed(_parts(augment, noise)):  # the last transform is undone first
            if isinstance(part, FiniteGroup | Mirror3d):
                missing -= set(part.names)
                places = self._table(part).to(outputs.device)[own.squeeze(-1).long()]  # (N, S, C)
                rows = places.reshape(*places.shape, *[1] * (outputs.ndim - 3)).expand(found.shape)
                found = found.gather(2, rows)  # not take_along_dim: torch.export would fix the number of data in it
        if missing:
            raise StructureError(
                f"Expected permutations of elements of the augmentation, got {', '.join(sorted(missing))}, which it "
                "does not have. Use a FiniteGroup or Mirror3d with these elements."
            )
        return found

    def _table(self, part: FiniteGroup | Mirror3d) -> Int[Tensor, "G C"]:
        """Permutation of each element of a part, by the number of the element in its noise."""
        same = tuple(range(self.num_outputs))
        own = {name: self.permutations.get(name, same) for name in part.names} | {"identity": same}
        if isinstance(part, FiniteGroup):
            for first in part.elements:
                for second in part.elements:
                    _require_product(own, first, second, product(second, first))
            return torch.tensor([own[name] for name in part.elements], device="cpu")
        rows = [own["identity"]]
        for name in part.names:  # bit k of the number is the k-th mirror
            for other in part.names:
                if _followed(own[name], own[other]) != _followed(own[other], own[name]):
                    raise StructureError(f"Expected permutations that commute, got those of '{name}' and '{other}'.")
            _require_product(own, name, name, "identity")
            rows += [_followed(row, own[name]) for row in rows]
        return torch.tensor(rows, device="cpu")

    def __repr__(self) -> str:
        return f"PermutedOutputs({self.permutations})"


class _InCoordinates:
    def __init__(self, coordinates: Coordinates | str = "pixels") -> None:
        require_choice("coordinates", coordinates, ("pixels", "normalized"))
        self.coordinates = coordinates

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.coordinates!r})"


class MovedPoints(_InCoordinates):
    """Outputs (N, 2P) that are points (x, y, x, y, …) of the image, such as keypoints, and move with it.

    Arguments:
        coordinates: "pixels", where the center of the first pixel is (0, 0), or "normalized", from −1 to 1 across the
            image, x to the right and y down.

    Example:
        >>> import torch
        >>> from covary.augment import FiniteGroup, MovedPoints
        >>> flip, noise = FiniteGroup(("identity", "flip_x")), torch.tensor([[[0.0], [1.0]]])
        >>> MovedPoints("pixels").inverse(torch.tensor([[[2.0, 3.0], [2.0, 3.0]]]), flip, noise, (1, 8, 8))
        tensor([[[2., 3.],
                 [5., 3.]]])
    """

    def inverse(self, outputs: Samples, augment: Augmentation, noise: Samples, input_shape: tuple[int, ...]) -> Samples:
        """Points (N, S, 2P) of the samples as points of the datum."""
        maps, points = _maps(outputs, augment, noise, input_shape), _points(outputs, 2)
        half, center = _units(self.coordinates, points, input_shape)
        moved = torch.einsum("nsij,nspj->nspi", maps[..., :2, :2], (points - center) / half) + maps[..., None, :2, 2]
        return (moved * half + center).flatten(2)


class MovedBoxes(_InCoordinates):
    """Outputs (N, 4P) that are boxes (x1, y1, x2, y2), upper left and lower right corners, and move with the image.

    For flips, quarter turns, shifts and scales, which map boxes to boxes. A box that is rotated by another angle or
    sheared is none; predict its four corners as `MovedPoints` there.

    Arguments:
        coordinates: "pixels" or "normalized", as in `MovedPoints`.

    Example:
        >>> import torch
        >>> from covary.augment import FiniteGroup, MovedBoxes
        >>> flip, noise = FiniteGroup(("identity", "flip_x")), torch.tensor([[[1.0]]])
        >>> MovedBoxes("pixels").inverse(torch.tensor([[[0.0, 1.0, 2.0, 4.0]]]), flip, noise, (1, 8, 8))
        tensor([[[5., 1., 7., 4.]]])
    """

    def inverse(self, outputs: Samples, augment: Augmentation, noise: Samples, input_shape: tuple[int, ...]) -> Samples:
        """Boxes (N, S, 4P) of the samples as boxes of the datum."""
        if turning := [name for name in augment.names if name in _TURNING]:
            raise StructureError(
                f"Expected transforms that map boxes to boxes, got {' and '.join(turning)}. Predict the four corners "
                "of each box as MovedPoints, or leave these out of the augmentation."
            )
        maps, boxes = _maps(outputs, augment, noise, input_shape), _points(outputs, 4)
        half, center = _units(self.coordinates, boxes, input_shape)
        corners = (boxes.unflatten(-1, (2, 2)) - center) / half  # (N, S, P, corner, x or y)
        middles, sides = corners.mean(-2), corners[..., 1, :] - corners[..., 0, :]
        middles = torch.einsum("nsij,nspj->nspi", maps[..., :2, :2], middles) + maps[..., None, :2, 2]
        sides = torch.einsum("nsij,nspj->nspi", maps[..., :2, :2].abs(), sides)
        moved = torch.stack([middles - sides / 2, middles + sides / 2], dim=-2)
        return (moved * half + center).flatten(2)


class MovedMasks:
    """Outputs (N, C, H, W) at positions of the image, such as the logits of a mask, that move with it.

    Outputs are interpolated bilinearly; their grid may be coarser than that of the image.

    Arguments:
        padding: The outputs at positions that a transform moved out of the image: "border" repeats the nearest ones,
            or "zeros", or "reflection".

    Example:
        >>> import torch
        >>> from covary.augment import FiniteGroup, MovedMasks
        >>> flip, noise = FiniteGroup(("identity", "flip_x")), torch.tensor([[[1.0]]])
        >>> MovedMasks().inverse(torch.tensor([[[[[1.0, 2.0, 3.0]]]]]), flip, noise, (1, 1, 3)).flatten()
        tensor([3., 2., 1.])
    """

    def __init__(self, padding: Literal["border", "zeros", "reflection"] | str = "border") -> None:
        self.padding = check_padding(padding)

    def inverse(self, outputs: Samples, augment: Augmentation, noise: Samples, input_shape: tuple[int, ...]) -> Samples:
        """Masks (N, S, C, H, W) of the samples as masks of the datum."""
        if outputs.ndim != 5:
            raise ShapeError(
                f"Expected outputs (N, C, H, W) at positions, got (N, {', '.join(map(str, outputs.shape[2:]))}). Use "
                "MovedPoints for points and PermutedOutputs for classes."
            )
        back = torch.linalg.inv(_maps(outputs, augment, noise, input_shape))
        moved = warp_normalized(outputs.flatten(0, 1), back.flatten(0, 1).unsqueeze(1), self.padding)
        return moved.squeeze(1).unflatten(0, outputs.shape[:2])

    def __repr__(self) -> str:
        return f"MovedMasks({self.padding!r})"


def _parts(augment: Augmentation, noise: Tensor) -> list[tuple[Augmentation, Tensor]]:
    """Augmentations that are not composed, in their order, each with its noise."""
    if not isinstance(augment, Composed):
        return [(augment, noise)]
    own = zip(augment.parts, noise.split(augment.noise_sizes, dim=-1), strict=True)
    return [pair for part, part_noise in own for pair in _parts(part, part_noise)]


def _maps(
    outputs: Tensor, augment: Augmentation, noise: Tensor, input_shape: tuple[int, ...]
) -> Float[Tensor, "N S 3 3"]:
    """Matrices of the samples from output to input coordinates on [−1, 1]²; colors move nothing."""
    if len(input_shape) != 3:
        raise ShapeError(f"Expected images (N, C, H, W), got (N, {', '.join(map(str, input_shape))}). Reshape them.")
    total = torch.eye(3, dtype=outputs.dtype, device=outputs.device).expand(*noise.shape[:2], 3, 3)
    for part, own in _parts(augment, noise):
        if isinstance(part, ColorJitter):
            continue
        maps = affine_maps(part, own.to(outputs), input_shape[-2], input_shape[-1])
        if maps is None:
            raise StructureError(
                f"Expected affine transforms, flips, quarter turns and colors, got {type(part).__name__}, which moves "
                "positions in a way that is not known. Write an OutputAction for it."
            )
        total = total @ maps
    return total


def _points(outputs: Float[Tensor, "N S ..."], size: int) -> Float[Tensor, "N S P size"]:
    if outputs.ndim != 3 or outputs.shape[2] % size:
        kind = "points (x, y)" if size == 2 else "boxes (x1, y1, x2, y2)"
        raise ShapeError(
            f"Expected outputs (N, {size}P), the numbers of {kind}, got (N, {', '.join(map(str, outputs.shape[2:]))})."
            " Flatten them in the network."
        )
    return outputs.unflatten(2, (-1, size))


def _units(coordinates: str, like: Tensor, input_shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Half of the image's width and height, and its center, in the unit of the coordinates."""
    sides = like.new_tensor([input_shape[-1], input_shape[-2]])
    return (sides / 2, (sides - 1) / 2) if coordinates == "pixels" else (torch.ones_like(sides), 0 * sides)


def _followed(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """Permutation that does the first, then the second."""
    return tuple(second[entry] for entry in first)


def _require_product(own: Mapping[str, tuple[int, ...]], first: str, second: str, both: str) -> None:
    if (expected := _followed(own[first], own[second])) != own[both]:
        raise StructureError(
            f"Expected permutations that multiply as the elements do: '{first}', then '{second}', is '{both}', with "
            f"{expected}, got {own[both]}. Set the permutation of '{both}'."
        )
