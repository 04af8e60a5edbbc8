import hashlib
from pathlib import Path

import pytest
import torch

import covary.data
from covary.data import Dataset, fetch, listing, load, load_images
from covary.data.binary import read_idx
from covary.data.sources import NAMES, cache_dir
from covary.errors import DataError
from data.idx_files import write_idx

FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
EMBEDDED = Path(covary.data.__file__).parent / "mnist_mini"
CHECKSUMS = {
    "train-images-idx3-ubyte.gz": "8d1eae75b5aff396cd29c4ac1bf9940059221ef7e568d080f6699358bfad60c3",
    "train-labels-idx1-ubyte.gz": "183f0d6e1c50136e698f8b78509f7a351c300f33cb73b17cf97a81d900371324",
    "t10k-images-idx3-ubyte.gz": "fa2fa0f453d30da7368de1b3d971c4d7d337993bb97663d604822d2b60473905",
    "t10k-labels-idx1-ubyte.gz": "9016d84c0ff2a402884fc39ac1dfcb3ec411c5581759174110390192c6e1c7b5",
}


def write_set(folder: Path, *, num_train: int = 12, num_test: int = 3, suffix: str = ".gz", shade: int = 255) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for kind, count in (("train", num_train), ("t10k", num_test)):
        images = torch.full((count, 5, 6), shade, dtype=torch.uint8)
        write_idx(folder / f"{kind}-images-idx3-ubyte{suffix}", images)
        write_idx(folder / f"{kind}-labels-idx1-ubyte{suffix}", (torch.arange(count) % 10).to(torch.uint8))
    return folder


def test_embedded_set_has_its_shapes_types_and_range():
    mini = load("mnist-mini")
    assert mini.x_train.shape == (5000, 1, 28, 28)
    assert mini.x_test.shape == (2000, 1, 28, 28)
    assert mini.y_train.shape == (5000,)
    assert mini.y_test.shape == (2000,)
    assert mini.x_train.dtype == mini.x_test.dtype == torch.float32  # also where the default is float64, as here
    assert mini.y_train.dtype == mini.y_test.dtype == torch.int64
    assert (mini.x_train.min(), mini.x_train.max()) == (0, 1)
    assert mini.y_train.unique().tolist() == list(range(10))
    assert mini.class_names == tuple("0123456789")
    assert mini.train == (mini.x_train, mini.y_train)
    assert mini.test == (mini.x_test, mini.y_test)


@pytest.mark.parametrize("file", CHECKSUMS)
def test_embedded_files_are_those_that_were_checked_in(file):
    assert hashlib.sha256((EMBEDDED / file).read_bytes()).hexdigest() == CHECKSUMS[file]


def test_embedded_files_are_small_and_carry_their_license():
    assert sum(path.stat().st_size for path in EMBEDDED.iterdir()) < 2_000_000
    assert "CC BY-SA 3.0" in (EMBEDDED / "LICENSE.txt").read_text()


@pytest.mark.parametrize(
    ("file", "num_dims", "count"),
    [(FILES[0], 3, 5000), (FILES[1], 1, 5000), (FILES[2], 3, 2000), (FILES[3], 1, 2000)],
)
def test_embedded_set_is_the_beginning_of_mnist(data_dir, file, num_dims, count):
    whole = read_idx(data_dir / "mnist" / f"{file}.gz", num_dims)
    assert torch.equal(read_idx(EMBEDDED / f"{file}.gz", num_dims), whole[:count])


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_full_set_has_its_shapes(data_dir, name):
    full = load(name, data_dir)
    assert full.x_train.shape == (60_000, 1, 28, 28)
    assert full.x_test.shape == (10_000, 1, 28, 28)
    assert len(full.class_names) == 10


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("folder", ["fashion-mnist", "FashionMNIST/raw"])
def test_files_are_found_packed_or_not_in_either_layout(places, folder, suffix):
    write_set(places["given"] / folder, suffix=suffix)
    found = load("fashion-mnist", places["given"])
    assert isinstance(found, Dataset)
    assert found.x_train.shape == (12, 1, 5, 6)
    assert found.y_test.tolist() == [0, 1, 2]
    assert found.class_names[9] == "ankle boot"


def test_places_are_looked_in_in_order(places):
    for place, shade in (("cache", 51), ("variable", 102), ("given", 255)):
        write_set(places[place] / "mnist", shade=shade)
        given = places["given"] if place == "given" else None
        assert load("mnist", given).x_train.unique().tolist() == pytest.approx([shade / 255])


def test_an_incomplete_folder_does_not_hide_a_complete_one(places):
    (write_set(places["given"] / "mnist") / f"{FILES[3]}.gz").unlink()
    write_set(places["variable"] / "mnist", num_train=10)
    assert len(load("mnist", places["given"]).x_train) == 10


def test_missing_set_names_the_places_and_the_remedy(places):
    with pytest.raises(DataError) as caught:
        load("mnist", places["given"])
    message = str(caught.value)
    for place in ("given", "variable", "cache"):
        assert str(places[place] / "mnist") in message
    assert "covary.data.fetch('mnist')" in message
    assert "put its files (train-images-idx3-ubyte and so on" in message
    assert "$COVARY_DATA" in message
    assert "\n" not in message


def test_incomplete_set_names_what_it_lacks(places):
    (write_set(places["given"] / "mnist") / f"{FILES[1]}.gz").unlink()
    with pytest.raises(DataError, match=r"mnist \(lacks train-labels-idx1-ubyte\)"):
        load("mnist", places["given"])


def test_unknown_name_lists_the_known():
    with pytest.raises(
        DataError,
        match="'mnits' is neither .* Expected one of mnist-mini, mnist, fashion-mnist, cifar-10, cifar-100, an .npz ",
    ):
        load("mnits")


def test_a_mistyped_directory_is_an_error_even_if_the_set_is_elsewhere(places):
    write_set(places["cache"] / "mnist")
    with pytest.raises(DataError, match="Expected a data directory that exists, got '.*elsewhere'"):
        load("mnist", places["given"] / "elsewhere")
    with pytest.raises(DataError, match="Expected a data directory that exists, got '.*elsewhere'"):
        listing(str(places["given"] / "elsewhere"))


def test_images_without_labels_are_refused(places):
    folder = write_set(places["given"] / "mnist")
    write_idx(folder / f"{FILES[1]}.gz", torch.zeros(9, dtype=torch.uint8))
    with pytest.raises(DataError, match="holds 12 training images but 9 training labels"):
        load("mnist", places["given"])


def test_labels_out_of_range_are_refused(places):
    folder = write_set(places["given"] / "mnist")
    write_idx(folder / f"{FILES[3]}.gz", torch.tensor([0, 10, 1], dtype=torch.uint8))
    with pytest.raises(DataError, match="holds the label 10: expected labels from 0 to 9"):
        load("mnist", places["given"])


def test_images_of_two_sizes_are_refused(places):
    folder = write_set(places["given"] / "mnist")
    write_idx(folder / f"{FILES[2]}.gz", torch.zeros(3, 7, 7, dtype=torch.uint8))
    with pytest.raises(DataError, match="different shapes"):
        load("mnist", places["given"])


def test_listing_has_every_set_found_missing_or_damaged(places):
    write_set(places["given"] / "mnist")
    (write_set(places["given"] / "fashion-mnist") / f"{FILES[0]}.gz").write_bytes(b"no data")
    mini, mnist, fashion, cifar, hundred = listing(places["given"])
    assert (mini.name, mnist.name, fashion.name, cifar.name, hundred.name) == NAMES
    assert (mini.num_train, mini.num_test, mini.problem) == (5000, 2000, None)
    assert (mnist.num_train, mnist.num_test, mnist.path) == (12, 3, str(places["given"] / "mnist"))
    assert fashion.path is None
    assert "is not an IDX file" in fashion.problem
    assert "not found" in cifar.problem
    assert "not found" in hundred.problem
    assert "Fetch" not in hundred.problem
    assert {row.verified for row in (mini, mnist, fashion, cifar, hundred)} == {None}


def test_listing_verifies_on_request(places):
    write_set(places["given"] / "mnist")
    mini, mnist, fashion, *_ = listing(places["given"], verify=True)
    assert (mini.verified, mini.problem) == (True, None)
    assert mnist.verified is False
    assert f"{FILES[0]}.gz with SHA-256" in mnist.problem
    assert mnist.num_train == 12
    assert fashion.verified is None


def test_listing_counts_the_batches_of_cifar(places):
    folder = places["given"] / "cifar-10"
    folder.mkdir()
    for file in ("data_batch_1.bin.xz", "data_batch_4.bin", "test_batch.bin"):
        (folder / file).write_bytes(b"")
    row = listing(places["given"])[3]
    assert (row.name, row.num_train, row.num_test, row.problem) == ("cifar-10", 20_000, 10_000, None)


def test_cifar_100_is_listed_and_neither_verified_nor_fetched(places):
    folder = places["given"] / "cifar-100"
    folder.mkdir()
    for file in ("train.bin", "test.bin.xz"):
        (folder / file).write_bytes(b"")
    row = listing(places["given"], verify=True)[-1]
    assert row[:3] == ("cifar-100", 50_000, 10_000)
    assert (row.problem, row.verified) == (None, None)
    with pytest.raises(DataError, match="is truncated"):
        load("cifar-100", places["given"])
    with pytest.raises(DataError, match=r"is not fetched.*Put train.bin, test.bin into a folder cifar-100"):
        fetch("cifar-100", places["given"])


def test_cifar_needs_a_training_batch(places):
    folder = places["given"] / "cifar-10"
    folder.mkdir()
    (folder / "test_batch.bin").write_bytes(b"")
    with pytest.raises(DataError, match=r"cifar-10 \(lacks data_batch_1.bin\)"):
        load("cifar-10", places["given"])


def test_a_name_wins_over_a_folder_that_is_called_so(places, monkeypatch):
    monkeypatch.chdir(places["given"])
    Path("mnist-mini").mkdir()
    assert len(load("mnist-mini").x_train) == 5000
    with pytest.raises(DataError, match="has no folders"):
        load("./mnist-mini")
    with pytest.raises(DataError, match="has no folders"):
        load(Path("mnist-mini"))


def test_a_source_of_no_kind_says_what_kinds_there_are(places):
    for name in ("x.csv", "x.txt"):
        (places["given"] / name).write_text("1,2")
    with pytest.raises(DataError, match="package.module:function, got '.*', a file of another kind"):
        load(str(places["given"] / "x.txt"))
    with pytest.raises(DataError, match=r"Expected a regression of a .csv.* Add --task regression.$"):
        load(str(places["given"] / "x.csv"))
    (places["given"] / "photos").mkdir()
    for read in (load, load_images):
        for absent in ("no/such/folder", "absent.npz", "absent.csv", "zero\0byte"):
            with pytest.raises(DataError, match=f"^'{absent}' is neither a name nor a path that exists. Expected one"):
                read(absent)
        with pytest.raises(DataError, match="exists. Did you mean '.*given.*photos'. Expected one of mnist-mini"):
            read(f"{places['given']}/fotos/")
        with pytest.raises(DataError, match="exists. Did you mean 'fashion-mnist'. Expected"):
            read("fashion_mnist")
    with pytest.raises(DataError, match="no_such_module:make cannot be imported"):
        load("no_such_module:make")


def test_an_empty_class_is_refused(places):
    folder = write_set(places["given"] / "mnist")
    write_idx(folder / f"{FILES[1]}.gz", torch.tensor([0, 1, 2, 4, 5, 6, 7, 8, 9, 0, 1, 2], dtype=torch.uint8))
    with pytest.raises(DataError, match="no training image of class 3"):
        load("mnist", places["given"])


@pytest.mark.parametrize(
    ("platform", "variable", "expected"),
    [
        ("linux", None, "home/.cache/covary"),
        ("linux", "XDG_CACHE_HOME", "set/covary"),
        ("darwin", None, "home/Library/Caches/covary"),
        ("win32", None, "home/AppData/Local/covary"),
        ("win32", "LOCALAPPDATA", "set/covary"),
    ],
)
def test_cache_follows_the_platform(monkeypatch, platform, variable, expected):
    monkeypatch.setattr("covary.data.sources.sys.platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("home"))
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, "set")
    assert cache_dir() == Path(expected)
