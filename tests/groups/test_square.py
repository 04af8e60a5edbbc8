import itertools

import pytest
import torch

from covary.errors import ShapeError, StructureError
from covary.groups import act
from covary.groups.affine import warp_normalized
from covary.groups.square import DIHEDRAL_NAMES, FINITE_GROUPS, element_matrix, missing_products, product


@pytest.fixture
def image(generator):
    return torch.rand(2, 3, 5, 5, generator=generator)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("identity", lambda x: x),
        ("flip_x", lambda x: x[..., :, [4, 3, 2, 1, 0]]),
        ("flip_y", lambda x: x[..., [4, 3, 2, 1, 0], :]),
        ("transpose", lambda x: x.mT),
        ("anti_transpose", lambda x: x.flip(-1, -2).mT),
        ("quarter_turn", lambda x: x.mT.flip(-2)),  # the right column becomes the top row
        ("half_turn", lambda x: x.flip(-1, -2)),
        ("three_quarter_turn", lambda x: x.mT.flip(-1)),
    ],
)
def test_actions(name, expected, image):
    assert torch.equal(act(image, name), expected(image))


@pytest.mark.parametrize(("second", "first"), [*itertools.product(DIHEDRAL_NAMES, repeat=2)])
def test_product_acts_as_one_after_the_other(second, first, image):
    assert torch.equal(act(image, product(second, first)), act(act(image, first), second))


@pytest.mark.parametrize("name", DIHEDRAL_NAMES)
def test_matrices_move_images_as_the_elements_do(name, image):
    matrix = element_matrix(name, dtype=image.dtype).expand(len(image), 1, 3, 3)
    torch.testing.assert_close(warp_normalized(image, matrix)[:, 0], act(image, name))


def test_the_group_does_not_commute():
    assert product("flip_x", "quarter_turn") != product("quarter_turn", "flip_x")


@pytest.mark.parametrize("group", FINITE_GROUPS)
def test_named_groups_are_closed(group):
    assert missing_products(FINITE_GROUPS[group]) == ()


def test_missing_products():
    assert missing_products(("identity", "flip_x", "flip_y")) == ("half_turn",)
    assert missing_products(("flip_x",)) == ("identity",)


def test_errors(image):
    wide = image[..., :4, :]
    assert act(wide, "half_turn").shape == wide.shape
    for name in ("quarter_turn", "transpose"):
        with pytest.raises(ShapeError, match=rf"square images for '{name}', got \(4, 5\)"):
            act(wide, name)
    with pytest.raises(StructureError, match="symmetry of the square, got 'twist'"):
        act(image, "twist")
