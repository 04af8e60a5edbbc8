import os

import pytest

from covary.data.dataset import require_memory
from covary.errors import DataError


def test_what_fits_passes_and_what_does_not_is_named():
    require_memory("small.npz", 1000)
    with pytest.raises(DataError, match=r"large.npz needs 1,048,576.0 GiB of memory: expected at most the [\d.,]+"):
        require_memory("large.npz", 2**50)


def test_a_system_that_does_not_tell_has_a_limit_too(monkeypatch):
    monkeypatch.delattr(os, "sysconf")
    with pytest.raises(DataError, match="at most the 16.0 GiB"):
        require_memory("large.npz", 2**50)
