"""ReLU, max-pooling and convolutions with cheap second derivatives: torch's own values and derivatives."""

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

import covary
from covary.curvature import Curvature
from covary.curvature.piecewise_linear import cheap_derivatives
from covary.hypergrad import two_pass

F64 = torch.float64


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=F64, generator=torch.Generator().manual_seed(seed))


def kernel(*shape: int) -> Tensor:
    return drawn(*shape, seed=7)


def pooled_and_more(h: Tensor) -> Tensor:
    return functional.max_pool2d(h, 2) + h[..., ::2, 1::2]


OPERATIONS: dict[str, tuple[tuple[int, ...], Callable[[Tensor], Tensor]]] = {
    "relu": ((3, 5), functional.relu),
    "torch.relu": ((3, 5), torch.relu),
    "method relu": ((3, 5), lambda x: x.relu()),
    "nn.ReLU": ((3, 5), nn.ReLU()),
    "max_pool2d": ((2, 3, 6, 6), lambda x: functional.max_pool2d(x, 2)),
    "overlapping windows": ((2, 3, 7, 7), nn.MaxPool2d(3, stride=2, padding=1)),
    "dilated windows": ((2, 3, 8, 7), nn.MaxPool2d((2, 3), stride=2, dilation=2, ceil_mode=True)),
    "pooled ReLU": ((2, 3, 6, 6), lambda x: functional.max_pool2d(functional.relu(x), 2)),
    "pooled nn.ReLU": ((2, 3, 7, 7), nn.Sequential(nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1))),
    "ReLU with another use": ((2, 3, 6, 6), lambda x: pooled_and_more(functional.relu(x))),
    "conv1d": ((2, 3, 9), lambda x: functional.conv1d(x, kernel(4, 3, 3), stride=2, padding=1)),
    "conv2d": ((2, 4, 7, 6), lambda x: functional.conv2d(x, kernel(6, 2, 3, 2), kernel(6), (2, 1), (1, 0), 1, 2)),
    "dilated conv2d": ((2, 2, 9, 9), lambda x: functional.conv2d(x, kernel(3, 2, 3, 3), dilation=2)),
    "conv3d": ((1, 2, 4, 5, 4), lambda x: functional.conv3d(x, kernel(3, 2, 2, 2, 3), padding=1)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_values_and_derivatives_of_three_orders_are_those_of_torch(name):
    shape, operation = OPERATIONS[name]
    ours, theirs = derivatives(operation, shape, replaced=True), derivatives(operation, shape, replaced=False)
    assert len(ours) == len(theirs) == 4
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our, their, rtol=1e-12, atol=1e-12)


def derivatives(operation: Callable[[Tensor], Tensor], shape: tuple[int, ...], *, replaced: bool) -> list[Tensor]:
    """The value of sin(operation(sin(x))), and derivatives of order one to three along fixed directions."""
    x = drawn(*shape).requires_grad_()
    if replaced:
        with cheap_derivatives():
            inner = operation(x.sin() + 0.1)
    else:
        inner = operation(x.sin() + 0.1)
    found = [inner.sin()]
    for order in range(1, 4):
        direction = drawn(*found[-1].shape, seed=order)
        found.append(torch.autograd.grad(found[-1], x, direction, create_graph=True)[0])
    return found


def test_the_gradient_at_zero_is_zero():
    x = torch.zeros(3, dtype=F64, requires_grad=True)
    with cheap_derivatives():
        y = torch.relu(x)
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], torch.zeros(3, dtype=F64))


def test_a_pooled_relu_at_zero_and_among_equals_has_the_gradient_of_torch():
    x = torch.tensor([[[[0.0, -1.0, 2.0, 2.0], [-2.0, 0.0, 2.0, 1.0]]]], dtype=F64, requires_grad=True)
    with cheap_derivatives():
        ours = functional.max_pool2d(functional.relu(x), 2)
    theirs = functional.max_pool2d(functional.relu(x), 2)
    assert torch.equal(ours, theirs)
    assert torch.equal(*(torch.autograd.grad(y.sum(), x)[0] for y in (ours, theirs)))


def test_a_relu_is_computed_after_the_pool_that_follows_it_at_once():
    """So that its derivatives have as many entries as the pool's output; not where anything is between."""
    x = drawn(1, 1, 4, 4).requires_grad_()
    with cheap_derivatives():
        after = functional.max_pool2d(functional.relu(x), 2)
        between = functional.max_pool2d(functional.relu(x).contiguous(), 2)
    assert [after.grad_fn.name(), after.grad_fn.next_functions[0][0].name()] == ["_ReluBackward", "_PickBackward"]
    assert between.grad_fn.name() == "_PickBackward"


def test_a_weight_that_is_not_fixed_keeps_its_gradients():
    x, weight = drawn(2, 3, 6, 6).requires_grad_(), kernel(4, 3, 3, 3).requires_grad_()
    with cheap_derivatives():
        y = functional.conv2d(x, weight)
    (gradient,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    found = torch.autograd.grad(gradient.square().sum(), weight)[0]
    (plain,) = torch.autograd.grad(functional.conv2d(x, weight).square().sum(), x, create_graph=True)
    torch.testing.assert_close(found, torch.autograd.grad(plain.square().sum(), weight)[0])


def test_what_is_not_replaced_is_torchs_own():
    x = drawn(2, 3, 6, 6).requires_grad_()
    with cheap_derivatives():
        values, indices = functional.max_pool2d(x, 2, return_indices=True)
        named = functional.conv2d(x, kernel(4, 3, 3, 3), padding="same")
        in_place = functional.relu(x * 1, inplace=True)
    assert indices.dtype == torch.int64
    torch.testing.assert_close(values, functional.max_pool2d(x, 2))
    torch.testing.assert_close(named, functional.conv2d(x, kernel(4, 3, 3, 3), padding=1))
    torch.testing.assert_close(in_place, functional.relu(x))


def test_data_can_be_batched_by_vmap():
    x, weight = drawn(4, 1, 2, 6, 6).requires_grad_(), kernel(3, 2, 3, 3)

    def one(datum: Tensor) -> Tensor:
        with cheap_derivatives():
            return functional.max_pool2d(functional.conv2d(datum.relu(), weight), 2)

    torch.testing.assert_close(torch.vmap(one)(x), torch.stack([one(datum) for datum in x]))


def test_the_derivative_of_a_backward_pass_has_no_gradients_of_weights_and_no_zeros():
    """The control is torch's own second derivative, which has both."""
    ours, theirs = operations(replaced=True), operations(replaced=False)
    assert (ours["aten::convolution"], theirs["aten::convolution"]) == (2, 4)
    assert (ours["aten::zeros_like"], theirs["aten::zeros_like"]) == (0, 2)


def operations(*, replaced: bool) -> Counter[str]:
    """How often each operation is called in the derivative of a backward pass."""
    x, weight = drawn(2, 3, 8, 8).requires_grad_(), kernel(3, 3, 3, 3)

    def network(x: Tensor) -> Tensor:
        return functional.conv2d(functional.conv2d(x, weight, padding=1).relu(), weight).relu()

    if replaced:
        with cheap_derivatives():
            y = network(x)
    else:
        y = network(x)
    cotangent = torch.ones_like(y).requires_grad_()
    (gradient,) = torch.autograd.grad(y, x, cotangent, create_graph=True)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        torch.autograd.grad(gradient.square().sum(), [cotangent, x], allow_unused=replaced)
    return Counter({event.key: event.count for event in seen.key_averages()})


@pytest.mark.parametrize("in_place", [False, True])
def test_fixed_weights_do_not_need_an_input_with_a_gradient(in_place):
    """Only the temperature is learned: no layer's output depends on a hyperparameter."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(in_place), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)).to(
        F64
    )
    model = covary.Model(network, covary.Categorical(2.0, learn_temperature=True))
    x, y = drawn(6, 1, 6, 6), torch.arange(6) % 3
    found = two_pass(model, (x, y), Curvature(probes="exact"))["likelihood.log_temperature"]
    by_difference = temperature_difference(model, x, y, 1e-5)
    torch.testing.assert_close(found, by_difference, rtol=1e-7, atol=1e-7)


def temperature_difference(model: covary.Model, x: Tensor, y: Tensor, step: float) -> Tensor:
    values = []
    for sign in (1, -1):
        with torch.no_grad():
            model.likelihood.log_temperature += sign * step
            values.append(covary.log_evidence(model, (x, y)).log_evidence)
            model.likelihood.log_temperature -= sign * step
    return (values[0] - values[1]) / (2 * step)
