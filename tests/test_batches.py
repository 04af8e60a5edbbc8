"""Data in every form, read as batches with identities."""

import warnings

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, SubsetRandomSampler, TensorDataset

import covary
from covary._text import warn_once
from covary.batches import as_batches
from covary.errors import DataError

X, Y = torch.arange(14.0).view(7, 2), torch.arange(7)


def joined(batches):
    parts = list(batches)
    return [torch.cat([part[i] for part in parts]) for i in range(3)]


class Rows(Dataset):
    """A map-style data set of dictionaries."""

    def __len__(self):
        return len(X)

    def __getitem__(self, row):
        return {"image": X[row], "label": int(Y[row])}


class Table:
    """The members of a Hugging Face data set that are used."""

    column_names = ("pixel_values", "labels")

    def __len__(self):
        return len(X)

    def __getitem__(self, rows):
        return {"pixel_values": X[rows].tolist(), "labels": Y[rows].tolist()}

    def __iter__(self):
        return (self[row] for row in range(len(self)))


class Streamed(IterableDataset):
    def __iter__(self):
        return iter(zip(X, Y, strict=True))


FORMS = {
    "tensors": (X, Y),
    "arrays": (X.numpy(), Y.numpy().astype(np.int32)),
    "labels in a list": (X, Y.tolist()),
    "dictionary": {"image": X.numpy(), "label": Y, "name": list("abcdefg")},
    "tensor data set": TensorDataset(X, Y),
    "data set of dictionaries": Rows(),
    "table": Table(),
    "batches": [(X[:4], Y[:4]), (X[4:], Y[4:])],
    "dictionaries": [{"x": X[:4].numpy(), "y": Y[:4]}, {"x": X[4:], "y": Y[4:]}],
    "loader": DataLoader(TensorDataset(X, Y), batch_size=4),
    "shuffled loader": DataLoader(TensorDataset(X, Y), batch_size=4, shuffle=True),
    "shuffled loader of dictionaries": DataLoader(Rows(), batch_size=4, shuffle=True),
    "covary's data set": covary.data.Dataset(X, Y, X[:0], Y[:0], "points", tuple("abcdefg")),
}


@pytest.mark.parametrize("data", FORMS.values(), ids=FORMS)
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


@pytest.mark.parametrize("data", FORMS.values(), ids=FORMS)
def test_few_data_are_random_and_the_same_in_every_call(data):
    batches = as_batches(data, 3)
    few = batches.few(2)
    assert torch.equal(few.x, X[few.identity])
    assert torch.equal(few.y, Y[few.identity])
    assert len(set(few.identity.tolist())) == 2
    assert torch.equal(few.identity, batches.few(2).identity)
    num_readable = 7 if batches.read is not None else len(next(iter(batches)).x)
    assert sorted(batches.few(99).identity.tolist()) == list(range(num_readable))


def test_few_of_no_data_say_so():
    with pytest.raises(DataError, match="at least one datum"):
        as_batches((X[:0], Y[:0])).few(2)


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
        ((X, list("abcdefg")), r"Labels are text \('a', 'b', …\). Number them"),
        (iter([(X, Y)]), "more than once"),
        (X, r"arrays or tensors \(x, y\)"),
        (X.numpy(), r"arrays or tensors \(x, y\)"),
        (TensorDataset(X), "got tuple of 1"),
        ({"image": X}, "got 1 and 0 usual ones"),
        ([X], "batches \\(x, y\\)"),
        ([], "empty"),
        ([(one, int(label)) for one, label in zip(X, Y, strict=True)], "single number. A list is read as batches"),
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


class Splits(dict):
    @property
    def column_names(self):
        return {name: ["image", "label"] for name in self}


def test_a_data_set_of_splits_asks_for_one():
    with pytest.raises(DataError, match=r"one split of a data set, got 'train', 'test'. Pass for example data\['train"):
        as_batches(Splits(train=Table(), test=Table()))


@pytest.mark.parametrize(
    "loader",
    [
        DataLoader(TensorDataset(X, Y), batch_size=3, sampler=SubsetRandomSampler(range(7))),
        DataLoader(Streamed(), batch_size=3),
    ],
    ids=["sampler", "iterable data set"],
)
def test_a_loader_in_an_order_of_its_own_gets_identities_by_content(loader):
    found = [joined(as_batches(loader)) for _ in range(2)]
    by_label = [dict(zip(y.tolist(), identity.tolist(), strict=True)) for _, y, identity in found]
    assert by_label[0] == by_label[1], "the same datum has the same identity in every pass"
    assert len(set(by_label[0].values())) == 7


def test_given_identities_are_kept_by_data_sets_and_loaders():
    table = TensorDataset(X, Y, Y + 20)
    for data in (table, DataLoader(table, batch_size=3, shuffle=True), {"x": X, "y": Y, "index": Y + 20}):
        _, y, identity = joined(as_batches(data))
        assert torch.equal(identity, y + 20)


def test_keys_are_named():
    data = {"img": X, "fine_label": Y, "coarse_label": Y // 2}
    assert torch.equal(joined(as_batches(data, keys=("img", "coarse_label")))[1], Y // 2)


def test_batches_take_another_batch_size():
    batches = as_batches((X, Y))
    assert as_batches(batches) is batches
    assert [len(batch.x) for batch in as_batches(batches, 3)] == [3, 3, 1]


def test_pictures_of_a_data_set():
    class Pictures(Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, row):
            return Image.new("RGB", (5, 4), (0, 51, 255)), row

    for data in (Pictures(), DataLoader(Pictures(), batch_size=2, shuffle=True)):
        x, y, _ = joined(as_batches(data, 2))
        assert x.shape == (3, 3, 4, 5)
        assert x[0, :, 0, 0].tolist() == [0.0, 0.2, 1.0]
        assert y.tolist() == [0, 1, 2]


def test_floats_have_the_type_of_the_network():
    network = torch.nn.Linear(2, 1, dtype=torch.float32)
    for data in ((X, X), [(X.numpy(), X)]):
        x, y, identity = joined(as_batches(data).matching(network))
        assert (x.dtype, y.dtype, identity.dtype) == (torch.float32, torch.float32, torch.int64)
    x, y, _ = joined(as_batches((Y[:, None], Y)).matching(network))
    assert (x.dtype, y.dtype) == (torch.int64, torch.int64), "tokens and classes stay integers"
    same = as_batches((X, Y))
    assert same.matching(torch.nn.Identity()) is same


def test_images_of_unscaled_bytes_are_named_in_one_line():
    x = torch.arange(7 * 16.0).view(7, 1, 4, 4)
    warn_once.cache_clear()
    with pytest.warns(
        UserWarning, match="whole numbers and some are above 127, like bytes of images.*Divide them by 255"
    ):
        list(as_batches((2 * x, Y)))
    list(as_batches(((2 * x).to(torch.uint8), Y)))
    list(as_batches((2 * x + 0.5, Y)))


def test_a_fit_of_unscaled_bytes_warns_once_and_at_the_line_that_calls_it():
    """Earlier a dozen times, each at another line of covary."""
    x = torch.arange(7 * 16.0).view(7, 1, 4, 4)
    network = covary.Averaged(covary.networks.mlp(16, 2, 7), covary.augment.Affine2d(("rotation",)), num_samples=2)
    config = covary.FitConfig().replace(epochs=2, evaluation={"num_error_data": 0})
    warn_once.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        covary.fit(network, (2 * x, Y), config, callbacks=())
    assert {warning.filename for warning in caught} == {__file__}
    assert sum("whole numbers" in str(warning.message) for warning in caught) == 1


def test_evidence_and_curvature_take_the_same_data():
    network = torch.nn.Linear(2, 7, dtype=torch.float64)  # batches of 4 and of 7 round differently
    model, expected = covary.Model(network), covary.log_evidence(network, (X, Y)).log_evidence
    kron = covary.curvature.kfac(network, (X, Y)).to_dense()
    for data in FORMS.values():
        torch.testing.assert_close(covary.log_evidence(model, data).log_evidence, expected)
        torch.testing.assert_close(covary.curvature.kfac(network, data).to_dense(), kron)
        covary.Laplace(model, data)


def test_a_hugging_face_data_set():
    datasets = pytest.importorskip("datasets", reason="Hugging Face datasets is not installed")
    pixels = np.random.default_rng(0).integers(0, 255, (7, 4, 4, 3), dtype=np.uint8)
    table = datasets.Dataset.from_dict(
        {"image": [Image.fromarray(one) for one in pixels], "label": Y.tolist()},
        features=datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(7)}),
    )
    expected = torch.from_numpy(pixels).permute(0, 3, 1, 2).double() / 255
    for form in (
        table,
        table.with_format("torch"),
        table.to_iterable_dataset(),
        DataLoader(table.with_format("torch")),
    ):
        x, y, identity = joined(as_batches(form, 3))
        torch.testing.assert_close(x, expected)
        assert torch.equal(y, Y)
        assert len(set(identity.tolist())) == 7
    with pytest.raises(DataError, match="one split"):
        as_batches(datasets.DatasetDict(train=table))


def test_a_fit_says_once_that_images_are_not_scaled():
    x = (255 * torch.rand(20, 1, 4, 4)).round()
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2))
    warn_once.cache_clear()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        covary.fit(network, (x, torch.arange(20) % 2), epochs=3, callbacks=())
    assert sum("Divide them by 255" in str(warning.message) for warning in found) == 1


def test_a_network_that_changes_its_input_does_not_change_the_data():
    class Doubled(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x.mul_(2))

    x, y = torch.rand(8, 3), torch.arange(8) % 2
    before = x.clone()
    for batch in as_batches((x, y), batch_size=8):
        Doubled(3, 2)(batch.x)
    assert torch.equal(x, before)
