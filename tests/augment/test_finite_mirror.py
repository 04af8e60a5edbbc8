"""Mirror images in three dimensions, with learned probabilities."""

import pytest
import torch

from covary.augment import Mirror3d
from covary.errors import DataError, ShapeError, StructureError


@pytest.mark.parametrize("shape", [(5, 3), (2, 2, 3, 4)], ids=["points", "volumes"])
def test_the_mean_over_all_combinations_is_exact(shape, generator):
    x = torch.rand(3, *shape, generator=generator)
    augment = Mirror3d(("mirror_x", "mirror_z"), initial_probability=(0.2, 0.7))
    noise = augment.sample_noise(torch.arange(3), 8, seed=0)  # all four combinations, twice
    found = torch.einsum(
        "ns,ns...->n...", augment.sample_weights(noise), augment.transform(x, noise).square().cumsum(-1)
    )

    def mirrored(data, name):
        if len(shape) == 4:
            return data.flip({"mirror_x": -1, "mirror_z": -3}[name])
        sign = torch.tensor({"mirror_x": [-1.0, 1.0, 1.0], "mirror_z": [1.0, 1.0, -1.0]}[name])
        return data * sign

    expected = 0
    for probability, data in (
        (0.8 * 0.3, x),
        (0.2 * 0.3, mirrored(x, "mirror_x")),
        (0.8 * 0.7, mirrored(x, "mirror_z")),
        (0.2 * 0.7, mirrored(mirrored(x, "mirror_x"), "mirror_z")),
    ):
        expected = expected + probability * data.square().cumsum(-1)
    torch.testing.assert_close(found, expected)


def test_what_does_not_fit_is_named():
    with pytest.raises(ShapeError, match=r"points \(N, P, 3\) or volumes"):
        Mirror3d().transform(torch.rand(2, 3), torch.zeros(2, 1, 1))
    with pytest.raises(StructureError, match="different names among mirror_x, mirror_y, mirror_z"):
        Mirror3d(("flip_x",))
    with pytest.raises(DataError, match="above 0 and below 1"):
        Mirror3d(initial_probability=1.0)
