"""Memory that a judge owns and a worker maps: a sealed memfd on the CPU, CUDA IPC on a GPU.

The judge allocates, keeps the allocation for itself, and sends a *descriptor* (plain JSON, with a file descriptor
beside it on the CPU). A worker can write into what it maps, but can neither resize, free nor move it: the judge's view
survives the worker's death.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kbench.devices.backend import attach, backend
from kbench.devices.interface import SharedMemory

if TYPE_CHECKING:
    from torch import Tensor

ALIGNMENT = 256
"""Bytes; every tensor starts on such a boundary, as in torch's own allocator."""


class TensorSpec(NamedTuple):
    """Place of a tensor in a block: byte offset, dtype name (`float32`), shape, and strides in elements.

    In a message it is a JSON list of these.
    """

    offset: int
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def span(self) -> tuple[int, int]:
        """Beginning and end of the tensor, in bytes of the block."""
        return self.offset, self.offset + _extent(self.dtype, self.shape, self.stride)

    @classmethod
    def from_json(cls, fields: Sequence[Any]) -> "TensorSpec":
        """Return what came as a JSON list."""
        offset, dtype, shape, stride = fields
        return cls(offset=offset, dtype=dtype, shape=tuple(shape), stride=tuple(stride))


def layout_of(tensor: "Tensor") -> str:
    """Name what keeps a tensor from lying in memory as its shape and strides say; empty for a dense one."""
    import torch

    if tensor.is_nested:
        return "nested"
    if tensor.is_quantized:
        return "quantised"
    return "" if tensor.layout is torch.strided else str(tensor.layout).removeprefix("torch.").lstrip("_")


@functools.lru_cache
def _extent(dtype: str, shape: tuple[int, ...], stride: tuple[int, ...]) -> int:
    """Return the bytes from a tensor's first to its last element, both included; a round asks for hundreds alike."""
    import torch

    if 0 in shape:
        return 0
    element_bytes: int = getattr(torch, dtype).itemsize
    return element_bytes * (1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True)))


def lay_out(tensors: "Sequence[Tensor]", offset: int = 0) -> tuple[list[TensorSpec], int]:
    """Place tensors one after the other, aligned, with their own strides; return the specs and the end offset."""
    specs = []
    for tensor in tensors:
        spec = TensorSpec(
            offset=offset,
            dtype=str(tensor.dtype).removeprefix("torch."),
            shape=tuple(tensor.shape),
            stride=_dense_stride(tensor),
        )
        specs.append(spec)
        _, end = spec.span
        offset = -(-end // ALIGNMENT) * ALIGNMENT
    return specs, offset


def _dense_stride(tensor: "Tensor") -> tuple[int, ...]:
    """Return the tensor's strides, or contiguous ones where its own overlap (expanded tensors, sliding windows)."""
    reach = 0
    for stride, size in sorted((s, n) for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n > 1):
        if stride <= reach:
            return tuple(tensor.new_empty(tensor.shape).stride())
        reach += (size - 1) * stride
    return tuple(tensor.stride())


class Block:
    """A block of memory; `bytes` is a uint8 tensor over it. Use `Block.allocate` or `Block.attach_all`."""

    def __init__(self, memory: SharedMemory):
        self.bytes = memory.bytes
        self.descriptor = memory.descriptor
        self.fd = memory.fd
        self._release: Callable[[], None] | None = memory.release

    @classmethod
    def allocate(cls, nbytes: int, device: str) -> "Block":
        """Allocate in the judge. Raises MemoryError where the device has no room."""
        return cls(backend(device).allocate(max(nbytes, ALIGNMENT)))

    @classmethod
    def attach_all(cls, descriptors: Iterable[dict[str, Any]], fds: Iterable[int]) -> "list[Block]":
        """Map a judge's blocks in the worker; files come in the order of the blocks that are some."""
        files = iter(fds)
        memories = [attach(each, None if backend(each["kind"]).has_own_memory else next(files)) for each in descriptors]
        return [cls(memory) for memory in memories]

    def close(self) -> None:
        """Free the memory, or end the mapping of a judge's; views of it must not be used afterwards."""
        if self._release is not None:
            self._release()
        self.fd = self._release = None


def view(spec: TensorSpec, memory: "Tensor") -> "Tensor":
    """Return the tensor that lies at `spec` in memory given as bytes."""
    import torch

    dtype = getattr(torch, spec.dtype)
    if 0 in spec.shape:
        return torch.empty_strided(spec.shape, spec.stride, dtype=dtype, device=memory.device)
    begin, end = spec.span
    span = memory[begin:end].view(dtype)
    return span.as_strided(spec.shape, spec.stride, span.storage_offset())
