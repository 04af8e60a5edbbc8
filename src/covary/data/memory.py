"""How large may an array be?"""

import os

from ..errors import DataError

_WHERE_UNKNOWN = 16 << 30


def require_memory(origin: str, num_bytes: int) -> None:
    """Nothing, or an error that names `origin` before `num_bytes` that this machine does not have are asked for."""
    limit = _physical_memory()
    if num_bytes > limit:
        raise DataError(
            f"{origin} needs {num_bytes / 2**30:,.1f} GiB of memory: expected at most the {limit / 2**30:,.1f} GiB "
            "that this machine has. Use fewer or smaller images, or mend the file if it should hold less."
        )


def _physical_memory() -> int:
    """The memory of this machine in bytes, or a guess where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return _WHERE_UNKNOWN
