"""The allocator: told to keep its memory by the command line, unless the environment says not to."""

import sys

import pytest

import covary
from covary import memory
from covary.cli import app


class Library:
    """A C library that notes what it is told."""

    def __init__(self, *, known: bool = True, accepts: bool = True) -> None:
        self.settings: dict[int, int] = {}
        self.accepts = accepts
        if known:
            self.gnu_get_libc_version = lambda: b"2.36"

    def mallopt(self, name: int, value: int) -> int:
        self.settings[name] = value
        return int(self.accepts)


@pytest.fixture
def library(monkeypatch) -> Library:
    found = Library()
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: found)
    monkeypatch.setattr(sys, "platform", "linux")
    return found


def test_glibc_is_told_to_keep_what_is_freed(library):
    assert covary.keep_memory() is True
    assert library.settings.keys() == {-1, -2, -3}, "M_TRIM_THRESHOLD, M_TOP_PAD and M_MMAP_THRESHOLD of mallopt(3)"
    assert all(2**25 < value < 2**31 for value in library.settings.values()), "large, and C integers"


def test_where_it_refuses_that_is_said(library):
    library.accepts = False
    assert covary.keep_memory() is False


def test_another_library_or_system_is_left_alone(monkeypatch, library):
    other = Library(known=False)
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: other)
    assert covary.keep_memory() is False
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert covary.keep_memory() is False
    assert (other.settings, library.settings) == ({}, {})


@pytest.mark.parametrize(("value", "kept"), [(None, True), ("1", True), ("0", False)])
def test_the_command_line_honors_the_environment(monkeypatch, library, value, kept, capsys):
    if value is None:
        monkeypatch.delenv("COVARY_KEEP_MEMORY", raising=False)
    else:
        monkeypatch.setenv("COVARY_KEEP_MEMORY", value)
    with pytest.raises(SystemExit) as caught:
        app.main(["--version"])
    assert caught.value.code == 0
    assert covary.__version__ in capsys.readouterr().out
    assert bool(library.settings) is kept
