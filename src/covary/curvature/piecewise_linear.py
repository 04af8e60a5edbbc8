"""ReLU, max-pooling and convolutions whose derivatives cost no more than they must.

The gradient of the curvature differentiates a backward pass. Torch's own second derivatives of these operations fill
tensors with zeros (ReLU and max-pooling are linear between their kinks, so that they have none), and compute the
gradient of a convolution's weight whether it is needed or not: on a CNN a quarter of the time. The operations here have
the same values and the same derivatives of every order; each is linear given a mask, the indices of the largest
entries, or a fixed weight, and the backward pass of each is another operation of this module.

A ReLU that max-pooling follows at once is computed after it, which is the same: where the largest entry is above zero
it is that of either order, and elsewhere every derivative is zero. Its derivatives then have as many entries as the
pool's output, a quarter for windows of 2 × 2.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional
from torch.overrides import TorchFunctionMode

CONVOLUTIONS = {torch.conv1d: 1, torch.conv2d: 2, torch.conv3d: 3}


@contextmanager
def cheap_derivatives() -> Iterator[None]:
    """Replace torch's ReLU, max-pooling and convolutions with fixed weights by the operations of this module."""
    with _Replacements():
        yield


class _Rectified(NamedTuple):
    """The input and the output of a ReLU."""

    x: Tensor
    output: Tensor


class _Replacements(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.last: _Rectified | None = None  # of the call before, and not longer: memory is held by it

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        before, self.last = self.last, None
        if func in (functional.relu, torch.relu, Tensor.relu) and not _in_place(args, given):
            x = args[0] if args else given["input"]
            self.last = _Rectified(x, _applied(_Relu, x))
            return self.last.output
        if func is functional.max_pool2d:
            if before is not None and args and args[0] is before.output:
                pooled = _max_pool(before.x, *args[1:], **given)
                found = None if pooled is None else _applied(_Relu, pooled)
            else:
                found = _max_pool(*args, **given)
            if found is not None:
                return found
        if func in CONVOLUTIONS and (found := _convolution(CONVOLUTIONS[func], *args, **given)) is not None:
            return found
        return func(*args, **given)


def _applied(function: type[Function], *inputs: Any) -> Tensor:
    result: Tensor = cast(Any, function).apply(*inputs)  # torch's own is untyped
    return result


def _in_place(args: tuple[Any, ...], given: Mapping[str, Any]) -> bool:
    return bool(given.get("inplace", args[1] if len(args) > 1 else False))


class _Relu(Function):
    """ReLU; its gradient at 0 is 0, as in torch."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.relu()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _applied(_ReluGradient, gradient, ctx.saved_tensors[0].detach())


class _ReluGradient(Function):
    """The gradient where the ReLU was positive, which is linear and its own adjoint."""

    generate_vmap_rule = True

    @staticmethod
    def forward(gradient: Tensor, output: Tensor) -> Tensor:
        return torch.ops.aten.threshold_backward(gradient, output, 0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _applied(_ReluGradient, gradient, ctx.saved_tensors[0]), None


class _Windows(NamedTuple):
    """The windows of max-pooling, and the shape of what they are over."""

    kernel: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    ceil: bool
    shape: torch.Size


def _max_pool(
    x: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | None:
    """Max-pooling of (N, C, H, W) as by torch; None where indices are asked for."""
    if return_indices or x.dim() != 4:
        return None
    kernel = _sizes(kernel_size, 2)
    steps = _sizes(stride, 2) if stride is not None and stride != [] else kernel
    windows = _Windows(kernel, steps, _sizes(padding, 2), _sizes(dilation, 2), ceil_mode, x.shape)
    with torch.no_grad():
        values, indices = torch.ops.aten.max_pool2d_with_indices(x, *windows[:5])
    return _applied(_Pick, x, indices, windows, values)


class _Pick(Function):
    """The entries at these indices of each plane; `values`, if given, has them already."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, indices: Tensor, windows: _Windows, values: Tensor | None = None) -> Tensor:
        return x.flatten(2).gather(2, indices.flatten(2)).view_as(indices) if values is None else values

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, _Windows, Tensor | None], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])
        ctx.windows = inputs[2]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return _applied(_Place, gradient, ctx.saved_tensors[0], ctx.windows), None, None, None


class _Place(Function):
    """The adjoint of `_Pick`: planes with the entries added at these indices."""

    generate_vmap_rule = True

    @staticmethod
    def forward(gradient: Tensor, indices: Tensor, windows: _Windows) -> Tensor:
        like = gradient.new_empty(1).expand(windows.shape)  # of which the shape alone is read
        return torch.ops.aten.max_pool2d_with_indices_backward(gradient, like, *windows[:5], indices)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, _Windows], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])
        ctx.windows = inputs[2]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _applied(_Pick, gradient, ctx.saved_tensors[0], ctx.windows), None, None


class _Filter(NamedTuple):
    """The fixed weight of a convolution and its geometry."""

    weight: Tensor
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int


def _convolution(
    dimensions: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor | None:
    """A convolution as by torch; None where its weight is not fixed, or the padding has a name."""
    fixed = not weight.requires_grad and (bias is None or not bias.requires_grad)
    if not fixed or not x.requires_grad or isinstance(padding, str) or x.dim() != dimensions + 2:
        return None
    sizes = _sizes(stride, dimensions), _sizes(padding, dimensions), _sizes(dilation, dimensions)
    return _applied(_Convolved, x, _Filter(weight, *sizes, groups), bias)


class _Convolved(Function):
    """A convolution with a fixed weight, linear but for its bias."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, filter: _Filter, bias: Tensor | None = None) -> Tensor:
        return torch.convolution(x, filter.weight, bias, *filter[1:4], False, [0] * len(filter.stride), filter.groups)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, _Filter, Tensor | None], output: Tensor) -> None:
        ctx.filter, ctx.shape = inputs[1], inputs[0].shape

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _applied(_Correlated, gradient, ctx.filter, ctx.shape), None, None


class _Correlated(Function):
    """The adjoint of `_Convolved` without bias."""

    generate_vmap_rule = True

    @staticmethod
    def forward(gradient: Tensor, filter: _Filter, shape: torch.Size) -> Tensor:
        like = gradient.new_empty(1).expand(shape)  # of which the shape alone is read
        no_output_padding, mask = [0] * len(filter.stride), [True, False, False]
        found, _, _ = torch.ops.aten.convolution_backward(
            gradient, like, filter.weight, None, *filter[1:4], False, no_output_padding, filter.groups, mask
        )
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, _Filter, torch.Size], output: Tensor) -> None:
        ctx.filter = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _applied(_Convolved, gradient, ctx.filter), None, None


def _sizes(number: int | Sequence[int], dimensions: int) -> list[int]:
    """One number per axis."""
    sizes = [number] if isinstance(number, int) else list(number)
    return sizes * dimensions if len(sizes) == 1 else sizes
