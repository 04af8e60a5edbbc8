import sys

import pytest
import torch
from torch import nn

from covary.errors import ShapeError, StructureError
from covary.networks import build, cnn, fixup_resnet, lenet, mlp, relaxed_network
from covary.networks.named import NAMES, outline
from covary.networks.relaxed import LENGTH_SCALES, VARIANTS


def weights(network):
    return torch.cat([p.detach().flatten() for p in network.parameters()])


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of the user's own, by the text of its source."""
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("my_networks", None)
    yield lambda source: (tmp_path / "my_networks.py").write_text(source)
    sys.modules.pop("my_networks", None)


@pytest.mark.parametrize(
    ("name", "shape", "same"),
    [
        ("mlp", (1, 28, 28), lambda g: mlp(784, 1000, 4, generator=g)),
        ("mlp:30", (3, 4, 5), lambda g: mlp(60, 30, 4, generator=g)),
        ("mlp:30-20", (1, 4, 4), lambda g: mlp(16, (30, 20), 4, generator=g)),
        ("cnn", (3, 16, 16), lambda g: cnn(3, 16, 4, generator=g)),
        ("lenet", (1, 28, 28), lambda g: lenet(1, 28, 4, generator=g)),
        ("resnet-8-2", (3, 6, 9), lambda g: fixup_resnet(8, 2, 3, 4, generator=g)),
        ("relaxed:f-fc+conv:2", (3, 6, 9), lambda g: relaxed_network("f-fc+conv", 2, (3, 6, 9), 4, generator=g)),
        ("relaxed:gconv-full:1", (1, 4, 4), lambda g: relaxed_network("gconv-full", 1, (1, 4, 4), 4, generator=g)),
        (
            "relaxed:s-fc:1:weight",
            (1, 4, 4),
            lambda g: relaxed_network("s-fc", 1, (1, 4, 4), 4, length_scale="weight", generator=g),
        ),
    ],
)
def test_names_are_the_networks_they_say(name, shape, same):
    network = build(name, shape, 4, seed=3)
    assert network(torch.zeros(2, *shape)).shape == (2, 4)
    assert torch.equal(weights(network), weights(same(torch.Generator().manual_seed(3))))
    assert not torch.equal(weights(network), weights(build(name, shape, 4, seed=4)))


@pytest.mark.parametrize(
    "name",
    [
        *("mpl", "mlp:", "mlp:a", "mlp:3-", "mlp:-3", "resnet", "resnet-8", "cnn-3", ""),
        *("relaxed", "relaxed:conv", "relaxed:conv:a", "relaxed:conv:1:fixed:2"),
    ],
)
def test_unknown_names_list_the_known(name):
    with pytest.raises(StructureError, match=f"Expected a network among mlp, .* got '{name}'\\.") as caught:
        build(name, (1, 28, 28), 10, 0)
    assert all(known in str(caught.value) for known in (*NAMES, *(VARIANTS if name.startswith("relaxed") else ())))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("mlp:30-0", (1, 4, 4), "layers of 1 unit or more, got 'mlp:30-0'"),
        ("cnn", (1, 28, 20), "square images for cnn, got 28×20"),
        ("cnn", (1, 7, 7), "side of 8 or more for cnn, got 7"),
        ("lenet", (1, 30, 30), "28 or 32 for lenet, got 30"),
        ("resnet-9-4", (1, 8, 8), r"6n \+ 2"),
        ("resnet-8-0", (1, 8, 8), "width of 1 or more"),
        ("relaxed:conv:0", (1, 8, 8), "alpha of 1 or more"),
    ],
)
def test_impossible_sizes(name, shape, message):
    with pytest.raises(ShapeError, match=message):
        build(name, shape, 10, 0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("relaxed:convolution:2", "among fc, conv, f-fc, .*got 'convolution'"),
        (
            "relaxed:f-fc+conv:2:weight",
            "no sparse path, got 'weight'. Leave it out, or use one of s-conv, s-fc, s-fc.s-conv",
        ),
        ("relaxed:gconv-full:2:short", "no sparse path, got 'short'"),
        ("relaxed:s-fc:2:short", "Expected length_scale among 'fixed', 'weight', 'hyperparameter', got 'short'"),
    ],
)
def test_unknown_kinds_of_a_relaxed_network(name, message):
    with pytest.raises(StructureError, match=message):
        build(name, (1, 8, 8), 10, 0)


def test_a_function_of_the_users_own(module):
    module(
        "from torch import nn\n"
        "def make(shape, num_outputs):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], num_outputs))\n"
    )
    torch.manual_seed(11)
    before = torch.get_rng_state()
    network = build("my_networks:make", (1, 3, 4), 5, seed=2)
    assert isinstance(network, nn.Module)
    assert network(torch.zeros(2, 1, 3, 4)).shape == (2, 5)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(weights(network), weights(build("my_networks:make", (1, 3, 4), 5, seed=2)))
    assert not torch.equal(weights(network), weights(build("my_networks:make", (1, 3, 4), 5, seed=1)))


@pytest.mark.parametrize(
    ("reference", "source", "message"),
    [
        ("no_such_module:make", "", "cannot be imported .ModuleNotFoundError: No module named 'no_such_module'"),
        ("my_networks:absent", "", "module my_networks has no 'absent'"),
        ("my_networks:make", "make = 3", "is of type int: expected a function"),
        (
            "my_networks:make",
            "def make(shape, num_outputs): return 'net'",
            "Expected a torch.nn.Module from 'my_networks:make', got a str",
        ),
        ("my_networks:make", "def make(): pass", "with .image_shape, num_outputs. .too many positional arguments"),
        ("my_networks:make", "def make(shape, num, width): pass", "missing a required argument: 'width'.: expected"),
        (
            "my_networks:make",
            "from torch import nn\nmake = nn.Flatten()",
            "Expected a function of .*, got 'my_networks:make', a Flatten",
        ),
        (
            "my_networks:make",
            "from torch import nn\ndef make(*both): return nn.Sequential(nn.Flatten(), nn.LazyLinear(3))",
            "Expected weights with a shape from 'my_networks:make', got '1.weight' without one",
        ),
        ("my_networks:make", "1 / 0", "cannot be imported .ZeroDivisionError: division by zero"),
        ("my_networks:make", "def make(:", "cannot be imported .SyntaxError"),
        ("my networks:make", "", "cannot be imported .ValueError"),
    ],
)
def test_references_that_fail(module, reference, source, message):
    module(source)
    with pytest.raises(StructureError, match=message) as caught:
        build(reference, (1, 8, 8), 10, 0)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("def make(shape, num_outputs): return 1 / 0", ZeroDivisionError, "division by zero"),
        ("def read(path): pass\ndef make(*both): return read()", TypeError, r"^read\(\) missing 1 required"),
    ],
)
def test_errors_of_the_function_itself_are_not_hidden(module, source, error, message):
    module(source)
    with pytest.raises(error, match=message):
        build("my_networks:make", (1, 8, 8), 10, 0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_knows_which_length_scales_it_has(variant):
    for scale in LENGTH_SCALES[1:]:
        if variant.startswith("s-"):
            assert outline(f"relaxed:{variant}:1:{scale}", (1, 4, 4), 2) is not None
        else:
            with pytest.raises(StructureError, match="no sparse path"):
                outline(f"relaxed:{variant}:1:{scale}", (1, 4, 4), 2)


@pytest.mark.parametrize("name", ["mlp:30-20", "cnn", "resnet-8-2", *(f"relaxed:{variant}:1" for variant in VARIANTS)])
def test_an_outline_has_the_shapes_of_the_network_and_no_numbers(name):
    empty, network = outline(name, (1, 8, 8), 4), build(name, (1, 8, 8), 4, 0)
    assert {part: weight.shape for part, weight in empty.named_parameters()} == {
        part: weight.shape for part, weight in network.named_parameters()
    }
    assert all(weight.is_meta for weight in empty.parameters())


def test_an_outline_takes_no_memory_and_what_cannot_be_counted_is_told():
    assert sum(weight.numel() for weight in outline("mlp:1000000-1000000", (1, 8, 8), 4).parameters()) > 10**12
    for name in ("relaxed:fc:99999999999", f"relaxed:conv:{10**20}", f"mlp:{10**400}", f"resnet-8-{10**20}"):
        with pytest.raises(ShapeError, match="can be counted with 64 bits"):
            outline(name, (1, 8, 8), 4)


def test_a_function_has_no_outline(module):
    module("def make(shape, num_outputs):\n    raise ValueError('not to be called')\n")
    assert outline("my_networks:make", (1, 8, 8), 4) is None


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("mpl:20", "Did you mean 'mlp:20'?"),
        ("mlpp:30-10", "Did you mean 'mlp:30-10'?"),
        ("CNN", "Did you mean 'cnn'?"),
        ("relaxd:conv:4", "Did you mean 'relaxed:conv:4'?"),
        ("resent-8-16", "Did you mean 'resnet-8-16'?"),
        ("resnet8-16", "Write resnet-DEPTH-WIDTH."),
    ],
)
def test_a_misspelled_network_has_a_suggestion(name, advice):
    for shape in ((1, 8, 8), (3,)):
        with pytest.raises(StructureError) as caught:
            build(name, shape, 2, 0)
        assert advice in str(caught.value)
