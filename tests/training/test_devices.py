"""The device of a fit: what a name stands for, what is moved, and that every tensor is where it belongs.

There is no GPU here. Instead, the whole loop runs under a mode that refuses every tensor which covary creates without a
device, and on a second device of `second_device.py`, where it must give the same bits.
"""

import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

import covary
from covary import priors
from covary.errors import StructureError
from covary.layer_summary import prune
from covary.layers import pool
from covary.networks.offloaded import offloaded
from covary.training import devices
from covary.training.devices import Devices, device_of, resolved_devices
from layer_summary.small import noise, relaxed_pair
from training.second_device import second_device
from training_models import QUICK, averaged, everything, points

PACKAGE = str(Path(covary.__file__).parent)


class EveryTensorHasADevice(TorchFunctionMode):
    """Raise for a tensor that a function of covary creates without a device; what torch creates is its own affair."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function in _device_constructors() and kwargs.get("device") is None:
            frame = sys._getframe(1)
            while "shape_checks" in frame.f_code.co_filename or "beartype" in frame.f_code.co_filename:
                frame = frame.f_back
            if frame.f_code.co_filename.startswith(PACKAGE):
                raise AssertionError(f"{frame.f_code.co_filename}:{frame.f_lineno} creates a tensor without a device")
        return function(*args, **kwargs)


def mlp(num_inputs: int) -> nn.Module:
    return covary.networks.mlp(num_inputs, 5, 2, generator=torch.Generator().manual_seed(0))


def images() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand(24, 1, 4, 4, generator=torch.Generator().manual_seed(0)), torch.arange(24) % 2


def affine() -> covary.Model:
    return covary.Model(covary.Averaged(mlp(16), covary.augment.Affine2d(initial_width=0.1), 4))


def composed() -> covary.Model:
    mixed = covary.augment.Correlated(covary.augment.Affine2d(["rotation", "shift_x"]))
    augment = covary.augment.Composed(covary.augment.FiniteGroup("flips"), mixed)
    return covary.Model(covary.Averaged(mlp(16), augment, 4))


def convolutional() -> covary.Model:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(1, 3, 3), nn.GroupNorm(1, 3), nn.PReLU(), nn.Flatten(), nn.Linear(12, 2))
    return covary.Model(body, prior=covary.Prior(body, point="2.weight"))


def regression() -> covary.Model:
    network = averaged()
    return covary.Model(network, covary.Gaussian(0.5), covary.Prior(network, "scalar"))


def heteroscedastic() -> covary.Model:
    return covary.Model(averaged(), covary.HeteroscedasticGaussian())


def rotation() -> covary.Model:
    return covary.Model(averaged())


MODELS = {
    "rotation": (rotation, points, {}),
    "affine": (affine, images, {}),
    "composed": (composed, images, {}),
    "convolutional": (convolutional, images, {}),
    "regression": (regression, lambda: (points()[0], points()[0]), {}),
    "heteroscedastic": (heteroscedastic, lambda: (points()[0], points()[0][:, 0]), {}),
    "relaxed": (lambda: covary.Model(relaxed_pair()), lambda: noise(12), {"evaluation.probes": 2}),
    "error bars": (rotation, points, {"evaluation.num_error_data": 500}),
    "prior-scaled": (rotation, points, {"weights.relative_lr": 0.15, "weights.prior_scaled_lr": True}),
    "clipped": (rotation, points, {"weights.max_grad_norm": 0.1}),
    "kernel": (rotation, points, {"hyper.estimator": "kernel"}),
    "stochastic": (rotation, points, {"hyper.estimator": "stochastic"}),
    "augerino": (rotation, points, {"hyper.estimator": "augerino"}),
    "full": (rotation, points, {"curvature": "full", "hyper.probes": "exact"}),
    "diag": (rotation, points, {"curvature": "diag"}),
    "traced": (rotation, points, {"curvature": "kron-traced"}),
}


OFFLOADED = ("rotation", "affine", "composed", "convolutional", "regression", "relaxed", "kernel", "augerino")


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_on_another_device_is_the_same_fit(name, tmp_path):
    """The network is moved by its user, all else by `fit`; no tensor of it is created without a device."""
    model, data, settings = MODELS[name]
    config, train = QUICK.replace(epochs=2, **settings), data()
    expected = covary.fit(model(), train, config, test=train, callbacks=())
    whole, checkpoints = model(), covary.Checkpoints(tmp_path, 1)
    with second_device(), EveryTensorHasADevice():
        whole.network.to("meta")
        run = covary.fit(whole, train, config, test=train, checkpoints=checkpoints, callbacks=())
        assert {tensor.device.type for tensor in everything(run).values()} == {"meta"}
        found = {place: tensor.cpu() for place, tensor in everything(run).items()}
        predicted = run.predict_proba(train[0])
    assert predicted.device.type == "cpu", "on the device of the inputs"
    # convolutions of wrapped tensors may take another kernel
    close = {"rtol": 1e-9, "atol": 1e-12}
    torch.testing.assert_close(predicted, expected.predict_proba(train[0]), **close)
    for place, tensor in everything(expected).items():
        torch.testing.assert_close(found[place], tensor, **close, msg=place)
    assert run.record.test.nll == pytest.approx(expected.record.test.nll, rel=1e-9)
    for ours, theirs in zip(run.record.predicted_noise, expected.record.predicted_noise, strict=True):
        assert ours.size == pytest.approx(theirs.size, rel=1e-9)
    for ours, theirs in zip(run.symmetries, expected.symmetries, strict=True):
        assert ours.error == (theirs.error and pytest.approx(theirs.error, rel=1e-6))
    assert [layer.learned for layer in run.layers] == [layer.learned for layer in expected.layers]


def test_everything_else_follows_the_device_of_the_model(tmp_path):
    train = noise(12)
    with second_device():
        network = relaxed_pair().to("meta")
        model = covary.Model(network)
        run = covary.fit(model, train, QUICK.replace(epochs=2), checkpoints=covary.Checkpoints(tmp_path), callbacks=())
        again = covary.Model(relaxed_pair().to("meta"))
        config = QUICK.replace(epochs=3)
        with pytest.raises(StructureError, match="epochs"):
            covary.fit(again, train, config, checkpoints=covary.Checkpoints(tmp_path, resume=True), callbacks=())
        there = tuple(tensor.to("meta") for tensor in train)
        gradient = covary.hypergrad.two_pass(model, there)
        assert {entry.device.type for entry in gradient.values()} == {"meta"}
        assert run.evaluate(train).num_data == 12
        posterior = run.posterior(train)
        assert posterior.predict(there[0]).device.type == "meta"
        assert prune(model, there, threshold=0.5).num_params <= sum(weight.numel() for weight in model.weights.values())
        loaded = covary.load(run.save(tmp_path / "saved"), relaxed_pair)
    torch.testing.assert_close(loaded.network[0].paths["fc"].weight, network[0].paths["fc"].weight.held)


def test_tensors_of_an_evidence_do_not_depend_on_the_default_device():
    model, train = affine(), images()
    expected = covary.hypergrad.two_pass(model, train)
    with torch.device("meta"):
        found = covary.hypergrad.two_pass(model, train)
        predicted = covary.Laplace(model, train).predict(train[0][:2])
    assert found.terms.log_evidence == expected.terms.log_evidence
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert predicted.device.type == "cpu"


def test_a_tensor_without_a_device_is_found():
    """The control of the mode: such a line in a file of covary fails, with its place; one with a device does not."""

    def line(source: str) -> None:
        exec(compile(f"import torch\n{source}", f"{PACKAGE}/here.py", "exec"), {})

    with EveryTensorHasADevice():
        for source in ("torch.zeros(2)", "torch.arange(3)", "torch.tensor([1.0])"):
            with pytest.raises(AssertionError, match=r"here\.py:2 creates a tensor without a device"):
                line(source)
        line("torch.zeros(2, device='cpu')")
        torch.zeros(2)  # of a test


def test_tensors_of_two_devices_are_found():
    """The control of the second device: it refuses what a GPU would refuse."""
    with second_device():
        there = torch.ones(2).to("meta")
        with pytest.raises(AssertionError, match="mixes devices"):
            there + torch.ones(2)
        assert (there + torch.tensor(1.0)).tolist() == [2.0, 2.0]


def test_a_likelihood_that_forgets_a_device_is_found():
    """The control of the default device: with a tensor that follows it there is no evidence."""

    class Forgetful(covary.Categorical):
        def log_prob_each(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            return super().log_prob_each(outputs, targets) + torch.zeros(len(outputs))

    model = covary.Model(affine().network, Forgetful())
    covary.hypergrad.two_pass(model, images())
    with torch.device("meta"), pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        covary.hypergrad.two_pass(model, images())


def test_names_of_devices(monkeypatch):
    network = nn.Linear(2, 2)
    cpu = torch.device("cpu")
    assert resolved_devices("auto", network) == resolved_devices("cpu", network) == Devices(cpu, cpu)
    assert resolved_devices("auto", network.to("meta")).model.type == "meta", "where its user has put it"
    assert device_of(nn.ReLU()).type == "cpu"
    with pytest.raises(StructureError, match=r"GPU of Apple for device='mps', .*sees none. Use device='cpu'"):
        resolved_devices("mps", network)
    with pytest.raises(StructureError, match=r"GPU for device='cuda', .*sees none. Use device='cpu'"):
        resolved_devices("cuda", network)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert resolved_devices("auto", nn.Linear(2, 2)).model == torch.device("cuda:0")
    assert set(resolved_devices("cuda:1", network)) == {torch.device("cuda:1")}
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert resolved_devices("auto", nn.Linear(2, 2)).model == torch.device("cuda:1"), "one GPU for each process"
    with pytest.raises(StructureError, match="one of 2 GPUs, got device 'cuda:2'"):
        resolved_devices("cuda:2", network)


def test_mps_is_the_device_of_weight_steps_alone(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    network = nn.Linear(2, 2)
    with pytest.raises(StructureError, match=r"has no float64, got float64 in 'weight'\. Call network\.float\(\)"):
        resolved_devices("mps", network)
    network.float()
    assert resolved_devices("mps", network) == Devices(torch.device("cpu"), torch.device("mps"))
    assert resolved_devices("auto", network).weight_steps.type == "cpu", "it is never chosen by itself"
    for setting in ({"compile": True}, {"precision": "bf16"}):
        with pytest.raises(StructureError, match=r"weights\.precision='full' with the device 'mps', got"):
            covary.fit(network, points(), QUICK.replace(weights=setting), device="mps", callbacks=())


@pytest.fixture
def without_float64(monkeypatch):
    """The second device as one that has no float64."""
    for module in (priors, devices, pool):
        monkeypatch.setattr(module, "WITHOUT_FLOAT64", ("meta",))


def in_float32(model: covary.Model) -> covary.Model:
    for module in (model.network, model.likelihood, model.prior):
        module.float()
    return model


@pytest.mark.parametrize("name", [*OFFLOADED])
def test_weight_steps_on_a_device_without_float64_are_those_of_the_cpu(name, without_float64, tmp_path):
    model, data, settings = MODELS[name]
    config, train = QUICK.replace(epochs=2, **settings), data()
    expected = covary.fit(in_float32(model()), train, config, test=train, callbacks=())
    whole, checkpoints = in_float32(model()), covary.Checkpoints(tmp_path, 1)
    with second_device(float64=False) as seen:
        whole.network.to("meta")
        run = covary.fit(whole, train, config, test=train, checkpoints=checkpoints, callbacks=())
    assert seen["operations"] > 100, "weight steps ran there"
    assert {tensor.device.type for tensor in everything(run).values()} == {"cpu"}, "where the evidence is computed"
    for place, tensor in everything(expected).items():
        torch.testing.assert_close(everything(run)[place], tensor, rtol=1e-4, atol=1e-6, msg=place)
    assert run.evidence.log_evidence == pytest.approx(expected.evidence.log_evidence, rel=1e-5)


def test_buffers_and_parametrized_recurrent_weights_follow_to_another_device():
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.norm = nn.LSTM(3, 4, batch_first=True), nn.InstanceNorm1d(4, track_running_stats=True)
            self.head = nn.utils.parametrizations.weight_norm(nn.Linear(4, 2))

        def forward(self, x):
            return self.head(self.norm(self.lstm(x)[0].mT).mean(2))

    torch.manual_seed(0)
    network, other = Recurrent(), Recurrent()
    other.load_state_dict(network.state_dict())
    x = torch.randn(5, 6, 3)
    network(x).sum().backward()
    with second_device():
        outputs = offloaded(other, torch.device("meta"))(x)
        outputs.sum().backward()
    assert outputs.device.type == "cpu"
    for (place, ours), theirs in zip(other.named_parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, msg=place)
    assert not other.norm.running_mean.equal(torch.zeros(4)), "changed by the call"
    torch.testing.assert_close(other.norm.running_mean, network.norm.running_mean)


def test_an_evidence_on_a_device_without_float64_is_one_line(without_float64):
    model = in_float32(affine())
    with second_device(float64=False):
        covary.training.devices.move_model(model, torch.device("meta"))
        for compute in (covary.log_evidence, covary.Laplace, covary.EvidenceLearner, covary.hypergrad.two_pass):
            with pytest.raises(StructureError, match=r"is on 'meta', which has no float64, .*Move the network to the"):
                compute(model, images())


@pytest.mark.parametrize("device", ["gpu", "cuda:", "meta", None, 0])
def test_other_names_are_refused(device):
    with pytest.raises(StructureError, match="'device' to be 'auto', 'cpu', 'cuda', 'cuda:N' or 'mps', got"):
        covary.fit(averaged(), points(), QUICK, device=device, callbacks=())


def test_mixed_devices_are_one_line():
    model, data = rotation(), points()
    model.network.network[1].to("meta")
    with pytest.raises(StructureError, match=r"'network.1.weight' is on meta and its prior on cpu\. Move network and"):
        covary.log_evidence(model, data)
