import gzip
import hashlib
import http.server
import io
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time

import pytest

from covary.data import fetch, verify
from covary.data.download import fetch_files
from covary.data.sources import SOURCES, Download, Source
from covary.errors import DataError

CONTENTS = {"train.idx": b"training" * 40_000, "test.idx": b"test" * 50_000}


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def packed(name):
    return gzip.compress(CONTENTS[name], mtime=0)


class Answers(http.server.BaseHTTPRequestHandler):
    """What the server has, by path: (status, bytes, the length it claims)."""

    def do_GET(self):
        self.server.asked.append(self.path)
        status, content, length = self.server.answers.get(self.path, (404, b"", 0))
        self.send_response(status)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(content)
        if length is not None and length > len(content) and self.path.startswith("/slow"):
            self.wfile.flush()
            self.server.held.wait(20)
        while self.path.startswith("/drop") and not self.server.held.wait(0.05):
            try:
                self.wfile.write(b"x")
            except OSError:
                return

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.daemon_threads, server.block_on_close = True, False
        server.answers = {f"/{name}.gz": (200, packed(name), len(packed(name))) for name in CONTENTS}
        server.asked, server.held = [], threading.Event()
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.held.set()
        server.shutdown()


def address(server, path):
    return f"http://127.0.0.1:{server.server_port}/{path}"


def plain(server, folder="") -> Source:
    """A set of two packed files."""
    downloads = [Download(address(server, f"{folder}{name}.gz"), sha256(packed(name)), 1 << 20) for name in CONTENTS]
    return Source("idx", ("a",), {name: sha256(CONTENTS[name]) for name in CONTENTS}, downloads=tuple(downloads))


def archive(server, members, wanted=("set/train.idx", "set/test.idx")) -> Source:
    """A set of files in one tar archive, which holds `members` by name."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    content = stream.getvalue()
    server.answers["/set.tar.gz"] = (200, content, len(content))
    sums = {name: sha256(CONTENTS[name]) for name in CONTENTS}
    download = Download(address(server, "set.tar.gz"), sha256(content), 1 << 20, wanted)
    return Source("cifar", ("a",), sums, downloads=(download,))


def silent(file, share):
    pass


def refuse(source, folder, message):
    with pytest.raises(DataError, match=message) as caught:
        fetch_files(source, folder, silent)
    assert "\n" not in str(caught.value)


def listed(folder):
    return sorted(path.name for path in folder.iterdir())


def test_files_are_fetched_verified_and_not_fetched_twice(server, tmp_path):
    told = []
    fetch_files(plain(server), tmp_path / "new" / "set", lambda file, share: told.append((file, share)))
    folder = tmp_path / "new" / "set"
    assert listed(folder) == ["test.idx.gz", "train.idx.gz"]
    assert all((folder / f"{name}.gz").read_bytes() == packed(name) for name in CONTENTS)
    assert server.asked == ["/train.idx.gz", "/test.idx.gz"]
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert told[-1] == ("test.idx.gz", 1.0)
    fetch_files(plain(server), folder, silent)
    assert len(server.asked) == 2
    # The control: what is damaged, truncated or gone is fetched again.
    for damaged in (b"other", packed("test.idx")[:-9]):
        (folder / "test.idx.gz").write_bytes(damaged)
        fetch_files(plain(server), folder, silent)
        assert (folder / "test.idx.gz").read_bytes() == packed("test.idx")
    assert server.asked[2:] == ["/test.idx.gz"] * 2


def test_a_wrong_checksum_keeps_what_was_there(server, tmp_path):
    (tmp_path / "train.idx.gz").write_bytes(b"before")
    server.answers["/train.idx.gz"] = (200, b"forged", 6)
    expected = f"SHA-256 {sha256(packed('train.idx'))}, got {sha256(b'forged')}. No file was written"
    refuse(plain(server), tmp_path, expected)
    assert listed(tmp_path) == ["train.idx.gz"]
    assert (tmp_path / "train.idx.gz").read_bytes() == b"before"


def test_a_download_that_is_too_long_is_stopped(server, tmp_path):
    content = packed("train.idx")
    source = plain(server)
    limited = [download._replace(max_bytes=len(content) - 1) for download in source.downloads]
    for length in (len(content), None):  # said by the server, or not
        server.answers["/train.idx.gz"] = (200, content, length)
        refuse(
            source._replace(downloads=tuple(limited)), tmp_path, f"Expected at most {len(content) - 1} bytes at .*train"
        )
        assert listed(tmp_path) == []


def test_published_files_have_https_a_limit_and_a_checksum():
    downloads = [download for source in SOURCES.values() for download in source.downloads]
    assert len(downloads) == 9
    for download in downloads:
        assert download.address.startswith("https://")
        assert 2**20 < download.max_bytes < 2**30
        assert len(download.sha256) == 64


def test_an_address_without_the_file(server, tmp_path):
    server.answers.clear()
    refuse(plain(server), tmp_path, "train.idx.gz answered 404 Not Found")
    assert listed(tmp_path) == []


def test_an_answer_that_breaks_off(server, tmp_path):
    content = packed("train.idx")
    server.answers["/train.idx.gz"] = (200, content[:100], len(content))
    refuse(plain(server), tmp_path, f"ended after 100 of {len(content)} bytes|cannot be fetched .*IncompleteRead")
    assert listed(tmp_path) == []


def test_a_server_that_is_not_there(server, tmp_path):
    source = plain(server)
    server.shutdown()
    server.server_close()
    refuse(source, tmp_path, "cannot be fetched .*Connection refused.* Check the connection")


def test_an_interrupted_download_leaves_nothing(server, tmp_path):
    def interrupt(file, share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_files(plain(server), tmp_path, interrupt)
    assert listed(tmp_path) == []


KILLED = """
import sys
from pathlib import Path
from covary.data.download import fetch_files
from covary.data.sources import Download, Source
source = Source("idx", ("a",), {}, downloads=(Download(sys.argv[1], "0" * 64, 1 << 20),))
fetch_files(source, Path(sys.argv[2]), lambda file, share: print(share, flush=True))
"""


def test_a_killed_download_leaves_no_half_file_at_its_place(server, tmp_path):
    content = packed("train.idx")
    server.answers["/slow/train.idx.gz"] = (200, content[:100], len(content))
    arguments = [sys.executable, "-c", KILLED, address(server, "slow/train.idx.gz"), str(tmp_path)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, env={**os.environ, "no_proxy": "127.0.0.1"})
    deadline = time.monotonic() + 30
    while not listed(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    left = listed(tmp_path)
    assert len(left) == 1  # it had begun
    assert left[0].startswith(".train.idx.gz.")
    assert left[0].endswith(".part")
    fetch_files(plain(server), tmp_path, silent)
    assert set(listed(tmp_path)) == {left[0], "test.idx.gz", "train.idx.gz"}  # another process may still write it
    os.utime(tmp_path / left[0], (0, 0))
    fetch_files(plain(server), tmp_path, silent)
    assert listed(tmp_path) == ["test.idx.gz", "train.idx.gz"]


def test_members_of_an_archive_are_unpacked_by_name(server, tmp_path):
    members = {f"set/{name}": content for name, content in CONTENTS.items()}
    folder = tmp_path / "data" / "set"
    source = archive(server, {**members, "../../evil": b"evil", "/evil": b"evil", "set/../../train.idx": b"evil"})
    fetch_files(source, folder, silent)
    assert listed(folder) == ["test.idx", "train.idx"]
    assert all((folder / name).read_bytes() == content for name, content in CONTENTS.items())
    assert listed(tmp_path) == ["data"]
    assert listed(tmp_path / "data") == ["set"]
    fetch_files(source, folder, silent)
    assert server.asked == ["/set.tar.gz"]


def test_a_link_in_an_archive_is_no_file(server, tmp_path):
    source = archive(server, {"set/test.idx": b"x"})
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        link = tarfile.TarInfo("set/train.idx")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(link)
    content = stream.getvalue()
    server.answers["/set.tar.gz"] = (200, content, len(content))
    download = source.downloads[0]._replace(sha256=sha256(content))
    refuse(source._replace(downloads=(download,)), tmp_path, "lacks set/test.idx, set/train.idx")
    assert listed(tmp_path) == []


def test_an_archive_that_is_damaged_or_lacks_a_member(server, tmp_path):
    refuse(archive(server, {"set/train.idx": b"x"}), tmp_path, "set.tar.gz lacks set/test.idx")
    source = archive(server, {"set/train.idx": b"x"})
    server.answers["/set.tar.gz"] = (200, b"no archive", 10)
    download = source.downloads[0]._replace(sha256=sha256(b"no archive"))
    refuse(source._replace(downloads=(download,)), tmp_path, "is a damaged archive")


def test_a_place_that_cannot_be_made(server, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    refuse(plain(server), tmp_path / "file" / "set", "cannot be created: Not a directory")


def test_a_name_is_fetched_into_the_directory_or_the_cache(server, places, monkeypatch):
    here = plain(server)._replace(folders=("mnist",))
    monkeypatch.setattr("covary.data.sources.SOURCES", {**SOURCES, "mnist": here})
    assert fetch("mnist") == places["cache"] / "mnist"
    assert [check.verified for check in verify("mnist")] == [True, True]
    assert fetch("mnist", places["given"] / "new") == places["given"] / "new" / "mnist"
    assert listed(places["given"] / "new" / "mnist") == ["test.idx.gz", "train.idx.gz"]


def test_names_that_cannot_be_fetched():
    with pytest.raises(DataError, match="'mnist-mini' is part of the package"):
        fetch("mnist-mini")
    with pytest.raises(DataError, match="Expected a data set among .*got 'mnits'"):
        fetch("mnits")


def test_a_server_that_never_ends_is_left_after_a_time(server, tmp_path, monkeypatch):
    """A byte now and then: each one comes in time, and a whole chunk of them never would."""
    monkeypatch.setattr("covary.data.download._MOST_SECONDS", 0.3)
    server.answers["/drop/train.idx.gz"] = (200, b"x", 1 << 19)
    started = time.monotonic()
    refuse(plain(server, "drop/"), tmp_path, r"sent [\d,]+ bytes in 0 seconds, and not all of them")
    assert time.monotonic() - started < 10
    assert listed(tmp_path) == []
