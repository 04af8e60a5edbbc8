"""Files that are written whole or not at all, links and devices, and a full disk."""

import errno
import os
import stat
import tempfile
import threading
from pathlib import Path

import pytest

from covary._files import (
    remove_folder,
    require_named_writable,
    require_regular,
    require_writable,
    write_named,
    write_text,
    write_whole,
)


class Full:
    """A disk on which the next write fails."""

    def __init__(self, monkeypatch):
        def fail(descriptor):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", fail)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("write", [write_whole, write_named])
def test_bytes_are_written_and_replaced(tmp_path, write):
    path = tmp_path / "new" / "file"
    for content in (b"first", b"second"):
        write(path, content)
        assert path.read_bytes() == content
    assert names(tmp_path / "new") == ["file"]


@pytest.mark.parametrize("write", [write_whole, write_named])
def test_a_full_disk_names_the_path_and_keeps_what_was_there(tmp_path, monkeypatch, write):
    path = tmp_path / "file"
    write(path, b"before")
    Full(monkeypatch)
    with pytest.raises(OSError, match="No space left on device") as caught:
        write(path, b"after")
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"before"
    assert names(tmp_path) == ["file"]


def test_a_link_in_a_folder_is_replaced_and_one_that_the_user_names_is_followed(tmp_path):
    target, link = tmp_path / "elsewhere" / "target", tmp_path / "link"
    target.parent.mkdir()
    target.write_bytes(b"precious")
    link.symlink_to(target)
    write_named(link, b"named")
    assert link.is_symlink()
    assert target.read_bytes() == b"named"
    write_whole(link, b"replaced")
    assert not link.is_symlink()
    assert (link.read_bytes(), target.read_bytes()) == (b"replaced", b"named")


def test_a_link_to_nothing_is_followed_to_a_new_file(tmp_path):
    link = tmp_path / "link"
    link.symlink_to("new/target")
    write_named(link, b"named")
    assert link.is_symlink()
    assert (tmp_path / "new" / "target").read_bytes() == b"named"


def test_a_link_in_place_of_the_temporary_file_is_not_followed(tmp_path):
    target = tmp_path / "target"
    target.write_bytes(b"precious")
    (tmp_path / f".file.{os.getpid()}").symlink_to(target)
    write_text(tmp_path / "file", "new")
    assert (target.read_bytes(), (tmp_path / "file").read_bytes()) == (b"precious", b"new")


def test_a_device_is_written_through(tmp_path):
    first, second = os.openpty()
    try:
        device = tmp_path / "device"
        device.symlink_to(os.ttyname(second))
        require_named_writable(device)
        write_named(device, b"page")
        assert os.read(first, 4) == b"page"
        assert stat.S_ISCHR(device.stat().st_mode)
        assert device.is_symlink()
    finally:
        os.close(first)
        os.close(second)


def test_a_pipe_is_written_through_whole(tmp_path):
    pipe, content = tmp_path / "pipe", os.urandom(300_000)  # more than a pipe holds
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write_named(pipe, content)
    reader.join()
    assert got == [content]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="this system has no names of open files")
def test_an_open_file_is_continued_and_what_it_contains_is_kept(tmp_path):
    with (tmp_path / "log").open("ab", buffering=0) as file:
        file.write(b"before, ")
        for place in (Path(f"/dev/fd/{file.fileno()}"), tmp_path / "link"):
            if place.parent == tmp_path:
                place.symlink_to(f"/dev/fd/{file.fileno()}")
            require_named_writable(place)
            write_named(place, b"page, ")
        file.write(b"after")
    assert (tmp_path / "log").read_bytes() == b"before, page, page, after"
    with tempfile.TemporaryFile(dir=tmp_path, buffering=0) as file:  # which has no name
        write_named(Path(f"/dev/fd/{file.fileno()}"), b"page")
        file.seek(0)
        assert file.read() == b"page"
    assert names(tmp_path) == ["link", "log"]


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="this system has no names of open files")
def test_a_number_that_no_open_file_has_is_an_error_of_the_system():
    for number in ("987654321", "9" * 23):
        with pytest.raises(OSError, match=number):
            write_named(Path("/dev/fd", number), b"page")


def test_removing_a_folder_never_removes_what_a_link_points_to(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_bytes(b"kept")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "below").symlink_to("../precious")
    (tmp_path / "link").symlink_to("precious")
    (tmp_path / "dangling").symlink_to("absent")
    (tmp_path / "file").write_bytes(b"")
    for name in ("folder", "link", "dangling", "file", "absent"):
        remove_folder(tmp_path / name)
    assert names(tmp_path) == ["precious"]
    assert (tmp_path / "precious" / "file").read_bytes() == b"kept"


def test_a_folder_that_is_half_removed_is_not_in_its_place(tmp_path, monkeypatch):
    def killed(path):
        (path / "one").unlink()
        raise KeyboardInterrupt

    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / name).touch()
    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            remove_folder(folder)
    assert names(tmp_path) == [".folder-done"]
    folder.mkdir()
    remove_folder(folder)
    assert names(tmp_path) == []


@pytest.mark.parametrize("check", [require_writable, require_named_writable])
def test_what_cannot_be_written_is_known_before(tmp_path, check):
    (tmp_path / "file").write_bytes(b"kept")
    for path, number in (
        (tmp_path / "file" / "below", errno.ENOTDIR),
        (tmp_path, errno.EISDIR),
        (tmp_path / ("n" * 300), errno.ENAMETOOLONG),
    ):
        with pytest.raises(OSError, match=r"\[Errno") as caught:
            check(path)
        assert (caught.value.errno, caught.value.filename) == (number, str(path))
    check(tmp_path / "file")
    check(tmp_path / "made" / "file")
    assert (tmp_path / "file").read_bytes() == b"kept"
    assert names(tmp_path / "made") == []


def test_only_a_regular_file_is_read(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    require_regular(tmp_path / "file")
    require_regular(tmp_path / "link")
    with pytest.raises(OSError, match="not a regular file"):
        require_regular(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError):
        require_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        require_regular(tmp_path / "absent")
