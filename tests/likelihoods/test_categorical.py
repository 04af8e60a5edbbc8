"""A class per position, and targets that are ignored."""

import warnings

import pytest
import torch
from torch.autograd import gradcheck
from torch.nn.functional import cross_entropy

from covary._text import warn_once
from covary.errors import DataError, ShapeError, StructureError
from covary.likelihoods import Categorical, given
from oracles import likelihoods as oracle

NUM_CLASSES, POSITIONS = 3, (2, 2)
DENSE = Categorical(num_classes=NUM_CLASSES, ignore_index=-100)


@pytest.fixture
def dense(generator):
    """Outputs (N, C, H, W) and targets (N, H, W), some of them ignored."""
    outputs = 2 * torch.randn(4, NUM_CLASSES, *POSITIONS, generator=generator)
    targets = torch.randint(NUM_CLASSES, (4, *POSITIONS), generator=generator)
    targets[0, 0, 1] = targets[2, 1] = -100
    targets[3] = -100
    return outputs, targets


def test_log_prob_is_minus_the_cross_entropy_of_torch(dense):
    outputs, targets = dense
    DENSE.check(outputs, targets)
    expected = -cross_entropy(outputs, targets, reduction="none", ignore_index=-100).flatten(1).sum(1)
    for f, y in ((outputs, targets), (outputs.flatten(1), targets), (outputs.flatten(1), targets.flatten(1))):
        DENSE.check(f, y)
        torch.testing.assert_close(DENSE.log_prob_each(f, y), expected)
    torch.testing.assert_close(DENSE.log_prob(outputs, targets), expected.sum())
    assert expected[3] == 0


def test_the_root_gives_the_hessian_and_nothing_where_targets_are_ignored(dense):
    outputs, targets = dense
    flat = outputs.flatten(1)

    def log_prob(f, y):
        return oracle.categorical_positions(f.reshape(NUM_CLASSES, -1)[None], y.reshape(1, -1), -100)[0]

    expected = oracle.curvature(log_prob, flat, targets)
    known = given(DENSE, targets)
    columns = [known.root_product(flat, e.expand_as(flat)) for e in torch.eye(flat.shape[1])]
    found = sum(torch.einsum("ni,nj->nij", column, column) for column in columns)
    torch.testing.assert_close(found, expected)
    assert not expected[3].any()
    all_of_them = [DENSE.root_product(flat, e.expand_as(flat)) for e in torch.eye(flat.shape[1])]
    control = sum(torch.einsum("ni,nj->nij", column, column) for column in all_of_them)
    assert (control - expected).abs().max() > 0.1, "the control: without targets nothing is ignored"


def test_positions_may_keep_their_axes(dense, generator):
    outputs, targets = dense
    epsilon = torch.randn(outputs.shape, generator=generator)
    for likelihood in (DENSE, given(DENSE, targets)):
        expected = likelihood.root_product(outputs, epsilon)
        assert expected.shape == outputs.shape
        torch.testing.assert_close(likelihood.root_product(outputs.flatten(1), epsilon.flatten(1)), expected.flatten(1))
    torch.testing.assert_close(DENSE.mean(outputs), outputs.softmax(1))
    torch.testing.assert_close(DENSE.mean(outputs.flatten(1)), outputs.softmax(1).flatten(2))


def test_gradients(dense, generator):
    outputs, targets = dense
    likelihood = Categorical(1.4, learn_temperature=True, num_classes=NUM_CLASSES, ignore_index=-100)
    epsilon = torch.randn(outputs.shape, generator=generator)
    inputs = [outputs.requires_grad_(), epsilon.requires_grad_(), likelihood.log_temperature]
    assert gradcheck(lambda f, e, _: given(likelihood, targets).root_product(f, e), inputs)
    assert gradcheck(lambda f, e, _: likelihood.log_prob(f, targets), inputs)


def test_ignored_data_are_as_if_they_were_not_there(generator):
    outputs, targets = torch.randn(5, 4, generator=generator), torch.tensor([0, -100, 3, 1, -100])
    likelihood, kept = Categorical(ignore_index=-100), targets >= 0
    likelihood.check(outputs, targets)
    torch.testing.assert_close(
        likelihood.log_prob(outputs, targets), Categorical().log_prob(outputs[kept], targets[kept])
    )
    epsilon = torch.randn(5, 4, generator=generator)
    product = given(likelihood, targets).root_product(outputs, epsilon)
    torch.testing.assert_close(product[kept], Categorical().root_product(outputs[kept], epsilon[kept]))
    assert not product[~kept].any()


def test_without_ignored_targets_it_is_itself():
    plain = Categorical()
    assert given(plain, torch.tensor([0, 1])) is plain


IMAGES, LABELS = torch.zeros(2, 3, 4, 4), torch.zeros(2, 4, 4, dtype=torch.int64)
BAD = [
    (Categorical(), IMAGES, LABELS, ShapeError, r"Use Categorical\(num_classes=C\) for a class per position"),
    (Categorical(), IMAGES.flatten(1), LABELS, ShapeError, r"Use Categorical\(num_classes=C\)"),
    (Categorical(num_classes=4), IMAGES, LABELS, ShapeError, r"outputs \(N, 4, ...\), .*got \(2, 3, 4, 4\)"),
    (Categorical(num_classes=3), IMAGES.permute(0, 2, 3, 1), LABELS, ShapeError, "the classes in the second axis"),
    (Categorical(num_classes=5), IMAGES.flatten(1), LABELS, ShapeError, r"outputs \(N, 5, ...\)"),
    (Categorical(num_classes=3), IMAGES, LABELS[:, 0], ShapeError, r"shape \(2, 4, 4\) .*got \(2, 4\)"),
    (Categorical(num_classes=3), IMAGES.flatten(1), LABELS[:, 0], ShapeError, r"shape \(2, 16\) .*got \(2, 4\)"),
    (Categorical(num_classes=3), IMAGES, LABELS + 3, DataError, "Class 3 is out of range: expected 0 to 2"),
    (Categorical(), IMAGES[..., 0, 0], torch.tensor([1, 3]), DataError, "counted from 0: subtract 1.$"),
    (Categorical(), IMAGES[..., 0, 0], torch.tensor([0, 3]), DataError, "Renumber the targets"),
    (Categorical(num_classes=3), IMAGES, LABELS - 100, DataError, r"Pass Categorical\(ignore_index=-100\) to ignore"),
    (Categorical(num_classes=3, ignore_index=-1), IMAGES, LABELS - 2, DataError, "Class -2 is out of range"),
]


@pytest.mark.parametrize(("likelihood", "outputs", "targets", "error", "message"), BAD)
def test_positions_that_do_not_fit(likelihood, outputs, targets, error, message):
    with pytest.raises(error, match=message) as caught:
        likelihood.check(outputs, targets)
    assert "\n" not in str(caught.value)


def test_choices_that_mean_nothing():
    with pytest.raises(StructureError, match="num_classes of 2 or more, got 1"):
        Categorical(num_classes=1)
    with pytest.raises(StructureError, match="a negative ignore_index, which is no class, got 2"):
        Categorical(ignore_index=2)


def test_columns_are_one_fewer_than_classes_and_give_the_hessian_with_its_gradient(dense):
    outputs, targets = dense
    flat = outputs.flatten(1).requires_grad_()
    known = given(DENSE, targets)
    columns = list(known.root_columns(flat))
    assert len(columns) == (NUM_CLASSES - 1) * 4
    identity = torch.eye(flat.shape[1])
    all_columns = [known.root_product(flat, column.expand_as(flat)) for column in identity]
    ours, theirs = gram(columns), gram(all_columns)
    torch.testing.assert_close(ours, theirs)
    direction = torch.randn(ours.shape, generator=torch.Generator().manual_seed(1))
    for first, second in zip(twice(ours, flat, direction), twice(theirs, flat, direction), strict=True):
        torch.testing.assert_close(first, second)


def test_columns_are_finite_where_a_class_is_certain_or_all_are_alike():
    outputs = torch.tensor([[800.0, 0.0, -800.0], [-800.0, 0.0, 800.0], [0.0, 0.0, 0.0]], requires_grad=True)
    found = gram(list(Categorical(0.5).root_columns(outputs)))
    p = (outputs / 0.5).softmax(1).detach()
    torch.testing.assert_close(found, 4 * (torch.diag_embed(p) - p[:, :, None] * p[:, None]))
    assert torch.autograd.grad(found.sum(), outputs)[0].isfinite().all()


def gram(columns):
    """The sum of v vᵀ for every datum."""
    return sum(v[:, :, None] * v[:, None] for v in columns)


def twice(value, inputs, direction):
    """The first derivative along a direction, and a second one."""
    (first,) = torch.autograd.grad(value, inputs, direction, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), inputs)
    return first, second


@pytest.mark.parametrize("likelihood", [Categorical(), Categorical(num_classes=3)])
def test_probabilities_in_place_of_logits_are_named(likelihood, generator):
    logits, targets = torch.randn(4, 3, generator=generator), torch.tensor([0, 1, 2, 0])
    warn_once.cache_clear()
    with pytest.warns(UserWarning, match="like probabilities.*Return logits, without a softmax"):
        likelihood.check(logits.softmax(1), targets)
    warn_once.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for outputs in (logits, logits.log_softmax(1), torch.zeros(4, 3)):
            likelihood.check(outputs, targets)
