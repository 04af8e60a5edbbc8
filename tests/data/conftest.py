"""Places to look for data that belong to the test alone."""

from pathlib import Path

import pytest

from covary.data.sources import cache_dir


@pytest.fixture(autouse=True)
def places(monkeypatch, tmp_path_factory) -> dict[str, Path]:
    """Three empty places to look in, instead of those of whoever runs the tests."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("given", "variable", "home")}
    monkeypatch.setenv("COVARY_DATA", str(folders["variable"]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folders["home"]))
    monkeypatch.setattr("covary.data.sources.sys.platform", "linux")
    return {**folders, "cache": cache_dir()}
