import pytest
import torch
from torch.nn.functional import max_pool2d

from covary.errors import ShapeError, StructureError
from covary.groups import P4, P4M, cyclic, lift, permute_slices, square_group, turn_slices
from covary.layers import Conv, GroupConv, PolyphasePool
from covary.layers import pool as pool_module
from shifted import digits, distance, rolled

EXACT = 1e-10
SHIFTS = [(1, 0), (0, 1), (3, 6), (7, 31), (16, 5), (2, 2)]


def by_hand(images, stride):
    """The pool by its definition, one example and one phase at a time."""
    down, across = stride
    pooled = []
    for image in images:
        grids = [image[:, i::down, j::across] for i in range(down) for j in range(across)]
        largest = max(float(grid.abs().max()) for grid in grids)
        tied = [grid for grid in grids if float(grid.abs().max()) >= largest * (1 - 1e-9)]
        pooled.append(max(tied, key=lambda grid: float(grid.square().sum())))
    return torch.stack(pooled)


def kinds(generator):
    """Batches of six: noise, digits, features of digits, and digits whose background is the largest value."""
    plain = digits(6)
    return {
        "noise": torch.randn(6, 3, 32, 32, generator=generator),
        "digits": plain,
        "features": Conv(1, 3, generator=generator)(plain).detach(),
        "bright background": torch.cat([3 - plain, (3 - plain).square() / 4], 1),
    }


KINDS = ("noise", "digits", "features", "bright background")


@pytest.mark.parametrize("stride", [(2, 2), (1, 1), (2, 1), (1, 4), (4, 2), (16, 16)])
@pytest.mark.parametrize("kind", KINDS)
def test_is_its_definition(kind, stride, generator):
    x = kinds(generator)[kind]
    assert torch.equal(PolyphasePool(stride)(x), by_hand(x, stride))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("stride", [2, (4, 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_commutes_with_a_shift_of_each_example(kind, stride, dtype, generator):
    pool, x = PolyphasePool(stride), kinds(generator)[kind].to(dtype)
    assert distance(pool(rolled(x, SHIFTS)), pool(x)) == 0


@pytest.mark.parametrize("turns", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_commutes_with_quarter_turns(kind, turns, generator):
    pool, x = PolyphasePool(2), kinds(generator)[kind]
    assert distance(pool(x.rot90(turns, (2, 3))), pool(x).rot90(turns, (2, 3))) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_an_example_does_not_see_its_batch(kind, generator):
    pool, x = PolyphasePool(2), kinds(generator)[kind]
    assert torch.equal(torch.cat([pool(example) for example in x.split(1)]), pool(x))


def batch_wide(x):
    return PolyphasePool(2)(x.flatten(0, 1)[None])[0].unflatten(0, x.shape[:2])


def per_channel(x):
    return PolyphasePool(2)(x.flatten(0, 1)[:, None]).unflatten(0, x.shape[:2]).squeeze(2)


def first_of_tied(x):
    """Ties of the maximum are left to the order of phases."""
    grids = torch.stack([x[..., i::2, j::2] for i in range(2) for j in range(2)], 1)
    return grids[torch.arange(len(x)), grids.abs().amax((2, 3, 4)).argmax(1)]


@pytest.mark.parametrize(
    ("control", "kind"),
    [
        (batch_wide, "noise"),
        (batch_wide, "features"),
        (per_channel, "noise"),
        (per_channel, "features"),
        (first_of_tied, "bright background"),
        (lambda x: x[..., ::2, ::2], "digits"),
        (lambda x: max_pool2d(x, 2), "digits"),
    ],
    ids=["batch-wide", "batch-wide, features", "per channel", "per channel, features", "ties", "stride", "max"],
)
def test_controls_do_not_commute_with_shifts(control, kind, generator):
    x = kinds(generator)[kind]
    assert distance(control(rolled(x, SHIFTS)), control(x)) > 0.1


def rounded(x, generator):
    """Equal numbers no longer equal: as layers round that sum in another order at each position."""
    return x * (1 + 4 * torch.finfo(x.dtype).eps * torch.randn(x.shape, generator=generator, dtype=x.dtype))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_rounding_does_not_break_ties(dtype, generator, monkeypatch):
    pool, x = PolyphasePool(2), kinds(generator)["bright background"].to(dtype)
    found = pool(rounded(rolled(x, SHIFTS), generator))
    assert distance(found, pool(x)) < 100 * torch.finfo(dtype).eps
    # The control: with exact comparisons rounding chooses among the phases of a constant background.
    monkeypatch.setattr(pool_module, "TIE", 0.0)
    monkeypatch.setattr(pool_module, "ROUNDING", 0)
    assert distance(pool(rounded(rolled(x, SHIFTS), generator)), pool(x)) > 0.1


def test_phases_that_are_mirror_images_of_one_another(generator):
    x = torch.randint(-9, 10, (1, 2, 8, 8), generator=generator).double()
    periodic = x[..., ::2, ::2].repeat_interleave(2, -1).repeat_interleave(2, -2)
    for image in (periodic, torch.full_like(x, -3.0), torch.zeros_like(x)):
        pooled = PolyphasePool(2)(image.roll((1, 3), (2, 3)))
        assert distance(pooled, PolyphasePool(2)(image)) == 0
    # Not promised: the phases of a mirror image are mirrored versions, and which is the first depends on the shift.
    mirrored = x + x.flip(-1)
    shifted = PolyphasePool((1, 2))(mirrored.roll(1, 3))
    assert distance(shifted, PolyphasePool((1, 2))(mirrored).flip(-1)) == 0
    assert distance(shifted, PolyphasePool((1, 2))(mirrored)) > 0.1


@pytest.mark.parametrize("group", [P4, P4M], ids=str)
@pytest.mark.parametrize("kind", ["digits", "noise"])
def test_slices_of_a_group_share_a_grid_of_the_image(kind, group, generator):
    images = digits(6) if kind == "digits" else torch.randn(6, 1, 32, 32, generator=generator)
    layer, pool = GroupConv(1, 2, group=group, lift=True, generator=generator), PolyphasePool(2, group)

    def fixed(features):
        return turn_slices(features, group, range(group.size))

    def pooled(pool, x):
        return pool(layer(x).detach())

    expected = pooled(pool, images)
    assert distance(fixed(pooled(pool, rolled(images, SHIFTS))), fixed(expected)) < EXACT
    for element in range(1, group.size):
        moved = permute_slices(expected, group, element)
        assert distance(fixed(pooled(pool, group.act(images, element))), fixed(moved)) < EXACT
    # The control: one phase number for all slices is a different grid of the image in each.
    plain = PolyphasePool(2)
    assert distance(fixed(pooled(plain, rolled(images, SHIFTS))), fixed(pooled(plain, images))) > 0.1


def test_group_that_leaves_pixels_alone_is_channels(generator):
    x = torch.randn(4, 6, 8, 8, generator=generator)
    assert torch.equal(PolyphasePool(2, cyclic(3))(x), PolyphasePool(2)(x))
    # The control: turns do not.
    y = lift(torch.randn(4, 3, 8, 8, generator=generator), P4)
    assert not torch.equal(PolyphasePool(2, P4)(y), PolyphasePool(2)(y))


@pytest.mark.parametrize("group", [None, square_group("flips")])
def test_gradients(group, generator):
    x = torch.randn(1, 4, 4, 3, generator=generator, requires_grad=True)
    pool = PolyphasePool((2, 3), group)
    (gradient,) = torch.autograd.grad(pool(x).sum(), x)
    assert sorted(gradient.flatten().unique().tolist()) == [0, 1]
    assert gradient.sum() == pool(x).numel()
    assert torch.autograd.gradcheck(pool, x)
    assert torch.autograd.gradgradcheck(lambda x: pool(x.sin()).square(), x)


def test_passes_nan_on():
    x = torch.arange(16.0).view(1, 1, 4, 4)
    x[0, 0, 0, 1] = torch.nan
    assert PolyphasePool(2)(x).isnan().any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PolyphasePool(0), "1 or more, got 0"),
        (lambda: PolyphasePool((2, -1)), "1 or more"),
        (lambda: PolyphasePool((2, 1), P4), r"over quarter_turns expected equal strides.*got \(2, 1\)"),
        (lambda: PolyphasePool(2)(torch.zeros(1, 1, 4, 5)), r"divides, got \(1, 1, 4, 5\)"),
        (lambda: PolyphasePool(2, P4)(torch.zeros(1, 6, 4, 4)), r"multiple of 4 channels, got \(1, 6, 4, 4\)"),
    ],
)
def test_sizes_that_do_not_fit(make, message):
    with pytest.raises(ShapeError, match=message):
        make()


def test_a_group_that_moves_phases_otherwise_than_pixels_is_refused():
    """A roll by half the width moves the pixels of a 2×2 image to other phases, those of a 4×4 image to their own."""
    halves = cyclic(2, lambda x: x.roll(x.shape[-1] // 2, -1))
    with pytest.raises(StructureError, match="acts on phases as on pixels"):
        PolyphasePool(2, halves)
    assert PolyphasePool(1, halves)(torch.zeros(1, 2, 4, 4)).shape == (1, 2, 4, 4)


def test_print():
    assert repr(PolyphasePool(2, P4)) == "PolyphasePool(stride=(2, 2), quarter_turns)"


def test_squares_are_taken_in_double_precision():
    """(1 + 2⁻¹²)² exceeds 1² + 2·(2⁻⁶)² by 2⁻²⁴, which single precision rounds away: the first phase would win."""
    x = torch.zeros(1, 3, 2, 2, dtype=torch.float32)
    x[0, :, 0, 0] = torch.tensor([1, 2.0**-6, 2.0**-6])
    x[0, :, 0, 1] = torch.tensor([1 + 2.0**-12, 0, 0])
    x = torch.cat([x, x], 3)
    x[:, :, 0, 2:] = torch.tensor([2.0, 0, 0])[:, None]  # one maximum for both phases
    assert torch.equal(PolyphasePool((1, 2))(x), x[..., 1::2])
