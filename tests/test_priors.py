import math
from enum import StrEnum

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck
from torch.distributions import Normal

from covary.errors import DataError, StructureError
from covary.priors import Prior, hyperparameters_of, weights_of

STRUCTURES = ["scalar", "layerwise", "diagonal", {"kernels": "*.weight", "rest": ["0.bias", "*"]}]


class Wrapper(nn.Module):
    """A network that marks a child and a parameter of its own as hyperparameters."""

    hyperparameters = ("augment", "raw_length")

    def __init__(self):
        super().__init__()
        self.network = nn.Linear(3, 2)
        self.augment = nn.Linear(1, 1)
        self.raw_length = nn.Parameter(torch.zeros(2))


def network():
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def test_marked_parameters_are_hyperparameters():
    wrapper = Wrapper()
    weights = weights_of(wrapper)
    assert list(weights) == ["network.weight", "network.bias"]
    assert list(hyperparameters_of(wrapper, weights)) == ["raw_length", "augment.weight", "augment.bias"]


def test_marks_inside_another_module():
    assert list(weights_of(nn.Sequential(Wrapper()))) == ["0.network.weight", "0.network.bias"]


def test_frozen_parameters_are_neither_weights_nor_hyperparameters():
    wrapper = Wrapper()
    wrapper.network.bias.requires_grad_(False)
    wrapper.augment.requires_grad_(False)
    assert list(weights_of(wrapper)) == ["network.weight"]
    assert list(hyperparameters_of(wrapper, weights_of(wrapper))) == ["raw_length"]
    assert Prior(wrapper).names == ("network.weight",)


def test_tied_parameters_count_once():
    tied = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    tied[1].weight = tied[0].weight
    assert list(weights_of(tied)) == ["0.weight", "0.bias", "1.bias"]
    assert Prior(tied).num_params == 15


@pytest.mark.parametrize("marks", ["augment", ("absent",)])
def test_a_mark_must_name_a_member(marks):
    wrapper = Wrapper()
    wrapper.hyperparameters = marks
    with pytest.raises(StructureError, match=r"Wrapper\.hyperparameters must be a tuple .*network"):
        weights_of(wrapper)


@pytest.mark.parametrize(("structure", "num_groups"), [*zip(STRUCTURES, [1, 4, 26, 2], strict=True)])
def test_log_density_is_a_sum_of_normals(structure, num_groups, generator):
    net = network()
    prior = Prior(net, structure)
    assert prior.log_precision.shape == (num_groups,)
    prior.log_precision.data = torch.randn(num_groups, generator=generator)
    weights, shifts = prior.weights(net), prior.shifts()
    expected = sum(Normal(0.0, shifts[n] ** -0.5).log_prob(w.flatten()).sum() for n, w in weights.items())
    torch.testing.assert_close(prior.log_density(weights), expected)
    assert all(shifts[n].shape == ((w.numel(),) if structure == "diagonal" else ()) for n, w in weights.items())


@pytest.mark.parametrize("structure", STRUCTURES)
def test_gradients_in_precisions_and_weights(structure):
    net = network()
    prior = Prior(net, structure, 0.7)
    weights = prior.weights(net)
    assert gradcheck(lambda *_: prior.log_density(weights), [prior.log_precision, *weights.values()])
    assert gradcheck(lambda _: tuple(prior.shifts().values()), [prior.log_precision])


def test_groups():
    net = network()
    assert Prior(net, "scalar").groups == ("all",)
    assert Prior(net).groups == Prior(net).names == ("0.weight", "0.bias", "2.weight", "2.bias")
    prior = Prior(net, STRUCTURES[3])
    assert prior.groups == ("kernels", "rest")
    assert prior.group_of("2.weight") == "kernels"
    assert prior.group_of("2.bias") == "rest"
    with pytest.raises(StructureError, match=r"this prior covers, got '1\.weight'"):
        prior.group_of("1.weight")


def test_first_matching_group_wins_and_keeps_its_place():
    prior = Prior(network(), {"last": "2.*", "all": "*"}, {"2.*": 9.0, "*": 4.0})
    assert prior.group_of("2.bias") == "last"
    torch.testing.assert_close(prior.precision, torch.tensor([9.0, 4.0]))
    torch.testing.assert_close(prior.shifts()["0.bias"], torch.tensor(4.0))


def test_precision_per_pattern():
    prior = Prior(network(), precision={"*.bias": 0.01, "*": 5.0})
    torch.testing.assert_close(prior.precision, torch.tensor([5.0, 0.01, 5.0, 0.01]))
    prior = Prior(network(), "diagonal", {"*.bias": 0.01, "*": 5.0})
    torch.testing.assert_close(prior.shifts()["2.bias"], torch.full((2,), 0.01))


def test_hyperparameters_are_absent_everywhere():
    net = network()
    prior = Prior(net, hyperparameters="*.bias")
    assert prior.names == tuple(prior.weights(net)) == tuple(prior.shifts()) == ("0.weight", "2.weight")
    assert prior.num_params == 20
    assert prior.point_weights(net) == {}
    assert list(hyperparameters_of(net, prior.weights(net))) == ["0.bias", "2.bias"]
    assert "hyperparameters=('*.bias',)" in repr(prior)


@pytest.mark.parametrize("structure", ["scalar", "layerwise", "diagonal", {"first": "0.weight", "rest": "2.weight"}])
def test_point_weights_have_a_fixed_precision_and_no_density(structure):
    net = network()
    prior = Prior(net, structure, {"0.bias": 3.0, "*": 2.0}, point=("*.bias",))
    assert prior.names == tuple(prior.weights(net)) == tuple(prior.shifts()) == ("0.weight", "2.weight")
    assert prior.point_names == tuple(prior.point_weights(net)) == ("0.bias", "2.bias")
    shifts = prior.trained_shifts()
    assert list(shifts) == ["0.weight", "2.weight", "0.bias", "2.bias"]
    assert [float(shifts[name]) for name in prior.point_names] == [3.0, 2.0]
    assert [name for name, _ in prior.named_parameters()] == ["log_precision"], "nothing learns a fixed precision"
    assert "point_precision" in prior.state_dict()
    assert "point=('*.bias',)" in repr(prior)
    alone = Prior(nn.Sequential(net[0]), precision=2.0, hyperparameters="0.bias")
    first = {"0.weight": net[0].weight}
    rest = prior.log_density(prior.weights(net) | {"0.weight": torch.zeros(4, 3)})
    moved = prior.log_density(prior.weights(net)) - rest
    torch.testing.assert_close(moved, alone.log_density(first) - alone.log_density({"0.weight": torch.zeros(4, 3)}))


def test_a_prior_without_point_weights_has_no_buffer():
    assert list(Prior(network()).state_dict()) == ["log_precision"]


def test_structure_may_be_an_enum():
    class Structure(StrEnum):
        DIAGONAL = "diagonal"

    prior = Prior(network(), Structure.DIAGONAL)
    assert prior.structure == "diagonal"
    assert "structure='diagonal', num_groups=26, num_params=26" in repr(prior)


def test_precision_follows_the_weights():
    assert Prior(network().float()).log_precision.dtype == torch.float32
    assert Prior(network()).log_precision.dtype == torch.float64


def test_prior_for_another_network():
    prior = Prior(network())
    with pytest.raises(StructureError, match=r"another network: .* '0.weight' of shape \(4, 3\), got \(5, 3\)"):
        prior.weights(nn.Sequential(nn.Linear(3, 5)))
    with pytest.raises(StructureError, match=r"parameter '3\.weight' of shape None"):
        prior.weights(network().append(nn.Linear(2, 2)))
    frozen = network()
    frozen[0].bias.requires_grad_(False)
    with pytest.raises(StructureError, match=r"parameter '0\.bias' .* got None"):
        prior.weights(frozen)


BAD = [
    ({"structure": "kron"}, StructureError, "'scalar', 'layerwise', 'diagonal' or a mapping.*got 'kron'"),
    ({"structure": {"a": "0.*"}}, StructureError, "parameter '2.weight', but no pattern"),
    ({"structure": {"a": "*", "b": "9.*"}}, StructureError, "pattern of group 'b' that matches .*got '9.\\*'"),
    ({"structure": {"a": "*", "b": "2.*"}}, StructureError, "parameter in group 'b' of the prior"),
    (
        {"structure": "scalar", "precision": {"0.*": 1.0, "*": 2.0}},
        StructureError,
        "one precision for group 'all'",
    ),
    ({"precision": {"0.*": 1.0}}, StructureError, "precision for parameter '2.weight'"),
    ({"precision": {"0.*": 1.0, "7": 1.0, "*": 1.0}}, StructureError, "pattern of precision .*got '7'"),
    ({"precision": 0.0}, DataError, "finite and above 0, got 0.0"),
    ({"precision": {"*": math.nan}}, DataError, "got nan"),
    ({"point": ("bias",)}, StructureError, "pattern of point .*got 'bias'"),
    ({"hyperparameters": "9"}, StructureError, "pattern of hyperparameters .*got '9'"),
    ({"point": "*"}, StructureError, "at least one integrated weight"),
    ({"point": "0.*", "hyperparameters": "*.bias"}, StructureError, "one role for parameter '0.bias'"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), BAD)
def test_invalid_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        Prior(network(), **arguments)


def test_weights_without_a_shape_are_refused():
    made = nn.Sequential(nn.Linear(3, 4), nn.LazyLinear(2))
    with pytest.raises(StructureError, match=r"have a shape, got '1\.weight'.*network\(x\)"):
        Prior(made)
    made(torch.zeros(1, 3))
    assert Prior(made).names == ("0.weight", "0.bias", "1.weight", "1.bias")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_in_half_precision_are_refused_unless_frozen(dtype):
    network = nn.Sequential(nn.Linear(2, 3).to(dtype), nn.Linear(3, 1))
    with pytest.raises(
        StructureError, match=r"float32 or float64, got '0.weight' in half precision.*network.float\(\)"
    ):
        Prior(network)
    network[0].requires_grad_(False)
    assert list(weights_of(network)) == ["1.weight", "1.bias"]
