"""GroupNorm on the GPU that reads its input once and writes its output once (sm_90), else in two kernels.

A group's tiles wait on the chip, spread over all multiprocessors, until its statistics are known; see
group_norm_single_pass.md. Shapes that the kernel cannot take (rows that are no multiple of 4 values, groups larger
than the chip holds, misaligned tensors) and devices without bulk copies get the two kernels.
"""

import ctypes
import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from kbench.kernels import group_norm_two_kernel, native

MIN_CAPABILITY = (9, 0)
ALIGNMENT_BYTES = 16

FUNCTION = "kbench_group_norm_single_pass"
PLAN_FUNCTION = "kbench_group_norm_single_pass_plan"
SIGNATURES = {
    FUNCTION: (native.POINTER,) * 7 + (native.INT64,) * 5 + (native.FLOAT64, native.POINTER),
    PLAN_FUNCTION: (native.INT64,) * 4 + (native.POINTER,) * 2,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How one shape is launched on one device."""

    blocks: int
    workspace_bytes: int


@functools.cache
def library() -> native.NativeLibrary | None:
    """Build and open the kernels, those for the fallback included; no library where the device is older."""
    group_norm_two_kernel.library()
    if native.device_capability() < MIN_CAPABILITY:
        return None
    return native.load_cuda("group_norm_single_pass.cu", SIGNATURES, min_capability=MIN_CAPABILITY)


@functools.lru_cache(maxsize=4096)
def plan(device: int, batch: int, groups: int, channels_per_group: int, spatial: int) -> Plan | None:
    """How the single-pass kernel is launched for a shape, or no plan if it cannot take it on that device."""
    native_library = library()
    if native_library is None:
        return None
    blocks, workspace_bytes = ctypes.c_int64(), ctypes.c_int64()
    results = (ctypes.addressof(blocks), ctypes.addressof(workspace_bytes))
    with torch.cuda.device(device):
        native_library.call(PLAN_FUNCTION, batch, groups, channels_per_group, spatial, *results)
    if blocks.value == 0:
        return None
    return Plan(blocks=blocks.value, workspace_bytes=workspace_bytes.value)


def plan_for(x: Tensor, groups: int) -> Plan | None:
    """How the single-pass kernel takes a contiguous CUDA tensor (batch, channels, *), if it does."""
    if x.data_ptr() % ALIGNMENT_BYTES != 0:
        return None
    return plan(x.device.index, *_sizes(x, groups))


def forward_kernel(x: Tensor, gamma: Tensor, beta: Tensor, groups: int, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise a contiguous CUDA tensor (batch, channels, *); returns y, mean and rstd."""
    launch = plan_for(x, groups)
    native_library = library()
    if launch is None or native_library is None:
        return group_norm_two_kernel.forward_kernel(x, gamma, beta, groups, eps)
    y = torch.empty_like(x)
    mean, rstd = x.new_empty(2, x.shape[0], groups).unbind()
    workspace = torch.empty(launch.workspace_bytes, dtype=torch.uint8, device=x.device)
    pointers = [tensor.data_ptr() for tensor in (x, y, gamma, beta, mean, rstd, workspace)]
    with torch.cuda.device(x.device):
        stream = native.current_stream(x.device)
        native_library.call(FUNCTION, *pointers, launch.blocks, *_sizes(x, groups), eps, stream)
    return y, mean, rstd


def _sizes(x: Tensor, groups: int) -> tuple[int, int, int, int]:
    batch, channels, *spatial = x.shape
    return batch, groups, channels // groups, math.prod(spatial)
