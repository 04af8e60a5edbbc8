import hashlib
import lzma

import pytest
import torch

from covary.data.binary import load_cifar, load_cifar_100, read_cifar
from covary.data.sources import SOURCES
from covary.errors import DataError

NAMES = tuple("abcdefghij")


def batch(seed, labels=range(10)):
    """Records of images with one red, one green and one blue byte that differ, as bytes."""
    generator = torch.Generator().manual_seed(seed)
    labels = list(labels)
    pixels = torch.randint(0, 256, (len(labels), 3, 32, 32), dtype=torch.uint8, generator=generator)
    records = b"".join(
        bytes([label]) + image.flatten().numpy().tobytes() for label, image in zip(labels, pixels, strict=True)
    )
    return records, pixels


def write(folder, packed=False):
    files = []
    for seed, file in enumerate(("data_batch_1.bin", "data_batch_3.bin", "test_batch.bin")):
        content = batch(seed)[0]
        files.append(folder / (file + (".xz" if packed else "")))
        files[-1].write_bytes(lzma.compress(content, preset=0) if packed else content)
    return files


@pytest.mark.parametrize("packed", [False, True])
def test_batches_in_order(tmp_path, packed):
    found = load_cifar(write(tmp_path, packed), "cifar-10", NAMES, num_records=10)
    assert found.x_train.dtype == torch.float32
    torch.testing.assert_close(found.x_train * 255, torch.cat([batch(0)[1], batch(1)[1]]).float())
    torch.testing.assert_close(found.x_test * 255, batch(2)[1].float())
    assert found.y_train.tolist() == [*range(10), *range(10)]
    assert found.class_names == NAMES


def test_planes_are_red_green_blue_in_row_major_order(tmp_path):
    record = bytearray([7] + [0] * 3072)
    record[1 + 1024 * 1 + 32 * 2 + 3] = 9  # green, row 2, column 3
    (tmp_path / "one.bin").write_bytes(bytes(record))
    images, labels = read_cifar(tmp_path / "one.bin", 1)
    assert images.nonzero().tolist() == [[0, 1, 2, 3]]
    assert images[0, 1, 2, 3] == 9
    assert labels.tolist() == [7]


def test_a_file_names_the_classes(tmp_path):
    (tmp_path / "batches.meta.txt").write_text("<b>ä</b>\n" + "\n".join(NAMES[1:]) + "\n\n", encoding="utf-8")
    assert load_cifar(write(tmp_path), "cifar-10", NAMES, 10).class_names == ("<b>ä</b>", *NAMES[1:])


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"one\ntwo\n", "names 2 classes: expected 10"), (b"\xff\xfe\n" * 10, "is not UTF-8 text")],
)
def test_an_invalid_file_of_class_names(tmp_path, content, message):
    (tmp_path / "batches.meta.txt").write_bytes(content)
    with pytest.raises(DataError, match=message):
        load_cifar(write(tmp_path), "cifar-10", NAMES, 10)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[:-1], "is truncated: 10 images of 3073 bytes need 30730, found 30729"),
        (lambda content: content[: 9 * 3073], "is truncated"),  # whole records are missing
        (lambda content: content + b"x", "has trailing bytes: .* found more than 30730"),
        (lambda content: b"", "is truncated: .* found 0"),
    ],
)
def test_counts_are_checked(tmp_path, packed, change, message):
    content = change(batch(0)[0])
    path = tmp_path / "damaged.bin"
    path.write_bytes(lzma.compress(content, preset=0) if packed else content)
    with pytest.raises(DataError, match=f"damaged.bin {message}"):
        read_cifar(path, 10)


def test_labels_out_of_range_are_refused(tmp_path):
    files = write(tmp_path)
    files[1].write_bytes(batch(1, [*range(9), 200])[0])
    with pytest.raises(DataError, match="holds the label 200: expected labels from 0 to 9"):
        load_cifar(files, "cifar-10", NAMES, 10)


def test_a_batch_holds_ten_thousand_images(tmp_path):
    files = write(tmp_path)
    with pytest.raises(DataError, match="10000 images of 3073 bytes need 30730000"):
        load_cifar(files, "cifar-10", NAMES)


def test_the_published_test_batch(data_dir):
    path = data_dir / "cifar-10" / "test_batch.bin.xz"
    if not path.is_file():
        pytest.skip("needs cifar-10/test_batch.bin.xz beside MNIST")
    images, labels = read_cifar(path)
    assert labels.bincount().tolist() == [1000] * 10
    records = torch.cat([labels.unsqueeze(1), images.flatten(1)], dim=1).numpy().tobytes()
    assert hashlib.sha256(records).hexdigest() == SOURCES["cifar-10"].sums["test_batch.bin"]


def write_100(folder, numbers=(100, 20)):
    """Files with a coarse label before the fine one of each image; returns the pixels of each."""
    pixels = []
    for seed, (file, number) in enumerate(zip(("train.bin", "test.bin"), numbers, strict=True)):
        records, images = batch(seed, range(number))
        size = 1 + 3 * 32 * 32
        parts = [bytes([255]) + records[start : start + size] for start in range(0, len(records), size)]
        (folder / file).write_bytes(b"".join(parts))
        pixels.append(images)
    return pixels


def test_cifar_100_has_fine_labels_after_coarse_ones(tmp_path):
    train, test = write_100(tmp_path)
    files, names = [tmp_path / "train.bin", tmp_path / "test.bin"], tuple(f"class {i}" for i in range(100))
    found = load_cifar_100(files, "cifar-100", names, (100, 20))
    torch.testing.assert_close(found.x_train * 255, train.float())
    torch.testing.assert_close(found.x_test * 255, test.float())
    assert (found.y_train.tolist(), found.y_test.tolist()) == (list(range(100)), list(range(20)))
    (tmp_path / "fine_label_names.txt").write_text("\n".join(f"thing {i}" for i in range(100)))
    assert load_cifar_100(files, "cifar-100", names, (100, 20)).class_names[99] == "thing 99"


def test_a_file_of_cifar_10_is_no_file_of_cifar_100(tmp_path):
    write_100(tmp_path)
    (tmp_path / "train.bin").write_bytes(batch(0, range(100))[0])
    with pytest.raises(DataError, match="is truncated: 100 images of 3074 bytes"):
        load_cifar_100([tmp_path / "train.bin", tmp_path / "test.bin"], "cifar-100", NAMES, (100, 20))
