"""What a run saves is loaded in a new process, bit for bit; what a record says is never executed."""

import inspect
import json
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import covary
from covary.errors import CovaryError, DataError, ShapeError, StructureError
from covary.records import read_run, write_run
from covary.records.checksums import checksums
from covary.training.storage import has_own_network, load_model
from training_models import QUICK, averaged, everything, points

SHORT = QUICK.replace(epochs=2, evaluation={"num_evaluations": 1})


def images(num_data=12):
    generator = torch.Generator().manual_seed(1)
    return torch.rand(num_data, 1, 8, 8, generator=generator), torch.arange(num_data) % 2


def own_network():
    return nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))


def relaxed():
    return covary.networks.relaxed_network("f-fc+conv", 1, (1, 8, 8), 2)


def standardized():
    inner = covary.networks.Standardized(covary.networks.mlp(64, [3, 3], 2, nn.ReLU), torch.ones(1), 2 * torch.ones(1))
    return covary.Averaged(inner, covary.augment.Affine2d(("rotation", "shift_x")), 2)


def fitted(network, data=None, likelihood=None, prior=None):
    config = SHORT if isinstance(network, covary.Averaged) else SHORT.replace(hyper={"num_data": None})
    return covary.fit(covary.Model(network, likelihood, prior), data or points(), config, callbacks=())


def assert_equal(loaded, run):
    one, two = everything(loaded), everything(run)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert loaded.record == run.record
    assert type(loaded.likelihood) is type(run.likelihood)
    assert loaded.prior.groups == run.prior.groups
    assert [p.requires_grad for p in loaded.network.parameters()] == [p.requires_grad for p in run.network.parameters()]
    assert not loaded.network.training


@pytest.mark.parametrize("make", [averaged, standardized, relaxed, lambda: covary.networks.mlp(2, 4, 2)])
def test_networks_of_ours_are_loaded_without_passing_anything(tmp_path, make):
    data = images() if make in (standardized, relaxed) else points()
    run = fitted(make(), data)
    loaded = covary.load(run.save(tmp_path))
    assert_equal(loaded, run)
    assert torch.equal(loaded.predict_proba(data[0]), run.predict_proba(data[0]))


def test_a_new_process_loads_the_same_bits(tmp_path):
    run = fitted(averaged())
    run.save(tmp_path)
    code = (
        "import sys, torch, covary; torch.set_default_dtype(torch.float64); "
        "print(covary.load(sys.argv[1]).predict_proba(torch.ones(3, 2, dtype=torch.float64)).tolist())"
    )
    out = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert json.loads(out.stdout) == run.predict_proba(torch.ones(3, 2)).tolist()


def test_a_network_of_the_users_own_is_passed_as_it_is_or_as_its_constructor(tmp_path):
    run = fitted(own_network())
    run.save(tmp_path)
    for given in (own_network(), own_network):
        assert_equal(covary.load(tmp_path, given), run)
    with pytest.raises(StructureError, match="one of your own. Pass the network"):
        covary.load(tmp_path)
    with pytest.raises(StructureError, match=r"'0.weight' of shape \(3, 2\), as .* got \(4, 2\)"):
        covary.load(tmp_path, nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2)))


def network_for(image_shape, num_outputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(image_shape[1] * image_shape[2], num_outputs))


def test_a_function_of_shape_and_outputs_is_called_with_those_of_the_run(tmp_path):
    run = fitted(network_for((1, 8, 8), 2), images())
    run.save(tmp_path)
    assert_equal(covary.load(tmp_path, network_for), run)
    assert_equal(covary.load(tmp_path, lambda: network_for((1, 8, 8), 2)), run)
    write_run(replace(read_run(tmp_path), input_shape=[]), tmp_path / "run.json")
    with pytest.raises(StructureError, match="without the shape of the inputs. Pass a function that needs no"):
        covary.load(tmp_path, network_for)
    with pytest.raises(StructureError, match=r"a function of \(image_shape, num_outputs\) or .* got a .* \(width\)"):
        covary.load(tmp_path, lambda width: width)


def test_the_wrappers_around_a_network_of_the_users_own_are_made_again(tmp_path):
    run = fitted(covary.Averaged(own_network(), covary.augment.Rotation2d(0.3), 3))
    run.save(tmp_path)
    assert_equal(covary.load(tmp_path, own_network()), run)
    assert_equal(covary.load(tmp_path, covary.Averaged(own_network(), covary.augment.Rotation2d(0.1), 3)), run)


@pytest.mark.parametrize(
    ("likelihood", "structure"),
    [
        (covary.Gaussian(0.5), "scalar"),
        (covary.Gaussian(0.5, learn_sigma_noise=False), {"first": "0.*", "rest": ["2.*"]}),
    ],
)
def test_likelihood_and_prior_are_loaded(tmp_path, likelihood, structure):
    network = own_network()
    x, _ = points()
    prior = covary.Prior(network, structure, 2.0, point="0.bias" if structure == "scalar" else ())
    prior.requires_grad_(structure == "scalar")
    run = fitted(network, (x, x), likelihood, prior)
    loaded = covary.load(run.save(tmp_path), own_network)
    assert_equal(loaded, run)
    for one, two in ((loaded.likelihood, run.likelihood), (loaded.prior, run.prior)):
        assert [p.requires_grad for p in one.parameters()] == [p.requires_grad for p in two.parameters()]
    assert loaded.predict(x).shape == (24, 2)


class Tempered(covary.Categorical):
    """A likelihood of the user's own."""


def test_a_likelihood_of_the_users_own_is_passed_in_a_model(tmp_path):
    run = fitted(averaged(), likelihood=Tempered(2.0))
    run.save(tmp_path)
    with pytest.raises(StructureError, match="likelihood of your own. Pass covary.Model"):
        covary.load(tmp_path)
    assert_equal(covary.load(tmp_path, covary.Model(averaged(), Tempered())), run)


def test_nothing_named_in_a_record_is_executed(tmp_path):
    run = fitted(averaged())
    folder = run.save(tmp_path)
    for kind in ("os:system", "built", "__import__"):
        other = run.record.model | {"network": {"kind": kind, "arguments": {}}}
        write_run(replace(read_run(folder), model=other), folder / "run.json")
        with pytest.raises(StructureError, match="one of your own"):
            covary.load(folder)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    torch.manual_seed(0)
    fitted(standardized(), images()).save(folder)
    return folder


VALUES = (None, 3, "mlp", [], {}, {"kind": 3}, {"kind": []}, [None], {"structure": 1}, -1)
LOADED = [  # what is a model, too
    *[
        ("fixed", []),
        ("evaluation_modules", []),
        ("prior/point", []),
        ("prior/hyperparameters", []),
        ("network/num_samples", 3),
    ],
    *[("likelihood/num_classes", None), ("likelihood/num_classes", 3)],
    *[("likelihood/ignore_index", None), ("likelihood/ignore_index", -1)],
]


@pytest.mark.parametrize(
    "place",
    [
        *("likelihood", "likelihood/kind", "likelihood/num_classes", "likelihood/ignore_index", "fixed"),
        *(
            "evaluation_modules",
            "prior",
            "prior/structure",
            "prior/point",
            "prior/hyperparameters",
            "network",
            "network/kind",
        ),
        *("network/num_samples", "network/num_sets", "network/augment", "network/network", "network/network/network"),
        *("network/network/num_channels", "network/network/network/arguments"),
        *("network/network/network/arguments/activation", "network/network/network/arguments/num_hidden"),
    ],
)
def test_a_recipe_of_another_type_is_an_error_of_ours(saved, place):
    *above, last = place.split("/")
    for value in VALUES:
        record = read_run(saved)
        recipe = json.loads(json.dumps(record.model))
        part = recipe
        for name in above:
            part = part[name]
        assert last in part
        part[last] = value
        assert not has_own_network(replace(record, model=recipe))
        if (place, value) in LOADED:
            load_model(replace(record, model=recipe), saved)
            continue
        with pytest.raises(CovaryError) as caught:
            load_model(replace(record, model=recipe), saved)
        assert len(str(caught.value)) < 600


@pytest.mark.parametrize("size", [10**6, 10**12, 10**30])
def test_a_network_that_its_file_does_not_have_is_not_allocated(saved, size):
    record = read_run(saved)
    for place, value in (("num_hidden", [size, size]), ("num_hidden", size)):
        recipe = json.loads(json.dumps(record.model))
        recipe["network"]["network"]["network"]["arguments"][place] = value
        with pytest.raises(DataError, match=r"describes (a network of .* weights|no network that can be made)"):
            load_model(replace(record, model=recipe), saved)
    recipe["network"]["network"]["num_channels"] = size
    with pytest.raises(DataError, match="Expected 1 to .* channels"):
        load_model(replace(record, model=recipe), saved)


def rewritten(folder, place, change):
    """A copy of a run whose weights were changed, with the checksum that they have now."""
    shutil.copytree(folder, place, dirs_exist_ok=True)
    tensors = load_file(place / "model.safetensors")
    save_file({name: change(name, tensor) for name, tensor in tensors.items()}, place / "model.safetensors")
    write_run(replace(read_run(place), files=checksums(place, ["model.safetensors"])), place / "run.json")
    return place


@pytest.mark.parametrize("kind", [torch.int64, torch.bool, torch.complex64, torch.float8_e5m2])
def test_weights_of_a_type_that_is_not_trained_are_refused(saved, tmp_path, kind):
    for last in ("weight", "log_temperature", "log_precision"):
        place = rewritten(saved, tmp_path, lambda name, tensor, last=last: tensor.to(kind) if last in name else tensor)
        with pytest.raises(StructureError, match=rf"and type {str(kind)[6:]}, as .*model.safetensors' has it"):
            covary.load(place)


@pytest.mark.parametrize("kind", [b"F4", b"F8_E8M0"])
def test_numbers_that_torch_does_not_have_are_an_error_of_ours(saved, tmp_path, kind):
    place = rewritten(saved, tmp_path, lambda name, tensor: tensor)
    content = (place / "model.safetensors").read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    shape = header["network/network.network.1.weight"]["shape"]
    header["network/network.network.1.weight"] |= {"dtype": kind.decode(), "shape": [*shape, 8 if kind == b"F4" else 4]}
    written = json.dumps(header).encode()
    (place / "model.safetensors").write_bytes(len(written).to_bytes(8, "little") + written + content[8 + size :])
    write_run(replace(read_run(place), files=checksums(place, ["model.safetensors"])), place / "run.json")
    with pytest.raises(DataError, match="cannot be read as saved weights"):
        covary.load(place)


def test_what_cannot_be_loaded_is_said(tmp_path):
    run = fitted(averaged())
    folder = run.save(tmp_path)
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(record | {"version": 1}))
    with pytest.raises(DataError, match="format version 1"):
        covary.load(folder)
    run.save(folder)
    path = folder / "model.safetensors"
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(DataError, match="model.safetensors' cannot be read: No such file"):
        covary.load(folder)
    for damaged in (content[:-8], bytes(len(content)), content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="model.safetensors' is damaged or of another run"):
            covary.load(folder)
    fitted(averaged(seed=1)).save(tmp_path / "other")
    path.write_bytes((tmp_path / "other" / path.name).read_bytes())
    with pytest.raises(DataError, match="damaged or of another run"):
        covary.load(folder)
    path.write_bytes(b"no tensors")
    write_run(replace(read_run(folder), files=checksums(folder, [path.name])), folder / "run.json")
    with pytest.raises(DataError, match="cannot be read as saved weights"):
        covary.load(folder)


def test_arguments_of_another_kind_are_one_line(tmp_path):
    load, fit = (inspect.unwrap(function) for function in (covary.load, covary.fit))  # users have no checks of types
    run = fitted(averaged())
    folder = run.save(tmp_path / "run")
    for given in ("mlp:30", 3):
        with pytest.raises(StructureError, match="Expected a network, or a function that makes it"):
            load(folder, given)
    own = fitted(own_network()).save(tmp_path / "own")
    with pytest.raises(StructureError, match=r"has, 0.bias, 0.weight, 2.bias, 2.weight, got 0.bias, 0.weight\. Pass"):
        load(own, nn.Sequential(nn.Linear(2, 3)))
    with pytest.raises(StructureError, match=r"covary.Checkpoints\(folder\)"):
        fit(averaged(), points(), checkpoints=str(tmp_path), callbacks=())
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="file', which is a file. Name a folder"):
        run.save(tmp_path / "file")
    assert read_run(str(folder)) == read_run(folder)
    (folder / "run.json").write_text((folder / "run.json").read_text()[:300])
    with pytest.raises(DataError, match="is damaged, or no record"):
        covary.load(folder)


def test_predictions_are_those_of_the_test_and_take_any_number_of_samples():
    x, y = points(10, 3)
    run = covary.fit(averaged(), points(), SHORT, test=(x, y), callbacks=())
    assert float((run.predict(x) == y).double().mean()) == run.record.test.accuracy
    assert run.evaluate((x, y)) == run.record.test
    assert run.evaluate((x, y), num_samples=9).num_samples == 9
    assert not torch.equal(run.predict_proba(x, num_samples=9), run.predict_proba(x))
    torch.testing.assert_close(run.predict_proba(x).sum(1), torch.ones(10))
    assert run.augment is run.network.augment
    assert isinstance(run.posterior(points()), covary.Laplace)


def test_training_is_continued_from_a_loaded_run(tmp_path):
    network = averaged()
    with torch.no_grad():
        for weight in network.network[3].parameters():
            weight.mul_(0.2)  # which leaves much to learn
    run = covary.fit(network, points(), QUICK.replace(weights={"lr": 0.05}), callbacks=())
    loaded = covary.load(run.save(tmp_path))
    more = loaded.fit_more(points(), 3, callbacks=())
    assert len(more.record.history) == 3
    assert more.record.config["hyper"]["burn_in"] == 0
    assert more.record.history[0].log_likelihood > run.record.history[0].log_likelihood
    assert more.record.history[0].evidence is not None
    assert replace(read_run(more.save(tmp_path)), files={}) == more.record


def test_a_path_that_is_missing_or_another_file_is_not_its_parent(tmp_path):
    run = fitted(averaged())
    folder = run.save(tmp_path)
    for name, found in (("nothing", "does not exist"), ("model.safetensors", "is a file")):
        with pytest.raises(DataError, match=f"{name}', which {found}"):
            covary.load(folder / name)
    with pytest.raises(DataError, match=r"pruned.safetensors', which does not exist"):
        covary.load(folder / "pruned.safetensors")
    assert_equal(covary.load(folder / "run.json"), run)


def test_the_report_of_an_earlier_run_is_removed(tmp_path):
    (tmp_path / "report.html").write_text("of another run")
    fitted(averaged()).save(tmp_path)
    assert not (tmp_path / "report.html").exists()


def test_inputs_of_another_shape_are_refused():
    x, _ = images()
    run = fitted(standardized(), images())
    with pytest.raises(ShapeError, match=r"shape \(N, 1, 8, 8\) as in training, got \(12, 1, 4, 16\)"):
        run.predict(x.reshape(12, 1, 4, 16))
    with pytest.raises(ShapeError, match=r"as in training, got \(12, 1, 4, 16\)"):
        run.evaluate((x.reshape(12, 1, 4, 16), torch.zeros(12, dtype=torch.int64)))
    with pytest.raises(ShapeError, match=r"got \(1, 8, 8\). Add the batch axis: x\[None\].$"):
        run.predict(x[0])
    other = x.reshape(12, 1, 4, 16), torch.zeros(12, dtype=torch.int64)
    for use in (run.posterior, lambda data: run.fit_more(data, 1)):
        with pytest.raises(ShapeError, match=r"as in training, got \(12, 1, 4, 16\)"):
            use(other)


def test_images_of_another_size_are_refused_if_the_network_cannot_process_them():
    x, y = images()
    run, wrong = fitted(covary.networks.mlp(64, 3, 2), images()), torch.rand(12, 1, 9, 9)
    for call in (run.predict, run.predict_proba, lambda given: run.evaluate((given, y))):
        with pytest.raises(ShapeError, match=r"of shape \(N, 1, 8, 8\) as in training, got \(12, 1, 9, 9\)"):
            call(wrong)
    with pytest.raises(ShapeError, match=r"cannot process inputs of shape \(12, 1, 8, 8\) and type torch.int64"):
        run.predict(x.long())
    assert run.predict(x.flatten(1)).shape == (12,), "the same numbers, flattened before"
    pooled = nn.Sequential(nn.Conv2d(1, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    assert fitted(pooled, images()).predict(wrong).shape == (12,), "a network for any size"
    color = covary.networks.Standardized(nn.Sequential(nn.Conv2d(3, 2, 8), nn.Flatten()), torch.zeros(3), torch.ones(3))
    run = fitted(color, (x.expand(12, 3, 8, 8), y))
    with pytest.raises(ShapeError, match=r"of shape \(N, 3, 8, 8\) as in training, got \(12, 1, 8, 8\)"):
        run.predict(x)  # which would be broadcast against the means


def table():
    x = torch.rand(12, 3)
    network = covary.networks.Standardized(covary.networks.mlp(3, 4, 1), x.mean(0), x.std(0), 0)
    names = {"feature_names": ("area", "rooms", "age"), "target_names": ("price",)}
    data = covary.data.Dataset(x, x.sum(1, keepdim=True), x[:0], x[:0, :1], "houses", (), **names)
    return fitted(network, data, covary.Gaussian(1.0))


def test_rows_with_other_columns_are_refused_before_they_are_broadcast(tmp_path):
    run = covary.load(table().save(tmp_path))
    named = r"Expected rows of 3 columns \(area, rooms, age\), as in training, got"
    for call in (run.predict, run.predict_proba, lambda x: run.evaluate((x, torch.rand(len(x), 1)))):
        for wrong, got in ((torch.rand(5, 1), "1"), (torch.rand(5, 5), "5"), (torch.rand(5, 1, 6, 6), "data of shape")):
            with pytest.raises(ShapeError, match=f"{named} {got}"):
                call(wrong)
    with pytest.raises(ShapeError, match=rf"{named} a single one. Add the batch axis: x\[None\].$"):
        run.predict(torch.rand(3))
    with pytest.raises(ShapeError, match=rf"{named} data of shape \(\)"):
        run.predict(torch.tensor(1.0))
    assert run.predict(torch.rand(3)[None]).shape == (1, 1)
    with pytest.raises(ShapeError, match=r"Expected rows of 2 columns, as in training, got 1.$"):
        fitted(own_network()).predict(torch.rand(5, 1))


def test_bytes_and_arrays_are_predicted_as_what_they_stand_for():
    x = (255 * images()[0].clamp(0, 1)).round().to(torch.uint8)
    run = fitted(standardized(), images())
    expected = run.predict_proba(x.double() / 255)
    for same in (x, x.numpy(), (x.double() / 255).numpy()):
        torch.testing.assert_close(run.predict_proba(same), expected, rtol=0, atol=0)


def test_the_names_of_classes_are_those_of_the_data_set(tmp_path):
    x, y = images()
    named = covary.data.Dataset(x, y, x[:0], y[:0], "letters", ("a", "b"))
    run = fitted(covary.networks.mlp(64, 3, 2), named)
    assert run.class_names == covary.load(run.save(tmp_path / "run")).class_names == ["a", "b"]
    assert fitted(covary.networks.mlp(64, 3, 2), (x, y)).class_names == []
