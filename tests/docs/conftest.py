"""Documentation is read with torch's defaults: single precision, whatever the other tests use."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "docs" / "_ext"))


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    """Override the fixture of that name, which makes float64 the default."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before)
