"""Memory: how much there is, and the C library's allocator, so that large tensors cost no page fault for every page.

By default glibc returns memory of more than 32 MiB to the system when it is freed and asks for it again, zeroed page
by page, for the next tensor: a third of the CPU time of a hyper step. If it is kept, results are the same, bit for
bit.
"""

import ctypes
import os
import sys

SWITCH = "COVARY_KEEP_MEMORY"
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of mallopt(3)
_LARGEST = 2**31 - 1  # its values are C integers


def keep_memory() -> bool:
    """Let this process keep memory that is freed, and return whether that was possible: on Linux with glibc it is.

    Call it once, before the first large tensor. The command line does so by itself, unless the environment variable
    COVARY_KEEP_MEMORY is 0. The process then holds on to its peak memory until it ends.

    Example:
        >>> import covary
        >>> covary.keep_memory() in (True, False)
        True
    """
    if not sys.platform.startswith("linux"):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    settings = {_MMAP_THRESHOLD: 2**30, _TRIM_THRESHOLD: _LARGEST, _TOP_PAD: 2**26}
    return all([library.mallopt(name, value) == 1 for name, value in settings.items()])


def keep_memory_unless_told() -> None:
    """Call `keep_memory`, unless the environment says not to."""
    if os.environ.get(SWITCH, "1") != "0":
        keep_memory()


def available_memory() -> int:
    """The bytes that this machine has available, as Linux reports; elsewhere all that it has."""
    try:
        with open("/proc/meminfo") as lines:
            return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
