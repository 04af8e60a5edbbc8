"""The data sets by name: their files, where these are published and looked up, and their checksums."""

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from .._text import meant
from ..errors import DataError
from .binary import open_decompressed


class Download(NamedTuple):
    """One published file: a file of the data set, or an archive of several."""

    address: str
    sha256: str  # of the bytes at the address
    max_bytes: int  # a download that is longer is stopped
    members: tuple[str, ...] = ()  # of a tar archive: the paths inside it; each file keeps the last component


class Source(NamedTuple):
    """The files of a data set: their format, folders, checksums and downloads."""

    layout: str  # "idx", "cifar" or "cifar-100": the reader of the files
    class_names: tuple[str, ...]
    # file -> SHA-256 of its decompressed content, or None where it is not known; in the order of its reader
    sums: Mapping[str, str | None]
    optional: tuple[str, ...] = ()  # files of `sums` that may be missing
    folders: tuple[str, ...] = ()  # below a data directory
    embedded: Path | None = None  # the folder inside the package, for a data set that is part of it
    downloads: tuple[Download, ...] = ()


# Images before labels, training before test.
IDX_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def _idx_sums(*sums: str) -> Mapping[str, str]:
    return MappingProxyType(dict(zip(IDX_FILES, sums, strict=True)))


def _idx_downloads(address: str, *sums: str) -> tuple[Download, ...]:
    files = zip(IDX_FILES, sums, strict=True)
    return tuple(Download(f"{address}{file}.gz", packed, 32 << 20) for file, packed in files)


_DIGITS = tuple("0123456789")
_CLOTHES = ("T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
_THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

_MNIST_MINI = Source(
    layout="idx",
    class_names=_DIGITS,
    embedded=Path(__file__).parent / "mnist_mini",
    sums=_idx_sums(
        "1e3ffdb2f57e22d9e5363dde25c2d057542c2e72baa312f0f3b03948bb3802b7",
        "685aeb7baef68233efa643639a5e9c15bb48be09a628f96fb7f606ca2a1ea7bc",
        "3f6bd66dee48df299584c67669bceee490faa25f931496bd7473b42106d7daed",
        "7b098e5f6a3065807cebeabf36fb1724a8aff19f2673ac08b4923e0e8c715bce",
    ),
)
_MNIST = Source(
    layout="idx",
    class_names=_DIGITS,
    folders=("mnist", "MNIST/raw"),
    sums=_idx_sums(
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    downloads=_idx_downloads(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
)
_FASHION_MNIST = Source(
    layout="idx",
    class_names=_CLOTHES,
    folders=("fashion-mnist", "FashionMNIST/raw"),
    sums=_idx_sums(
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    # The repository of its authors at one commit; the other address that they name has no https.
    downloads=_idx_downloads(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/b2617bb6d3ffa2e429640350f613e3291e10b141/"
        "data/fashion/",
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
)
_CIFAR_SUMS = MappingProxyType(
    {
        "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    }
)
_CIFAR = Source(
    layout="cifar",
    class_names=_THINGS,
    folders=("cifar-10", "cifar-10-batches-bin"),
    sums=_CIFAR_SUMS,
    optional=tuple(f"data_batch_{batch}.bin" for batch in range(2, 6)),
    downloads=(
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            256 << 20,
            tuple(f"cifar-10-batches-bin/{file}" for file in (*_CIFAR_SUMS, "batches.meta.txt")),
        ),
    ),
)

# There is no file of it to take checksums of: it is read where it is found, and neither fetched nor verified.
_CIFAR_100 = Source(
    layout="cifar-100",
    class_names=tuple(f"class {number}" for number in range(100)),  # fine_label_names.txt has their names
    folders=("cifar-100", "cifar-100-binary"),
    sums=MappingProxyType({"train.bin": None, "test.bin": None}),
)

SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "mnist-mini": _MNIST_MINI,
        "mnist": _MNIST,
        "fashion-mnist": _FASHION_MNIST,
        "cifar-10": _CIFAR,
        "cifar-100": _CIFAR_100,
    }
)
NAMES = tuple(SOURCES)


ENVIRONMENT_VARIABLE = "COVARY_DATA"
COMPRESSIONS = (".gz", ".xz", "")


class _Look(NamedTuple):
    """Files of a data set that are in one folder, and names of those that are missing."""

    files: tuple[Path, ...]
    missing: tuple[str, ...]


def locate(name: str, data_dir: str | Path | None = None) -> tuple[Path, ...]:
    """Files of the data set called `name`, compressed or not, in the order of its reader.

    They are all from the first complete folder: below `data_dir`, then `$COVARY_DATA`, then the user's cache.
    """
    source, place = source_of(name), directory(data_dir)
    if source.embedded is not None:
        return _look(source, source.embedded).files
    looked: list[str] = []
    for root in _roots(place):
        for folder in (root / below for below in source.folders):
            files, missing = _look(source, folder)
            if not missing:
                return files
            if files:
                looked.append(f"{folder} (lacks {', '.join(missing)})")
            elif folder.is_dir() or not looked or not looked[-1].startswith(str(root)):
                looked.append(str(folder))
    fetched = f"Fetch it with covary.data.fetch('{name}'), put" if source.downloads else "Put"
    raise DataError(
        f"Data set '{name}' was not found in {', '.join(looked)}. {fetched} its files ({next(iter(source.sums))} and "
        f"so on) into {cache_dir() / name}, or set a data directory or ${ENVIRONMENT_VARIABLE} to the directory above "
        "its folder."
    )


def source_of(name: str) -> Source:
    """Source called `name`."""
    if name not in SOURCES:
        raise DataError(f"Expected a data set among {', '.join(NAMES)}, got '{name}'.{meant(name, NAMES)}")
    return SOURCES[name]


def directory(data_dir: str | Path | None) -> Path | None:
    """The directory as a path; raise `DataError` if it does not exist."""
    if data_dir is None or Path(data_dir).is_dir():
        return None if data_dir is None else Path(data_dir)
    raise DataError(f"Expected a data directory that exists, got '{data_dir}'. Name another, or leave it out.")


def cache_dir() -> Path:
    """Folder for data sets in the user's cache, whether or not it exists."""
    home = Path.home()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    return Path(base) / "covary"


def existing_file(path: Path) -> Path | None:
    """File at `path` with the ending of a compression or without; None if there is neither."""
    candidates = (path.with_name(path.name + compression) for compression in COMPRESSIONS)
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _roots(data_dir: Path | None) -> list[Path]:
    variable = os.environ.get(ENVIRONMENT_VARIABLE)
    roots = [data_dir, Path(variable) if variable else None, cache_dir()]
    return [root for root in roots if root is not None]


def _look(source: Source, folder: Path) -> _Look:
    found = {file: existing_file(folder / file) for file in source.sums}
    files = tuple(path for path in found.values() if path is not None)
    return _Look(files, tuple(file for file, path in found.items() if path is None and file not in source.optional))


_CHUNK = 1 << 20


class FileCheck(NamedTuple):
    """One file of a data set: whether its content has the published checksum, and what is wrong if not."""

    path: str
    verified: bool
    problem: str | None


def verify(name: str, data_dir: str | Path | None = None) -> tuple[FileCheck, ...]:
    """Check of every file of a data set against its published SHA-256: path, verified, problem.

    The checksum is that of the decompressed content. Files without a known checksum are left out.

    Arguments:
        name: The name of the data set.
        data_dir: The directory to look in first, as in `load`.

    Example:
        >>> from covary.data import verify
        >>> [check.verified for check in verify("mnist-mini")]
        [True, True, True, True]
    """
    sums = source_of(name).sums
    expected = {path: sums[_decompressed_name(path)] for path in locate(name, data_dir)}
    return tuple(_check(path, known) for path, known in expected.items() if known is not None)


def content_sum(path: Path) -> str:
    """SHA-256 of the decompressed content of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with open_decompressed(path) as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _check(path: Path, expected: str) -> FileCheck:
    found = content_sum(path)
    if found == expected:
        return FileCheck(str(path), True, None)
    problem = f"Expected {path} with SHA-256 {expected}, got {found}. Fetch it again."
    return FileCheck(str(path), False, problem)


def _decompressed_name(path: Path) -> str:
    compression = next(compression for compression in COMPRESSIONS if path.name.endswith(compression))
    return path.name.removesuffix(compression)
