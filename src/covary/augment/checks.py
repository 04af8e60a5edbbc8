"""Checks of the data that augmentations transform."""

from torch import Tensor

from ..errors import ShapeError

_FEW = 4  # channels of an image: gray, with or without alpha, or color


def require_images(x: Tensor) -> None:
    """Raise `ShapeError` unless x are images (N, C, H, W); images (N, H, W, C) would be transformed as H channels.

    These are recognized by a last axis of at most four entries behind two longer ones.
    """
    if x.ndim != 4:
        raise ShapeError(f"Expected images (N, C, H, W), got {tuple(x.shape)}. Reshape x to images.")
    channels, height, width = x.shape[1:]
    if width <= _FEW < min(channels, height):
        raise ShapeError(
            f"Expected images (N, C, H, W), got {tuple(x.shape)}, which has the channels last. Pass x.permute(0, 3, 1, "
            "2)."
        )
