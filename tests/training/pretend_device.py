"""A device beside the CPU, without a GPU: "meta" tensors that hold CPU tensors.

Operations on them compute on the CPU.  As on a GPU, an operation that mixes them with
tensors on the CPU is an error, and NumPy cannot read them.
"""

import warnings
from contextlib import contextmanager, nullcontext

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map, tree_map_only

DEVICE = "meta"
aten = torch.ops.aten
#: They copy from one device to another.
COPIES = {aten._to_copy.default, aten.copy_.default}
#: As on a GPU, their indices may be on the CPU.
INDEXING = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}


class Held(torch.Tensor):
    """A tensor on the device."""

    @staticmethod
    def __new__(cls, values):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            values.shape,
            strides=values.stride(),
            storage_offset=values.storage_offset(),
            dtype=values.dtype,
            device=DEVICE,
        )

    def __init__(self, values):
        self.values = values

    def __repr__(self):
        return f"Held({self.values!r})"

    def __reduce_ex__(self, protocol):
        return self.values.__reduce_ex__(protocol)  # saved, and loaded to the CPU

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return on_device(func, args, kwargs or {})


class OnDevice(TorchDispatchMode):
    """Creates tensors on the device where its name is given."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return on_device(func, args, kwargs or {})


class Written(TorchFunctionMode):
    """Creates tensors of given numbers on the device; torch passes no operation."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.Tensor.new_tensor:
            kwargs = {"device": args[0].device, "dtype": args[0].dtype} | kwargs
            func, args = torch.tensor, args[1:]
        named = kwargs.get("device", "cpu")
        if func is torch.tensor and torch.device(named or "cpu").type == DEVICE:
            return func(*args, **kwargs | {"device": "cpu"}).to(DEVICE)
        return func(*args, **kwargs)


def on_device(func, args, kwargs):
    if func is aten._local_scalar_dense.default and not torch.is_tensor(args[0]):
        return args[0]  # torch passes the number of a tensor that it made of a number
    tensors = [
        x for x in tree_flatten((args, kwargs))[0] if isinstance(x, torch.Tensor)
    ]
    named = kwargs.get("device")
    held = any(isinstance(x, Held) for x in tensors)
    if not held and (named is None or torch.device(named).type != DEVICE):
        return func(*args, **kwargs)
    together = [args[0], *args[2:]] if func in INDEXING else tensors
    elsewhere = [x for x in together if type(x) is torch.Tensor and x.dim()]
    if held and elsewhere and func not in COPIES:
        raise RuntimeError(f"{func}: expected all tensors to be on the same device")
    target = torch.device(DEVICE if named is None else named).type
    if named is not None:
        kwargs = kwargs | {"device": "cpu"}
    plain_args, plain_kwargs = tree_map_only(Held, lambda x: x.values, (args, kwargs))
    if func is aten._to_copy.default and target != DEVICE:
        return func(*plain_args, **plain_kwargs)
    if func is aten.copy_.default and not isinstance(args[0], Held):
        func(*plain_args, **plain_kwargs)
        return args[0]
    out = func(*plain_args, **plain_kwargs)
    wrapped = tree_map(lambda x: Held(x) if isinstance(x, torch.Tensor) else x, out)
    return return_and_correct_aliasing(func, args, kwargs, wrapped)


@contextmanager
def pretended():
    """Let there be the device, for which torch knows no autocast."""
    enabled, autocast = torch.is_autocast_enabled, torch.autocast

    def is_autocast_enabled(device=None):
        return device != DEVICE and enabled(*filter(None, [device]))

    def autocast_of(device, *args, **kwargs):
        return nullcontext() if device == DEVICE else autocast(device, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        # The copy is not lost, as it would be for other tensors of this device.
        warnings.filterwarnings("ignore", ".* copying from a non-meta parameter")
        patch.setattr(torch, "is_autocast_enabled", is_autocast_enabled)
        patch.setattr(torch, "autocast", autocast_of)
        with Written(), OnDevice():
            yield DEVICE
