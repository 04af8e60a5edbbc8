import pytest
import torch
from torch import nn

from covary.errors import DataError, ShapeError
from covary.networks import Standardized, mlp
from covary.networks.images import require_images

X = torch.zeros(1, 1, 6, 6, dtype=torch.float64)


class Forward(nn.Module):
    """A network of the user's own, by its forward pass."""

    def __init__(self, forward) -> None:
        super().__init__()
        self.called = forward
        self.weight = nn.Parameter(torch.ones(36, 3))

    def forward(self, x):
        return self.called(self, x)


class TwoInputs(nn.Module):
    def forward(self, x, mask):
        return x.flatten(1) * mask


def fails(error: Exception):
    def forward(network, x):
        raise error

    return Forward(forward)


NETWORKS = {
    "linear": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(100, 3)), "RuntimeError: mat1 and mat2 shapes"),
    "channels": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten()), "RuntimeError: .* to have 3 channels"),
    "too small": (lambda: nn.Sequential(nn.Conv2d(1, 4, 7), nn.Flatten()), "RuntimeError: .* Kernel size can't be"),
    "norm": (lambda: nn.Sequential(nn.BatchNorm1d(1), nn.Flatten()), "ValueError: expected 2D or 3D input"),
    "inner": (lambda: nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(7, 3))), "RuntimeError: mat1 and mat2"),
    "view": (lambda: Forward(lambda network, x: x.view(len(x), 50)), "RuntimeError: shape .* is invalid"),
    "product": (lambda: Forward(lambda network, x: x @ network.weight), "RuntimeError: "),
    "function": (lambda: Forward(lambda network, x: nn.functional.linear(x, network.weight)), "RuntimeError: "),
    "axis": (lambda: Forward(lambda network, x: x.mean(7)), "IndexError: Dimension out of range"),
    "inputs": (lambda: TwoInputs(), "TypeError: .*missing 1 required positional argument: 'mask'"),
}


@pytest.mark.parametrize("case", NETWORKS)
def test_a_network_for_other_images_is_refused_in_one_line(case):
    make, reason = NETWORKS[case]
    expected = rf"^The network 'mine:{case}' does not accept images of shape \(1, 6, 6\) \({reason}.*\). Build it"
    with pytest.raises(ShapeError, match=expected) as caught:
        require_images(make().eval(), X, 3, f"mine:{case}")
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("error", [ZeroDivisionError("own"), RuntimeError("own"), ValueError("own"), ShapeError("own")])
def test_errors_of_the_network_itself_are_not_hidden(error):
    for network in (fails(error), nn.Sequential(nn.Flatten(), fails(error))):
        with pytest.raises(type(error), match="^own$") as caught:
            require_images(network, X, 3, "mine")
        assert caught.value is error


def test_a_failure_that_the_network_handles_itself_is_none():
    def forward(network, x):
        try:
            return x.view(1, 50)
        except RuntimeError:
            return x.flatten(1) @ network.weight

    require_images(Forward(forward), X, 3, "mine")

    def fails_afterwards(network, x):
        forward(network, x)
        raise KeyError("own")

    with pytest.raises(KeyError):
        require_images(Forward(fails_afterwards), X, 3, "mine")


@pytest.mark.parametrize(
    ("forward", "got"),
    [
        (lambda network, x: (x.flatten(1), x), "type tuple"),
        (lambda network, x: {"logits": x.flatten(1)}, "type dict"),
        (lambda network, x: x, r"shape \(1, 1, 6, 6\)"),
        (lambda network, x: x.reshape(2, 18), r"shape \(2, 18\)"),
        (lambda network, x: x.flatten(), r"shape \(36,\)"),
    ],
)
def test_outputs_are_a_row_per_image(forward, got):
    expected = rf"Expected outputs of shape \(1, number .* 'mine' for images of shape \(1, 1, 6, 6\), got {got}"
    with pytest.raises(ShapeError, match=expected):
        require_images(Forward(forward), X, 3, "mine")


def test_a_network_that_fits_is_left_as_it_is(generator):
    network = mlp(36, 4, 3, generator=generator)
    before = [weight.clone() for weight in network.parameters()]
    require_images(network, X, 3, "mlp:4")
    assert all(torch.equal(weight, old) for weight, old in zip(network.parameters(), before, strict=True))
    assert all(weight.grad is None for weight in network.parameters())


@pytest.mark.parametrize(("num_classes", "enough"), [(2, True), (3, True), (4, False), (10, False)])
def test_every_class_needs_an_output(generator, num_classes, enough):
    network = mlp(36, 4, 3, generator=generator)
    if enough:
        require_images(network, X, num_classes, "mine")
        return
    with pytest.raises(
        ShapeError, match=rf"Expected {num_classes} outputs .one per class. from the network 'mine', got 3"
    ):
        require_images(network, X, num_classes, "mine")


def test_the_network_sees_each_channel_standardized():
    x = torch.randn(5, 2, 3, 3, generator=torch.Generator().manual_seed(0))
    network = mlp(18, 4, 2, generator=torch.Generator().manual_seed(1))
    mean, deviation = torch.tensor([0.5, -1.0]), torch.tensor([2.0, 0.25])
    seen = torch.stack([(x[:, c] - mean[c]) / deviation[c] for c in range(2)], 1)
    assert torch.equal(Standardized(network, mean, deviation)(x), network(seen))


def test_mean_and_deviation_are_saved_and_have_the_type_of_the_weights():
    network = Standardized(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).float(), torch.zeros(1), torch.ones(1))
    assert network.mean.dtype == network.deviation.dtype == torch.float32
    assert {"mean", "deviation"} <= network.state_dict().keys()
    assert not {"mean", "deviation"} & dict(network.named_parameters()).keys()


def test_a_deviation_of_zero_is_refused():
    with pytest.raises(DataError, match="above 0"):
        Standardized(nn.Flatten(), torch.zeros(1), torch.zeros(1))
