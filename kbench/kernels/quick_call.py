"""What a forward does on the host before its launch, in as few steps as will do: a kernel may take 0.1 ms.

What the sizes of the arguments decide is for the caller to keep (`functools.lru_cache`, KEPT_SIZES). What can differ
between two calls with equal sizes is looked at in each: types, devices, strides, gradients, the stream.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kbench.kernels import native

KEPT_SIZES = 256


def are_plain(tensors: tuple[Tensor, ...], device: int) -> bool:
    """Whether all are contiguous fp32 tensors on the CUDA device of this number: a kernel takes them as they are."""
    for tensor in tensors:
        if tensor.dtype is not torch.float32 or tensor.get_device() != device or not tensor.is_contiguous():
            return False
    return True


def wants_gradient(tensors: tuple[Tensor, ...]) -> bool:
    """Whether torch records what is done with these."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def unlike(size: torch.Size) -> Tensor:
    """Make a tensor of this size without values, to check sizes by functions that take tensors."""
    return torch.empty(size, dtype=torch.float32, device="meta")


def submit(library: native.NativeLibrary, function: str, device: int, *values: float) -> None:
    """Call `function` with pointers and numbers and, last, the stream that torch is using on the device of this number.

    RuntimeError names the CUDA error if the launch fails.
    """
    if torch.cuda.current_device() == device:
        library.call(function, *values, _stream(device))
    else:
        with torch.cuda.device(device):
            library.call(function, *values, _stream(device))


def _stream(device: int) -> int:
    return int(torch._C._cuda_getCurrentRawStream(device))  # noqa: SLF001 - as torch's compiled code: makes no object
