"""A second device for machines that have one: tensors with values that say they are on the device "meta".

While `second_device()` is active, whatever is moved to "meta", or created there, is kept on the CPU in a wrapper. An
operation computes with what the wrappers hold, so its values are those of the CPU, bit for bit; one that mixes a
wrapper with a plain tensor of the CPU is refused as a GPU would refuse it: only scalars (0-d tensors), copies and
indices may mix.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

NAME = "meta"
aten = torch.ops.aten
COPIES = (aten._to_copy.default, aten.copy_.default)
INDEXED = (aten.index.Tensor, aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default)


class OnDevice(Tensor):
    """A tensor on the second device."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "OnDevice":
        wrapper: OnDevice = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            layout=held.layout,
            device=NAME,
        )
        wrapper.held = held
        return wrapper

    def tolist(self) -> Any:
        """The values; torch itself refuses this of a subclass."""
        return self.detach().held.tolist()

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return computed(function, args, kwargs or {})


class _Operations(TorchDispatchMode):
    """The operations of the second device, counted; with `float64=False` it refuses such numbers, as MPS does."""

    def __init__(self, float64: bool) -> None:
        super().__init__()
        self.float64, self.seen = float64, {"operations": 0}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = computed(function, args, kwargs or {})
        there = [leaf for leaf in tree_leaves(out) if isinstance(leaf, OnDevice)]
        self.seen["operations"] += bool(there)
        if not self.float64 and any(leaf.dtype == torch.float64 for leaf in there):
            raise TypeError(f"{function}: this device has no float64")
        return out


class _FromData(TorchFunctionMode):
    """Tensors made of numbers, which torch moves to their device before any operation is seen."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is Tensor.new_tensor and isinstance(args[0], OnDevice):
            return torch.tensor(args[1], dtype=kwargs.get("dtype", args[0].dtype), device="cpu").to(NAME)
        if function in (torch.tensor, torch.as_tensor) and torch.device(kwargs.get("device") or "cpu").type == NAME:
            return function(*args, **kwargs | {"device": "cpu"}).to(NAME)
        return function(*args, **kwargs)


@contextmanager
def second_device(*, float64: bool = True) -> Iterator[dict[str, int]]:
    """The context in which "meta" is a device with values; what it yields counts the operations there."""
    operations = _Operations(float64)
    with _FromData(), operations:
        yield operations.seen


def computed(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of an operation, on the device that a GPU would have it on."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    wrappers = {id(leaf.held): leaf for leaf in tensors if isinstance(leaf, OnDevice)}
    _require_one_device(function, args, tensors)
    if kwargs.get("device") is not None:
        here = torch.device(kwargs["device"]).type == NAME
        kwargs = kwargs | {"device": torch.device("cpu")}
    else:
        here = isinstance(args[0], OnDevice) if function is aten.copy_.default else bool(wrappers)
    out = function(*tree_map(_held, args), **tree_map(_held, kwargs))
    return tree_map(lambda leaf: _wrapped(leaf, wrappers), out) if here else out


def _wrapped(leaf: Any, wrappers: dict[int, "OnDevice"]) -> Any:
    """A result on the second device; one that an operation changed in place is the wrapper that it had."""
    if not isinstance(leaf, Tensor):
        return leaf
    return wrappers[id(leaf)] if id(leaf) in wrappers else OnDevice(leaf)


def _held(leaf: Any) -> Any:
    return leaf.held if isinstance(leaf, OnDevice) else leaf


def _require_one_device(function: Any, args: Any, tensors: list[Tensor]) -> None:
    wrappers = [leaf for leaf in tensors if isinstance(leaf, OnDevice)]
    plain = [leaf for leaf in tensors if not isinstance(leaf, OnDevice) and leaf.dim() > 0]
    if not wrappers or not plain or function in COPIES:
        return
    if function in INDEXED and isinstance(args[0], OnDevice) and not any(leaf.is_floating_point() for leaf in plain):
        return
    raise AssertionError(f"{function} mixes devices: {[(tuple(t.shape), type(t).__name__) for t in tensors]}")
