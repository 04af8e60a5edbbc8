"""Read-outs against effective numbers by brute force, and against the tensors of each path."""

import pytest
import torch
from torch import nn

import covary
from covary.errors import StructureError
from covary.layer_summary import relaxed_layers, summarize_layers
from covary.priors import Prior
from layer_summary.small import noise, relaxed_pair
from oracles.curvature import ggn, loss_of

PATHS = {"0": ("fc", "conv"), "2": ("f-fc", "conv")}


def varied_prior(network: nn.Module, structure="layerwise") -> Prior:
    """A prior whose precisions differ."""
    prior = Prior(network, structure)
    with torch.no_grad():
        prior.log_precision.copy_(torch.linspace(-2, 3, len(prior.log_precision)))
    return prior


def shrinkage(network: nn.Module, prior: Prior, data, diagonal: bool) -> dict[str, torch.Tensor]:
    """1 − δ [(H + δ)⁻¹]_pp of every weight by the Hessian of the linearized loss, by name."""
    h = ggn(network, data[0], loss_of("categorical", data[1]))
    h = torch.diag(h.diagonal()) if diagonal else h
    weights = dict(network.named_parameters())
    shift = torch.cat([prior.shifts()[name].detach().expand(w.numel()) for name, w in weights.items()])
    entries = 1 - shift * torch.linalg.inv(h + torch.diag(shift)).diagonal()
    return dict(zip(weights, entries.split([w.numel() for w in weights.values()]), strict=True))


@pytest.mark.parametrize("curvature", ["full", "diag"])
@pytest.mark.parametrize("structure", ["layerwise", "scalar", {"a": "*.weight", "b": "*"}])
def test_numbers_are_those_of_the_brute_force_curvature(curvature, structure):
    network, data = relaxed_pair(), noise()
    prior = varied_prior(network, structure)
    expected = shrinkage(network, prior, data, curvature == "diag")
    found = summarize_layers(covary.Model(network, prior=prior), data, curvature)
    assert [layer.name for layer in found] == list(PATHS)
    for layer in found:
        members = {
            p: {n: e for n, e in expected.items() if n.startswith(f"{layer.name}.paths.{p}.")}
            for p in PATHS[layer.name]
        }
        normalized = {p: float(torch.cat(list(parts.values())).mean()) for p, parts in members.items()}
        assert layer.learned == max(normalized, key=normalized.get)
        for path in layer.paths:
            entries = torch.cat(list(members[path.name].values()))
            assert path.num_params == len(entries)
            assert path.effective == pytest.approx(float(entries.sum()), rel=1e-8)
            assert path.normalized == pytest.approx(normalized[path.name], rel=1e-8)
            assert path.relative == pytest.approx(normalized[path.name] / sum(normalized.values()), rel=1e-8)


def test_kron_counts_in_the_blocks_of_kfac():
    network, data = relaxed_pair(), noise()
    prior = varied_prior(network)
    blocks = covary.curvature.kfac(network, data)
    for layer in summarize_layers(covary.Model(network, prior=prior), data):
        for path in layer.paths:
            names = [name for name in prior.names if name.startswith(f"{layer.name}.paths.{path.name}.")]
            total = 0.0
            for name in names:
                h, delta = blocks[name].to_dense().detach(), prior.shifts()[name].detach()
                total += float(torch.linalg.solve(h + delta * torch.eye(len(h)), h).trace())
            assert path.effective == pytest.approx(total, rel=1e-8)


def test_random_probes_estimate_the_exact_numbers():
    network, data = relaxed_pair(), noise()
    prior = varied_prior(network)
    exact, few, many = (
        [path.effective for layer in found for path in layer.paths]
        for found in (
            summarize_layers(covary.Model(network, prior=prior), data, covary.Curvature(probes=probes))
            for probes in ("exact", 2, 400)
        )
    )
    assert many == pytest.approx(exact, rel=0.05)
    assert few != pytest.approx(exact, rel=1e-3)


def test_precisions_and_norms_are_those_of_the_tensors():
    network = relaxed_pair()
    prior = varied_prior(network)
    second = summarize_layers(covary.Model(network, prior=prior), noise())[1].paths[0]
    assert list(second.precisions) == ["read.weight", "read.bias", "write.weight", "write.bias"]
    for name, precision in second.precisions.items():
        assert precision == pytest.approx(float(prior.shifts()[f"2.paths.f-fc.{name}"]), rel=1e-12)
    parameters = torch.cat([p.flatten() for p in network[2].paths["f-fc"].parameters()])
    assert second.weight_norm == pytest.approx(float(parameters.norm()), rel=1e-12)


@pytest.mark.parametrize(("bias_precision", "off"), [(1e12, True), (1e-2, False)])
def test_a_path_is_off_when_all_its_tensors_are_biases_included(bias_precision, off):
    network = relaxed_pair()
    patterns = {"0.paths.fc.weight": 1e12, "0.paths.fc.bias": bias_precision, "*": 1.0}
    first = summarize_layers(covary.Model(network, prior=Prior(network, precision=patterns)), noise())[0]
    assert [path.inactive for path in first.paths] == [off, False]
    assert first.learned == ("conv" if off else first.learned)


def test_a_threshold_is_in_units_of_the_layers_sum():
    network, data = relaxed_pair(), noise()
    prior = Prior(network, precision={"0.paths.fc.*": 1e4, "*": 1.0})
    paths = [
        summarize_layers(covary.Model(network, prior=prior), data, threshold=share)[0].paths[0] for share in (1e-9, 0.5)
    ]
    assert [path.inactive for path in paths] == [False, True]
    assert 1e-9 < paths[0].relative < 0.5


def test_a_layer_is_summarized_inside_an_averaged_network():
    inner, data = relaxed_pair(), noise()
    network = covary.Averaged(inner, covary.augment.Affine2d(("rotation",)), 3)
    found = summarize_layers(network, data)
    assert [layer.name for layer in found] == ["network.0", "network.2"]
    assert all(0 < path.effective < path.num_params for layer in found for path in layer.paths)


def test_a_network_without_relaxed_layers_has_nothing_to_read():
    plain = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    assert summarize_layers(plain, noise()) == []
    assert relaxed_layers(plain) == {}


@pytest.mark.parametrize("threshold", [0.0, 1.0, -0.1])
def test_a_threshold_out_of_range_is_refused(threshold):
    network = relaxed_pair()
    with pytest.raises(StructureError, match="between 0 and 1"):
        summarize_layers(network, noise(), threshold=threshold)


def test_the_kernel_has_no_blocks_to_read():
    network = relaxed_pair()
    with pytest.raises(StructureError, match="no blocks of weights"):
        summarize_layers(network, noise(), "kernel")
