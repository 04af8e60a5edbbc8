import copy
import itertools

import pytest
import torch

from covary.errors import StructureError
from covary.groups import P4, P4M, Group, act, cyclic, lift, permute_slices, square_group, turn_slices
from covary.groups.finite import align, alike, turns_shifts

PERMUTATIONS = list(itertools.permutations(range(3)))


def flip_odd(images, element):
    inversions = sum(a > b for a, b in itertools.combinations(PERMUTATIONS[element], 2))
    return images.flip(-1) if inversions % 2 else images


S3 = Group(
    "S3",
    [[PERMUTATIONS.index(tuple(g[h[i]] for i in range(3))) for h in PERMUTATIONS] for g in PERMUTATIONS],
    flip_odd,  # odd permutations mirror the image
)
GROUPS = {
    "P4": P4,
    "P4M": P4M,
    "flips": square_group("flips"),
    "mirror": square_group(("identity", "flip_x")),
    "trivial": cyclic(1),
    "cyclic without pixels": cyclic(3),
    "cyclic by turns": cyclic(8, "quarter_turn"),  # element 4 moves no pixel
    "cyclic by thirds": cyclic(3, lambda x: x.roll(x.shape[-1] // 3, -1)),
    "S3": S3,
}


@pytest.fixture
def image(generator):
    return torch.rand(2, 3, 6, 6, generator=generator)


@pytest.mark.parametrize("name", GROUPS)
def test_products_act_as_one_after_the_other(name, image):
    group = GROUPS[name]
    for second, first in itertools.product(range(group.size), repeat=2):
        one_after_other = group.act(group.act(image, first), second)
        assert torch.equal(group.act(image, group.table[second][first]), one_after_other)


@pytest.mark.parametrize("name", GROUPS)
def test_inverses(name, image):
    group = GROUPS[name]
    for element, inverse in enumerate(group.inverses):
        assert group.table[element][inverse] == group.table[inverse][element] == 0
        assert torch.equal(group.act(group.act(image, element), inverse), image)


def test_named_groups(image):
    assert (P4.size, P4M.size) == (4, 8)
    for turns in range(4):
        assert torch.equal(P4.act(image, turns), torch.rot90(image, turns, (-2, -1)))
    assert all(P4.table[g][h] == P4.table[h][g] for g in range(4) for h in range(4))
    assert any(P4M.table[g][h] != P4M.table[h][g] for g in range(8) for h in range(8))
    assert str(P4) == "quarter_turns"


@pytest.mark.parametrize("name", GROUPS)
def test_an_element_permutes_the_slices_of_a_lifted_image(name, image):
    group = GROUPS[name]
    for element in range(group.size):
        lifted = lift(group.act(image, element), group)
        assert torch.equal(lifted, permute_slices(lift(image, group), group, element))
        if (
            name in ("P4", "P4M") and group.inverses[element] != element
        ):  # the control: the inverse is another permutation
            assert not torch.equal(lifted, permute_slices(lift(image, group), group, group.inverses[element]))


@pytest.mark.parametrize("name", GROUPS)
def test_permutations_of_slices_follow_the_table(name, generator):
    group = GROUPS[name]
    features = torch.rand(2, 3 * group.size, 2, 2, generator=generator)
    for second, first in itertools.product(range(group.size), repeat=2):
        together = permute_slices(features, group, group.table[second][first])
        assert torch.equal(together, permute_slices(permute_slices(features, group, first), group, second))


def test_lifted_channels_have_the_element_fastest(image):
    lifted = lift(image, P4)
    assert lifted.shape == (2, 12, 6, 6)
    for channel, turns in itertools.product(range(3), range(4)):
        assert torch.equal(lifted[:, channel * 4 + turns], torch.rot90(image[:, channel], -turns, (-2, -1)))


@pytest.mark.parametrize("name", GROUPS)
def test_in_the_fixed_frame_a_lifted_image_is_repeated(name, image):
    group = GROUPS[name]
    fixed = turn_slices(lift(image, group), group, range(group.size))
    assert torch.equal(fixed, image.repeat_interleave(group.size, 1))
    assert torch.equal(turn_slices(fixed, group, group.inverses), lift(image, group))


@pytest.mark.parametrize("name", GROUPS)
def test_align(name, generator):
    group = GROUPS[name]
    slices = torch.rand(2, 3, group.size, 6, 6, generator=generator)
    aligned = align(slices, group)
    for h, u in itertools.product(range(group.size), repeat=2):
        assert torch.equal(aligned[:, :, h, u], group.act(slices[:, :, group.table[h][u]], u))


def test_a_group_can_be_copied():
    other = copy.deepcopy(P4)
    assert other.table == P4.table
    assert torch.equal(other.act(torch.eye(3), 1), P4.act(torch.eye(3), 1))


def still(images, element):
    return images


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Group("g", [[0, 1], [1]], still), r"must be square with entries 0 to 1, .*got \(\(0, 1\), \(1,\)\)"),
        (lambda: Group("g", [[0, 1], [1, 2]], still), "entries 0 to 1"),
        (lambda: Group("g", [], still), "must be square"),
        (
            lambda: Group("g", [[1, 0], [0, 1]], still),
            r"Element 0 of group 'g' must be the identity, got the row \(1, 0",
        ),
        (lambda: Group("g", [[0, 1], [1, 1]], still), r"must have an inverse, but row \(1, 1\) of element 1"),
        (
            # a Latin square with identity and inverses whose products depend on brackets
            lambda: Group(
                "g", [[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]], still
            ),
            "must be associative",
        ),
        (lambda: cyclic(2, "quarter_turn"), "action of group .* must follow its table, but 1, then 1, .* product 0"),
        (lambda: cyclic(2, lambda x: x[..., :-1]), "must permute the pixels of an image"),
        (lambda: cyclic(2, lambda x: -x), "Element 1 of group .* must permute the pixels"),
        (lambda: cyclic(0), "order of 1 or more, got 0"),
        (lambda: square_group("spins"), "one of flips, quarter_turns, dihedral, .*got 'spins'"),
        (lambda: square_group(("flip_x", "identity")), "'identity' first"),
        (lambda: square_group(("identity", "flip_x", "flip_y")), "products half_turn are missing"),
        (lambda: cyclic(2, "twist"), "symmetry of the square, got 'twist'"),
        (lambda: Group("g", P4.table, lambda x, g: act(x, "identity" if g else "flip_x")), "must follow its table"),
    ],
)
def test_invalid_groups_are_refused(build, message):
    with pytest.raises(StructureError, match=message):
        build()


@pytest.mark.parametrize(
    "meet",
    [
        lift,
        lambda features, group: turn_slices(features, group, group.inverses),
        align,
    ],
    ids=["lift", "turn_slices", "align"],
)
def test_an_action_is_checked_again_on_a_new_size(meet):
    """Three rolls by a third of 32 pixels, rounded down, leave two of them."""
    thirds = cyclic(3, lambda x: x.roll(x.shape[-1] // 3, -1))
    meet(torch.zeros(2, 3, 5, 33), thirds)
    with pytest.raises(StructureError, match="must follow its table, but 2, then 1, moves pixels of a 5×32 image"):
        meet(torch.zeros(2, 3, 5, 32), thirds)
    cropping = Group("g", [[0, 1], [1, 0]], lambda x, g: x[..., :12].flip(-1) if g else x)
    with pytest.raises(StructureError, match="a 12×13 image lost pixels or its shape"):
        meet(torch.zeros(2, 2, 12, 13), cropping)


def test_a_size_is_checked_once():
    sizes = []
    noted = Group("g", [[0, 1], [1, 0]], lambda x, g: (sizes.append(tuple(x.shape)), x.flip(-1) if g else x)[1])
    noted.check_on((4, 5))
    number = sizes.count((4, 5))
    noted.check_on((4, 5))
    assert sizes.count((4, 5)) == number > 0
    assert noted.checked == {(12, 12), (4, 5)}


def test_groups_are_compared_by_table_and_action():
    assert alike(P4, copy.deepcopy(P4))
    assert alike(P4, square_group(("identity", "quarter_turn", "half_turn", "three_quarter_turn")))
    backwards = Group("P4 backwards", P4.table, lambda x, g: P4.act(x, P4.inverses[g]))
    assert not any(alike(P4, other) for other in (P4M, cyclic(4), square_group("flips"), backwards))


def scrambled(images, element):
    """The first two pixels swapped: no shift is mapped to a shift."""
    order = torch.tensor([1, 0, *range(2, images.shape[-1])])
    return images[..., order] if element else images


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        *((GROUPS[name], True) for name in ("P4", "P4M", "flips", "mirror", "cyclic by turns", "S3")),
        *((GROUPS[name], False) for name in ("trivial", "cyclic without pixels", "cyclic by thirds")),
        (Group("scrambled", [[0, 1], [1, 0]], scrambled), False),
    ],
    ids=lambda value: str(value),
)
def test_which_groups_turn_shifts(group, expected):
    assert turns_shifts(group) == expected


def test_an_action_may_be_that_of_a_smaller_group():
    turned = Group("P4 by its half turn", P4.table, lambda x, g: act(x, "half_turn") if g % 2 else x)
    assert torch.equal(turned.act(torch.eye(3)[:2], 3), torch.eye(3)[:2].flip(-1, -2))
