"""Calls of native CUDA functions on the device and stream that torch is using."""

from __future__ import annotations

import torch
from torch import Tensor

from kbench.kernels import native


def launch(library: native.NativeLibrary, function: str, *arguments: Tensor | float) -> None:
    """Call `function` with tensors as pointers and the current stream last, on the first tensor's device.

    The first argument must be a tensor. ValueError if a tensor is on another device or not contiguous;
    RuntimeError names the CUDA error if the launch fails.
    """
    device = arguments[0].device
    for argument in arguments:
        if isinstance(argument, Tensor):
            if argument.device != device or device.type != "cuda":
                raise ValueError(f"{function} needs all tensors on one CUDA device, got {device}, {argument.device}")
            if not argument.is_contiguous():
                raise ValueError(f"{function} needs contiguous tensors, got strides {argument.stride()}")
    values = [argument.data_ptr() if isinstance(argument, Tensor) else argument for argument in arguments]
    with torch.cuda.device(device):
        library.call(function, *values, native.current_stream(device))
