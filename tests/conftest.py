"""What every test stands on: float64, one torch thread per process, noise from explicit generators."""

import os
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
import torch
from hypothesis import HealthCheck, settings

from shape_checks import checked

jaxtyping.jaxtyped = checked  # what the hook of --jaxtyping-packages decorates covary with, from its first import on
REPOSITORY = Path(__file__).parent.parent

# Derandomized: a property that fails, fails for everybody. To search further: HYPOTHESIS_PROFILE=explore make test
# How long an example takes says how busy the machine is.
settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    max_examples=30,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", deadline=None, max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_configure() -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        # Processes share the cores; several threads in each would only wait for one another.
        torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.fixture
def generator() -> torch.Generator:
    """A source of noise that starts at the same place in every test."""
    return torch.Generator().manual_seed(0)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The directory with the full data sets; a test that asks for it is skipped where there is none."""
    for place in (os.environ.get("COVARY_DATA"), REPOSITORY.parent / "shared" / "data"):
        if place and (Path(place) / "mnist").is_dir():
            return Path(place)
    pytest.skip("needs the full MNIST in $COVARY_DATA/mnist or in ../shared/data/mnist")
