"""Shapes of a valid, stride-1 convolution and the group normalisation after it, checked in one place."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

Pair = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvShape:
    """A batch of images and the filters that slide over them, without padding."""

    batch: int
    in_channels: int
    height: int
    width: int
    out_channels: int
    kernel_height: int
    kernel_width: int
    groups: int

    @classmethod
    def of(cls, x: Tensor, weight: Tensor, groups: int = 1) -> ConvShape:
        """Read the shape off the tensors. TypeError unless both are fp32, ValueError for a misfit."""
        for name, tensor in (("x", x), ("weight", weight)):
            if tensor.dtype != torch.float32:
                raise TypeError(f"{name} must be float32, got {tensor.dtype}")
            if tensor.dim() != 4:
                raise ValueError(f"{name} must have 4 dimensions, got shape {tuple(tensor.shape)}")
        batch, in_channels, height, width = x.shape
        out_channels, weight_channels, kernel_height, kernel_width = weight.shape
        if weight_channels != in_channels:
            raise ValueError(f"x has {in_channels} channels but weight expects {weight_channels}")
        if groups < 1 or out_channels % groups:
            raise ValueError(f"{out_channels} output channels cannot be split into {groups} groups")
        if not 1 <= kernel_height <= height or not 1 <= kernel_width <= width:
            raise ValueError(f"kernel {kernel_height} x {kernel_width} does not fit in {height} x {width}")
        return cls(
            batch=batch,
            in_channels=in_channels,
            height=height,
            width=width,
            out_channels=out_channels,
            kernel_height=kernel_height,
            kernel_width=kernel_width,
            groups=groups,
        )

    @property
    def out_height(self) -> int:
        """Rows of the convolution's output."""
        return self.height - self.kernel_height + 1

    @property
    def out_width(self) -> int:
        """Columns of the convolution's output."""
        return self.width - self.kernel_width + 1

    @property
    def out_pixels(self) -> int:
        """Pixels of one output channel."""
        return self.out_height * self.out_width

    @property
    def taps(self) -> int:
        """Length of each output's sum of products."""
        return self.in_channels * self.kernel_height * self.kernel_width


def as_pair(size: int | Pair) -> Pair:
    """Turn a kernel size as torch.nn takes it into (height, width)."""
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def pooled_size(height: int, width: int, pool: Pair) -> Pair:
    """Compute the output size of a max-pool with stride = kernel. ValueError if the kernel does not fit."""
    if not 1 <= pool[0] <= height or not 1 <= pool[1] <= width:
        raise ValueError(f"max-pool kernel {pool[0]} x {pool[1]} does not fit in {height} x {width}")
    return height // pool[0], width // pool[1]


def check_group_size(batch: int, values: int) -> None:
    """Refuse what torch's group normalisation refuses: ValueError where there is one value per group in all."""
    if batch * values == 1:
        raise ValueError("group normalisation needs more than one value per group")


def checked_arguments(
    x: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor, *, groups: int
) -> tuple[ConvShape, tuple[Tensor, ...]]:
    """Check a convolution and the group normalisation after it; the shape, and all five tensors contiguous.

    TypeError unless all are fp32; ValueError for shapes or devices that do not go together, or one value per group.
    """
    shape = ConvShape.of(x, weight, groups)
    check_group_size(shape.batch, shape.out_channels // groups * shape.out_pixels)
    vectors = {"bias": bias, "gamma": gamma, "beta": beta}
    tensors = (
        x.contiguous(),
        weight.contiguous(),
        *(channel_vector(name, values, shape.out_channels) for name, values in vectors.items()),
    )
    if any(tensor.device != x.device for tensor in tensors):
        raise ValueError(f"all tensors must be on one device, got {[str(tensor.device) for tensor in tensors]}")
    return shape, tensors


def channel_vector(name: str, values: Tensor, channels: int) -> Tensor:
    """Make `values` a contiguous fp32 (channels,) tensor; TypeError or ValueError if it cannot be one."""
    if values.dtype != torch.float32:
        raise TypeError(f"{name} must be float32, got {values.dtype}")
    if tuple(values.shape) != (channels,):
        raise ValueError(f"{name} must have shape ({channels},), got {tuple(values.shape)}")
    return values.contiguous()


def channel_scale(scale: Tensor, channels: int) -> Tensor:
    """Make a scale that multiplies (N, C, H, W) by broadcasting a contiguous fp32 (channels,) tensor.

    ValueError for a shape that varies within a channel: no kernel here applies such a one.
    """
    if scale.dtype != torch.float32:
        raise TypeError(f"scale must be float32, got {scale.dtype}")
    if scale.numel() == 1:
        return scale.reshape(1).expand(channels).contiguous()
    if tuple(scale.shape[-3:]) != (channels, 1, 1) or scale.numel() != channels:
        raise ValueError(f"scale must hold one value or have shape ({channels}, 1, 1), got {tuple(scale.shape)}")
    return scale.reshape(channels).contiguous()
