"""Posteriors that are written and read again, in other types, and by those they were not made for."""

import errno
import json
import os

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import covary
from cases import CASES, targets
from covary.errors import CovaryError, DataError, StructureError
from covary.posterior import Laplace
from covary.posterior.storage import HEADER

OPTIONS = [
    (curvature, subset) for curvature in ("kron", "kron-traced", "full", "diag") for subset in ("all", "last_layer")
]


def posterior(curvature: str = "kron", subset: str = "all", case: str = "linear") -> tuple[Laplace, torch.Tensor]:
    network, x = CASES[case].make(8)
    y = targets("categorical", 8)
    prior = covary.Prior(network, precision={"*weight": 0.7, "*": 1.3})
    return Laplace(covary.Model(network, covary.Categorical(0.9), prior), (x, y), curvature, subset=subset, seed=5), x


def check_same(ours: Laplace, theirs: Laplace, x: torch.Tensor, **tolerance: float) -> None:
    torch.testing.assert_close(ours.predict(x), theirs.predict(x), **tolerance, check_dtype=False)
    for term in ("log_likelihood", "log_prior", "log_volume", "gradient_norm"):
        pair = getattr(ours.log_evidence(), term), getattr(theirs.log_evidence(), term)
        torch.testing.assert_close(*pair, **tolerance, check_dtype=False)
    left, right = ours.sample_weights(2), theirs.sample_weights(2)
    for name in left:
        torch.testing.assert_close(left[name], right[name], **tolerance, check_dtype=False)


@pytest.mark.parametrize(("curvature", "subset"), OPTIONS)
def test_a_file_gives_the_same_posterior(curvature, subset, tmp_path):
    laplace, x = posterior(curvature, subset)
    laplace.save(tmp_path / "posterior.safetensors")
    loaded = Laplace.load(tmp_path / "posterior.safetensors", laplace.model)
    assert loaded.fitted._replace(mean={}, statistics=None) == laplace.fitted._replace(mean={}, statistics=None)
    assert loaded.fitted.statistics.num_data == 8
    check_same(loaded, laplace, x, rtol=0, atol=0)


@pytest.mark.parametrize("case", ["conv2d grouped", "embedding", "layer norm", "unused layers"])
def test_every_structure_goes_through_a_file(case, tmp_path):
    laplace, x = posterior(case=case)
    laplace.save(tmp_path / "posterior.safetensors")
    loaded = Laplace.load(tmp_path / "posterior.safetensors", laplace.model)
    check_same(loaded, laplace, x, rtol=0, atol=0)


def test_a_state_replaces_a_posterior():
    laplace, x = posterior()
    other = Laplace(
        laplace.model,
        (x[:3], targets("categorical", 3)),
    )
    other.load_state_dict(laplace.state_dict())
    check_same(other, laplace, x, rtol=0, atol=0)


@pytest.mark.parametrize("num_sets", [1, 2])
def test_traces_are_those_of_the_factors_again(tmp_path, num_sets):
    """A group of channels that is always dark has no trace: nothing to divide by, and nothing to store."""
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Conv2d(2, 4, 2, groups=2), nn.Tanh(), nn.Flatten(), nn.Linear(36, 3))
    network = covary.Averaged(inner, covary.augment.Affine2d(initial_width=0.3), 4, num_sets=num_sets)
    x, y = torch.randn(6, 2, 4, 4) * torch.tensor([1.0, 0.0])[:, None, None], targets("categorical", 6)
    prior = covary.Prior(network, precision=0.7)
    laplace = Laplace(covary.Model(network, prior=prior), (x, y), "kron-traced")
    laplace.save(tmp_path / "posterior.safetensors")
    loaded = Laplace.load(tmp_path / "posterior.safetensors", covary.Model(network, laplace.model.likelihood, prior))
    assert loaded.curvature["network.0.weight"].traced
    check_same(loaded, laplace, x, rtol=0, atol=0)


def test_a_network_in_single_precision_gets_the_posterior_in_it(tmp_path):
    laplace, x = posterior()
    laplace.save(tmp_path / "posterior.safetensors")
    network, _ = CASES["linear"].make(8)
    network.load_state_dict(laplace.model.network.state_dict())
    network.float()
    prior = covary.Prior(network, precision={"*weight": 0.7, "*": 1.3})
    loaded = Laplace.load(tmp_path / "posterior.safetensors", covary.Model(network, laplace.model.likelihood, prior))
    assert {value.dtype for value in loaded.mean.values()} == {torch.float32}
    assert loaded.curvature.dtype == torch.float32
    # single precision through decompositions of badly conditioned factors
    torch.testing.assert_close(loaded.predict(x.float()).double(), laplace.predict(x), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("curvature", ["kron", "full", "diag"])
def test_to_gives_another_posterior_and_leaves_this_one(curvature):
    laplace, x = posterior(curvature)
    expected = laplace.predict(x)
    single = laplace.to(torch.float32)
    assert laplace.curvature.dtype == torch.float64
    with pytest.raises(StructureError, match="posterior.to"):
        single.predict(x)
    laplace.model.network.float()
    torch.testing.assert_close(single.predict(x.float()).double(), expected, rtol=1e-3, atol=1e-4)
    assert single.sample_weights(2)["0.weight"].dtype == torch.float32
    assert single.to("cpu").curvature.device.type == "cpu"


def test_another_network_is_refused(tmp_path):
    laplace, _ = posterior()
    laplace.save(tmp_path / "posterior.safetensors")
    for network in (nn.Linear(4, 3), nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))):
        with pytest.raises(StructureError, match="another network"):
            Laplace.load(tmp_path / "posterior.safetensors", covary.Model(network, laplace.model.likelihood))


def test_a_larger_network_is_refused_unless_the_posterior_is_of_the_last_layer():
    network, _ = CASES["linear"].make(8)
    network.insert(2, nn.Identity())
    network[2].more = nn.Linear(1, 1)
    network = nn.Sequential(network[0], network[1], network[3], network[2])
    prior = covary.Prior(network, precision={"*weight": 0.7, "*": 1.3})
    data = (torch.randn(4, 4), targets("categorical", 4))
    target = Laplace(covary.Model(network, covary.Categorical(0.9), prior), data)
    with pytest.raises(StructureError, match="'3.more.weight'"):
        target.load_state_dict(posterior()[0].state_dict())
    target.load_state_dict(posterior(subset="last_layer")[0].state_dict())
    assert list(target.mean) == ["2.weight", "2.bias"]


def test_another_prior_or_likelihood_is_refused():
    laplace, x = posterior()
    state = laplace.state_dict()
    data = (x, targets("categorical", 8))
    for likelihood, prior, message in [
        (covary.Categorical(0.9), covary.Prior(laplace.model.network), "'prior/0.weight' differs"),
        (covary.Categorical(0.5), laplace.model.prior, "'likelihood/log_temperature' differs"),
    ]:
        with pytest.raises(StructureError, match=message):
            Laplace(covary.Model(laplace.model.network, likelihood, prior), data).load_state_dict(state)
    other = Laplace(covary.Model(laplace.model.network, covary.Gaussian(), laplace.model.prior), (x, torch.randn(8, 3)))
    with pytest.raises(StructureError, match="Categorical, got Gaussian"):
        other.load_state_dict(state)


@pytest.mark.parametrize("curvature", ["kron", "full", "diag"])
def test_a_state_without_any_one_of_its_entries_is_refused(curvature):
    laplace, _ = posterior(curvature)
    state = laplace.state_dict()
    for key in state:
        with pytest.raises(DataError):
            laplace.load_state_dict({k: v for k, v in state.items() if k != key})


def test_a_state_with_an_entry_of_another_shape_or_value_is_refused():
    laplace, _ = posterior()
    state = laplace.state_dict()
    for key in [key for key in state if key != HEADER]:
        with pytest.raises(CovaryError):
            laplace.load_state_dict(state | {key: torch.zeros(7, 7, 7)})
        with pytest.raises(CovaryError):
            laplace.load_state_dict(state | {key: torch.full_like(state[key], torch.nan)})
    with pytest.raises(DataError, match="adds \\['mean/other'\\]"):
        laplace.load_state_dict(state | {"mean/other": torch.zeros(1)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "format version 2; this covary reads 1"),
        ({"blocks": {"0.weight": "LowRank"}}, "known curvature"),
        ({"blocks": []}, "field 'blocks'"),
        ({"curvature": "kernel"}, "known curvature"),
        ({"seed": "zero"}, "field 'seed'"),
        ({"names": []}, "known curvature"),
    ],
)
def test_a_header_that_was_tampered_with_is_refused(change, message):
    laplace, _ = posterior()
    state = laplace.state_dict()
    header = json.dumps(json.loads(state[HEADER]) | change)
    with pytest.raises(DataError, match=message):
        laplace.load_state_dict(state | {HEADER: header})


def test_what_is_no_posterior_is_refused(tmp_path):
    laplace, _ = posterior()
    (tmp_path / "text").write_text("no tensors")
    save_file({"weight": torch.zeros(1)}, tmp_path / "other")
    save_file({"weight": torch.zeros(1)}, tmp_path / "broken", metadata={HEADER: "{"})
    save_file({"weight": torch.zeros(1)}, tmp_path / "deep", metadata={HEADER: "[" * 100_000})
    messages = {"text": "not a safetensors file", "other": "not a posterior", "broken": "not JSON", "deep": "not JSON"}
    for file, message in messages.items():
        with pytest.raises(DataError, match=message):
            Laplace.load(tmp_path / file, laplace.model)


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    laplace, _ = posterior()
    path = tmp_path / "posterior.safetensors"
    laplace.save(path)
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: .*posterior\.safetensors"):
        laplace.save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        Laplace.load(tmp_path / "pipe", laplace.model)
