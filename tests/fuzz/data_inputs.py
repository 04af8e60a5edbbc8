"""Malformed data: archives, IDX and CIFAR files, folders of images. Each function returns the source of the data."""

import gzip
import io
import lzma
import os
import random
import struct
import zipfile
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fuzz.hostile import CONTROL, damaged, text


class Evil:
    """An object whose unpickling would leave a file."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("executed-pickle",)


def bars(rng: random.Random, number: int = 12) -> dict[str, np.ndarray]:
    random_numbers = np.random.default_rng(rng.randrange(2**32))
    labels = np.arange(number) % 2
    return {"x_train": random_numbers.integers(0, 255, (number, 6, 6), dtype=np.uint8), "y_train": labels}


def archive(rng: random.Random, folder: Path) -> str:
    path = folder / "mine.npz"
    arrays = bars(rng)
    kind = rng.randrange(12)
    if kind < 5:
        name = rng.choice(list(arrays))
        arrays[name] = _array(arrays[name], rng)
    if kind == 5:
        arrays[rng.choice(("x_test", "y_test"))] = arrays[rng.choice(list(arrays))]
    if kind == 6:
        os.mkfifo(path)
    elif kind == 7:
        path.symlink_to(rng.choice(("mine.npz", "absent", "/dev/null", ".")))
    elif kind == 8:
        _archive_by_hand(path, arrays, rng)
    else:
        rng.choice((np.savez, np.savez_compressed))(path, **arrays)
        if kind > 8:
            path.write_bytes(damaged(path.read_bytes(), rng))
    return str(path)


def table(rng: random.Random, folder: Path) -> list[str]:
    """Arguments of a command that reads a malformed table."""
    path = folder / "mine.csv"
    rows = [["a", "b", "c"], *([str(rng.random()) for _ in range(3)] for _ in range(12))]
    for _ in range(rng.choice((1, 1, 2))):
        rows[rng.randrange(len(rows))][rng.randrange(3)] = text(rng)
    content = "\n".join(map(",".join, rows)).encode("utf-8", "surrogatepass")
    kind = rng.randrange(6)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.symlink_to(rng.choice(("mine.csv", "absent", "/dev/null", ".")))
    else:
        path.write_bytes(damaged(content, rng) if kind < 4 else content)
    target = rng.choice(("a", "a", "a,b", "a,b,c", text(rng)))
    learned = ("--network", "mlp:2", "--epochs", "1", "--task", "regression", "--target", target)
    return ["discover", "--data", str(path), *learned, *rng.choice((["--estimate"], ["--out", "made"]))]


def _array(values: np.ndarray, rng: random.Random) -> np.ndarray:
    floats = values.astype(np.float64)
    floats.flat[rng.randrange(values.size)] = rng.choice((np.nan, np.inf, 1e300, -1.0))
    return rng.choice(
        (
            floats,
            values.astype(rng.choice(("bool", "complex64", "float16", "longdouble", ">i2", "<u8", "U3", "S2", "int8"))),
            values.astype("datetime64[s]"),
            values[: rng.randrange(3)],
            values.reshape(-1),
            values.reshape(1, 1, 1, -1),
            np.asarray(values.flat[0]),
            np.array([Evil()] * len(values), dtype=object),
            np.zeros(len(values), dtype=[("a", "i4"), ("b", "f8")]),
            np.broadcast_to(values[..., None], (*values.shape, rng.choice((0, 1, 2, 3, 5)))),
            values.astype(np.int64) + rng.choice((1, 200, -3)),
            np.asfortranarray(values),
            np.full(len(values), rng.choice((10**9, -(10**9), 0))),
        )
    )


def _archive_by_hand(path: Path, arrays: dict[str, np.ndarray], rng: random.Random) -> None:
    """An archive whose members state sizes, versions or types of their own."""
    shape = rng.choice(
        (
            "(12, 6, 6)",
            f"({10**30},)",
            "(99999999999, 6, 6)",
            "(-1, 6, 6)",
            "(0, 6, 6)",
            "()",
            "[12]",
            f"({2**62}, {2**62})",
        )
    )
    kind = rng.choice(("'|u1'", "'<f8'", "'O'", "'V0'", "'|u1' if 1 else 2", "[('a','<i4')]", "'U9999999'", "'<f3'"))
    header = f"{{'descr': {kind}, 'fortran_order': {rng.choice(('False', 'True', '3'))}, 'shape': {shape}, }}"
    version = rng.choice((b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"))
    length = struct.pack("<H" if version[0] == 1 else "<I", rng.choice((len(header), 0, 65535)))
    with zipfile.ZipFile(path, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA))) as file:
        body = rng.choice((arrays["x_train"].tobytes(), b"", bytes(4 << 20)))
        file.writestr("x_train.npy", b"\x93NUMPY" + version + length + header.encode() + body)
        labels = io.BytesIO()
        np.save(labels, arrays["y_train"])
        file.writestr("y_train.npy", labels.getvalue())
        if rng.random() < 0.2:
            file.writestr(f"{CONTROL}.npy", b"")
            file.writestr("../../outside.npy", b"")


def idx(values: np.ndarray) -> bytes:
    return struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape) + values.astype(np.uint8).tobytes()


def idx_files(rng: random.Random, folder: Path) -> str:
    """The four files of `mnist` below a data directory, some of them malformed."""
    place = folder / "data" / rng.choice(("mnist", "MNIST/raw"))
    place.mkdir(parents=True)
    for part, number in (("train", 20), ("t10k", 10)):
        labels = np.arange(number) % 10
        images = np.random.default_rng(rng.randrange(2**32)).integers(0, 255, (number, 6, 6))
        for name, values in (("images-idx3", images), ("labels-idx1", labels)):
            _write_idx(place / f"{part}-{name}-ubyte", values, rng)
    return "mnist"


def _write_idx(path: Path, values: np.ndarray, rng: random.Random) -> None:
    content = idx(values)
    kind = rng.randrange(16)
    if kind == 0:
        content = damaged(content, rng)
    elif kind == 1:
        content = idx(rng.choice((values[:0], values[:3], values.reshape(-1), values + 7, values[..., None])))
    elif kind == 2:
        sizes = [rng.choice((0, 1, 2**31, 2**32 - 1)) for _ in values.shape]
        content = struct.pack(f">HBB{values.ndim}I", 0, rng.choice((8, 8, 13)), values.ndim, *sizes) + content[16:]
    elif kind == 3:
        content += bytes(32 << 20)  # which packs to a few KB
    if kind == 4:
        os.mkfifo(path)
        return
    if kind == 5:
        path.symlink_to(path.name)
        return
    ending = rng.choice(("", ".gz", ".xz"))
    packed = gzip.compress(content, 1) if ending == ".gz" else lzma.compress(content, preset=0) if ending else content
    if ending and rng.random() < 0.15:
        packed = damaged(packed, rng)
    path.with_name(path.name + rng.choice((ending, ending, ending, ".gz"))).write_bytes(packed)


@cache
def _batch() -> bytes:
    """10,000 images of CIFAR-10's size, which pack to little."""
    records = np.zeros((10_000, 3073), dtype=np.uint8)
    records[:, 0] = np.arange(10_000) % 10
    return gzip.compress(records.tobytes(), 1)


def cifar_files(rng: random.Random, folder: Path) -> str:
    place = folder / "data" / rng.choice(("cifar-10", "cifar-10-batches-bin"))
    place.mkdir(parents=True)
    wrong = rng.choice(("data_batch_1.bin", "test_batch.bin"))
    for name in ("data_batch_1.bin", "test_batch.bin"):
        content = _batch()
        if name == wrong:
            short = rng.choice((b"", b"\x03" * 3073, bytes(3073 * 10), bytes(30_000), b"\x0b" + bytes(3072)))
            content = rng.choice((damaged(content, rng), gzip.compress(short), lzma.compress(short), short))
        if rng.random() < 0.05:
            os.mkfifo(place / name)
        else:
            (place / f"{name}{rng.choice(('.gz', '.gz', '.gz', '', '.xz'))}").write_bytes(content)
    if rng.random() < 0.5:
        names = rng.choice((b"", b"a\n" * 10, b"a\n" * 3, b"\xff\xfe", b"x" * 10**6, f"{CONTROL}\n".encode() * 10))
        (place / "batches.meta.txt").write_bytes(rng.choice((names, gzip.compress(names))))
    return "cifar-10"


def image_folder(rng: random.Random, folder: Path) -> str:
    place = folder / "images"
    parts = [place / "train", place / "test"] if rng.random() < 0.3 else [place]
    for part in parts:
        for label in rng.choice(
            (("a", "b"), ("a", "b", "c"), ("a",), ("a", CONTROL), ("a", "\udcff"), ("-rf", "b"), ("a", "x" * 200))
        ):
            (part / label).mkdir(parents=True)
            for number in range(rng.choice((0, 1, 2, 2, 2))):
                _write_image(part / label / f"{number}{rng.choice(('.png', '.png', '.jpg', '.PNG'))}", rng)
    if rng.random() < 0.15:
        (place / "a" / rng.choice((".hidden", "readme.txt", "loop"))).symlink_to(place) if (
            place / "a"
        ).is_dir() else None
    return str(place)


def _write_image(path: Path, rng: random.Random) -> None:
    kind = rng.randrange(14)
    if kind == 0:
        os.mkfifo(path)
        return
    if kind == 1:
        path.symlink_to(rng.choice(("absent", path.name, "..", "/dev/zero")))
        return
    if kind == 2:
        path.write_bytes(_huge_png())
        return
    mode = rng.choice(("RGBA", "P", "I;16", "1", "LA")) if kind == 3 else "L"
    side = rng.choice((1, 5, 7)) if kind == 4 else 6
    content = io.BytesIO()
    Image.fromarray(np.full((side, side), rng.randrange(256), dtype=np.uint8)).convert(mode).save(content, "PNG")
    written = content.getvalue()
    path.write_bytes(damaged(written, rng) if kind in (5, 6) else written)


def _huge_png() -> bytes:
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    chunk = b"IHDR" + header
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk)) + bytes(12)
