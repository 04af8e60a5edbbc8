"""Data in every form, read as batches with identities."""

import pytest
import torch
from torch.utils.data import TensorDataset

from covary.batches import as_batches
from covary.errors import DataError

X, Y = torch.arange(14.0).view(7, 2), torch.arange(7)


def joined(batches):
    parts = list(batches)
    return [torch.cat([part[i] for part in parts]) for i in range(3)]


@pytest.mark.parametrize("data", [(X, Y), TensorDataset(X, Y), [(X[:4], Y[:4]), (X[4:], Y[4:])]])
def test_identities_are_positions(data):
    batches = as_batches(data, 3)
    for _ in range(2):  # readable again
        x, y, identity = joined(batches)
        assert torch.equal(x, X)
        assert torch.equal(y, Y)
        assert torch.equal(identity, torch.arange(7))


def test_given_identities_are_kept():
    identity = torch.tensor([9, 8, 7, 6, 5, 4, 3])
    assert torch.equal(joined(as_batches((X, Y, identity), 2))[2], identity)
    assert torch.equal(joined(as_batches([(X, Y, identity)]))[2], identity)


def test_a_subset_is_random_without_repetition_and_keeps_identities():
    subset = as_batches((X, Y), 2).subset(4, seed=3)
    x, y, identity = joined(subset)
    assert len(set(identity.tolist())) == 4
    assert torch.equal(x, X[identity])
    assert torch.equal(y, Y[identity])
    assert torch.equal(joined(as_batches((X, Y), 3).subset(4, seed=3))[2], identity)
    others = {tuple(joined(as_batches((X, Y)).subset(4, seed=s))[2].tolist()) for s in range(5)}
    assert len(others) > 1


def test_every_datum_is_equally_likely_in_a_subset():
    counts = torch.zeros(7)
    for seed in range(700):
        counts[joined(as_batches((X, Y)).subset(2, seed=seed))[2]] += 1
    assert bool(((counts - 200).abs() < 60).all())  # five standard deviations


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((X, Y[:3]), "equally many"),
        (iter([(X, Y)]), "more than once"),
        (X, "pair of tensors"),
        ([X], "batches \\(x, y\\)"),
        ([], "empty"),
    ],
)
def test_what_cannot_be_read_is_refused(data, message):
    with pytest.raises(DataError, match=message):
        list(as_batches(data))


def test_a_part_of_a_stream_is_refused():
    with pytest.raises(DataError, match="iterable of batches"):
        as_batches([(X, Y)]).subset(2, seed=0)
    with pytest.raises(DataError, match="subset of 1 to 7 data"):
        as_batches((X, Y)).subset(8, seed=0)
