"""Networks without inactive paths: the same function, the same evidence, fewer weights."""

import copy
import math

import pytest
import torch
from torch import nn

import covary
from covary.errors import StructureError
from covary.groups import cyclic
from covary.layer_summary import prune
from covary.layers import Conv, FixedFrame, PolyphasePool, Relaxed, SparseConv, SparseDense
from covary.layers.sparse import GlobalSum
from covary.priors import Prior
from covary.training import measure
from layer_summary.small import bars_anywhere, generator, noise, relaxed_pair
from training_models import PLAIN

OFF = {"0.paths.fc.*": 1e14}


def with_inactive_path(scale: float = 1e-12) -> nn.Sequential:
    """The pair of layers with a first dense path that does nearly nothing."""
    network = relaxed_pair()
    network[0].paths["fc"].rescale_(scale)
    return network


def pruned(network: nn.Module, prior: Prior, **settings):
    return prune(covary.Model(network, prior=prior), noise(), **settings)


@pytest.mark.parametrize("curvature", ["kron", "kron-traced", "full", "diag"])
def test_a_path_that_is_off_goes_and_nothing_else_changes(curvature):
    network = with_inactive_path()
    before, prior = copy.deepcopy(network.state_dict()), Prior(network, precision={**OFF, "*": 2.0})
    found = pruned(network, prior, curvature=curvature)
    assert found.removed == ("0.fc",)
    assert list(found.model.network[0].paths) == ["conv"]
    assert list(found.model.network[2].paths) == ["f-fc", "conv"]
    assert found.num_params_before - found.num_params == 16 * 8 + 8
    assert found.max_change < 1e-10
    # a path that is off has a prior and a posterior of one volume: what is left has the evidence that the whole had
    assert float(found.evidence.log_evidence) == pytest.approx(float(found.evidence_before.log_evidence), abs=1e-5)
    whole = covary.log_evidence(covary.Model(network, prior=prior), noise(), curvature)
    assert float(found.evidence_before.log_evidence) == pytest.approx(float(whole.log_evidence), rel=1e-12)
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items()), "left as it is"
    assert list(network[0].paths) == ["fc", "conv"]


def test_the_change_is_that_of_the_outputs():
    network = with_inactive_path(0.05)
    found = pruned(network, Prior(network, precision={**OFF, "*": 1.0}))
    x, _ = noise()
    change = (found.model.network(x) - network(x)).detach().abs()
    assert found.max_change == pytest.approx(float(change.max()), rel=1e-12)
    assert found.mean_change == pytest.approx(float(change.mean()), rel=1e-12)
    assert found.max_change > 1e-3


@pytest.mark.parametrize("kept", ["0.paths.fc.bias", "0.paths.fc.weight"])
def test_a_path_with_one_tensor_on_stays(kept):
    network = with_inactive_path()
    found = pruned(network, Prior(network, precision={kept: 1e-2, **OFF, "*": 1.0}))
    assert found.removed == ()
    assert found.num_params == found.num_params_before
    assert found.max_change == 0


def test_the_largest_path_of_a_layer_stays_though_all_be_below_the_threshold():
    paths = {name: Conv(1, 2, generator=generator(seed)) for seed, name in enumerate(("one", "other"))}
    network = nn.Sequential(Relaxed(paths, PolyphasePool(4)), nn.Flatten(), nn.Linear(2, 2))
    prior = Prior(network, precision={"*.paths.*.bias": 1e9, "*": 1.0})
    assert len(pruned(network, prior, threshold=0.9).removed) == 1
    assert len(pruned(network, prior, threshold=0.1).removed) == 0


@pytest.mark.parametrize("structure", ["layerwise", "scalar", "diagonal", {"first": "0.*", "rest": "*"}])
def test_what_remains_keeps_its_precisions(structure):
    network = with_inactive_path()
    prior = Prior(network, structure, 3.0)
    with torch.no_grad():
        prior.log_precision.add_(torch.linspace(0, 1, len(prior.log_precision)))
    found = pruned(network, prior, threshold=0.999, curvature="diag")
    old, new = prior.shifts(), found.model.prior.shifts()
    assert 0 < len(new) < len(old)
    for name, shift in new.items():
        torch.testing.assert_close(shift.expand(old[name].shape), old[name])


@pytest.mark.parametrize("role", ["point", "hyperparameters"])
def test_tensors_keep_their_role(role):
    network = with_inactive_path()
    patterns = {role: ("0.paths.fc.bias", "*.read.bias")}
    prior = (
        Prior(network, precision={"*.read.bias": 3.0, **OFF, "*": 1.0}, **patterns)
        if role == "point"
        else Prior(network, precision={**OFF, "*": 1.0}, **patterns)
    )
    found = pruned(network, prior)
    assert found.removed == ("0.fc",), "the bias without a number is zero"
    roles = found.model.roles
    assert roles["2.paths.f-fc.read.bias"] == role.removesuffix("s")
    if role == "point":
        assert float(found.model.prior.trained_shifts()["2.paths.f-fc.read.bias"]) == 3.0


def freeze(path: nn.Module) -> tuple[str, ...]:
    path.requires_grad_(False)
    return ()


def wake_bias(path: nn.Module) -> tuple[str, ...]:
    nn.init.ones_(path.bias)
    return ("0.paths.fc.bias",)


@pytest.mark.parametrize(
    ("leave_out", "patterns"),
    [(freeze, {}), (wake_bias, OFF), (lambda _: ("0.paths.fc.*",), {})],
    ids=["frozen", "bias", "all"],
)
def test_a_path_with_a_live_tensor_that_the_prior_leaves_out_stays(leave_out, patterns):
    network = with_inactive_path()
    point = leave_out(network[0].paths["fc"])
    found = pruned(network, Prior(network, precision={**patterns, "*": 1.0}, point=point))
    assert found.removed == ()
    assert found.max_change == 0


def test_nothing_goes_where_the_data_decide_nothing():
    """Without a label that counts the likelihood is 1 whatever the weights: every γ is 0, and no share is small."""
    paths = {name: Conv(1, 2, generator=generator(seed)) for seed, name in enumerate(("one", "other"))}
    network = nn.Sequential(Relaxed(paths, PolyphasePool(4)), nn.Flatten(), nn.Linear(2, 2))
    x, y = noise()
    model = covary.Model(network, covary.Categorical(ignore_index=-100))
    found = prune(model, (x, torch.full_like(y, -100)))
    assert found.removed == ()


def sparse_pair(omega: float, channels: int = 2, num_anchors: int | None = None) -> nn.Sequential:
    """A sparse layer of both kinds, of a given inverse length, and a head."""
    shapes = (1, 4, 4), (channels, 2, 2)
    paths = {
        "s-fc": SparseDense(*shapes, num_anchors=num_anchors, length_scale="weight", generator=generator(1)),
        "s-conv": SparseConv(1, channels, length_scale="weight", generator=generator(2)),
    }
    layer = Relaxed(paths, PolyphasePool(2))
    for part in (paths["s-fc"].read, paths["s-fc"].write, paths["s-conv"]):
        part.omega.data.fill_(omega)
    return nn.Sequential(layer, nn.ReLU(), nn.Flatten(), nn.Linear(4 * channels, 2))


def test_a_sparse_path_without_length_becomes_the_stationary_map():
    network = sparse_pair(1e-6)
    found = pruned(network, Prior(network))
    assert found.replaced == ("0.s-fc",)
    assert isinstance(found.model.network[0].paths["s-fc"], GlobalSum)
    assert found.max_change < 1e-9
    assert found.num_params < found.num_params_before
    assert math.isfinite(float(found.evidence.log_evidence))


def counts(network: nn.Module) -> dict[str, int]:
    """The number of weights of each path of the first layer."""
    return {name: sum(weight.numel() for weight in path.parameters()) for name, path in network[0].paths.items()}


@pytest.mark.parametrize("num_anchors", [None, 1])
@pytest.mark.parametrize("omega", [1.0, 1e-6])
def test_no_path_gains_a_weight(omega, num_anchors):
    network = sparse_pair(omega, 8, num_anchors)
    found = pruned(network, Prior(network))
    before, after = counts(network), counts(found.model.network)
    assert list(after) == list(before)
    assert all(after[name] <= before[name] for name in before)
    assert sum(before.values()) - sum(after.values()) == found.num_params_before - found.num_params


@pytest.mark.parametrize("framed", [False, True])
def test_a_sparse_convolution_without_length_stays(framed):
    """It is stationary already, in a fixed frame as by itself."""
    sparse, group = SparseConv(2, 2, length_scale="weight", generator=generator(1)), cyclic(2)
    sparse.omega.data.fill_(1e-6)
    paths = {"s-conv": FixedFrame(sparse, group) if framed else sparse}
    network = nn.Sequential(Conv(1, 2), Relaxed(paths), nn.Flatten(), nn.Linear(32, 2))
    found = pruned(network, Prior(network))
    assert found.replaced == ()
    assert type(found.model.network[1].paths["s-conv"]) is type(paths["s-conv"])
    assert found.num_params == found.num_params_before
    assert found.max_change == 0


def test_one_with_a_length_stays_sparse():
    """Whatever the threshold of shares: how flat a bump is has one of its own."""
    network = sparse_pair(1.0)
    for threshold in (0.01, 0.9):
        found = pruned(network, Prior(network), threshold=threshold)
        assert found.replaced == ()
        assert all(isinstance(path, SparseConv | SparseDense) for path in found.model.network[0].paths.values())


def test_the_stationary_map_varies_under_its_prior_as_the_sparse_one_did():
    """Values drawn from the sparse path's prior, many times, against the precision that the new tensor is given."""
    network = sparse_pair(1e-6)
    prior = Prior(network, precision={"*write.values": 0.5, "*read.values": 4.0, "*read.bias": 9.0, "*": 2.0})
    new = {name: float(shift) for name, shift in pruned(network, prior).model.prior.shifts().items()}
    draw = generator(3)
    sparse = network[0].paths["s-fc"]
    write = torch.randn(4000, *sparse.write.values.shape, generator=draw) / 0.5**0.5
    read = torch.randn(4000, *sparse.read.values.shape, generator=draw) / 4.0**0.5
    bias = torch.randn(4000, 2, generator=draw) / 9.0**0.5
    written, summed = write.sum(2), read.sum(3).transpose(1, 2)  # (draws, C', C) each
    assert 1 / new["0.paths.s-fc.linear.weight"] == pytest.approx(float((written * summed).var()), rel=0.08)
    assert 1 / new["0.paths.s-fc.linear.bias"] == pytest.approx(float((bias * written.sum(2)).var()), rel=0.08)
    assert new["0.paths.s-conv.values"] == pytest.approx(2.0), "what stays keeps its own"


def test_a_network_without_relaxed_layers_and_a_bad_threshold_are_told():
    plain = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    with pytest.raises(StructureError, match="got Sequential without any"):
        pruned(plain, Prior(plain))
    network = relaxed_pair()
    with pytest.raises(StructureError, match="between 0 and 1"):
        pruned(network, Prior(network), threshold=2.0)


@pytest.mark.slow
def test_a_trained_network_loses_a_path_and_no_accuracy():
    train, test = bars_anywhere(200, 0), bars_anywhere(1000, 1)
    settings = PLAIN.replace(
        epochs=16,
        weights={"lr": 3e-2, "batch_size": 25},
        hyper={"burn_in": 2, "num_prior_steps": 10, "prior_lr": 1.0, "prior_lr_min": 0.05},
        evaluation={"num_evaluations": 1},
    )
    run = covary.fit(relaxed_pair(6, 8), train, settings, test=test, callbacks=())
    found = prune(covary.Model(run.network, run.likelihood, run.prior), train)
    assert found.removed == ("0.fc",)
    assert run.record.layers[0].shift_error < 0.05, "a layer that became a convolution"
    assert run.record.test.accuracy > 0.95
    accuracy = measure(found.model.network, run.likelihood, test).accuracy
    assert abs(accuracy - run.record.test.accuracy) <= 0.002
    assert found.num_params < 0.25 * found.num_params_before
    assert float(found.evidence.log_evidence - found.evidence_before.log_evidence) > -1
