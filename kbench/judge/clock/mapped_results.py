"""A worker's results in its own memory, which the judge maps, so that nothing is copied in timed work.

The mapping outlives the worker, so results of a killed process can still be read.
"""

import base64
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kbench.core.model import Status
from kbench.devices.cuda import recorded, wrap
from kbench.devices.cuda_driver import IPC_HANDLE_BYTES, Driver, DriverError
from kbench.judge.refusal import RefusalError
from kbench.numerics import elements
from kbench.process.channel import WireError
from kbench.process.shared_memory import TensorSpec

MOST_ALLOCATIONS = 4096
LOOKED_AT = 1024
"""Number of elements of a result that the judge reads as soon as the flag is up."""
REACH_BYTES = 1 << 47
"""Size of the address range that a reading spans from the lowest result on: all memory of the device above it."""

MappedResult = tuple[TensorSpec, Tensor]
"""Place of a result: its layout, and the bytes of the allocation."""


class UnreadableError(Exception):
    """Results that the judge cannot read where they lie, or that do not each have memory of their own."""


def layout_of_result(want: Tensor, offset: int, stride: list[Any]) -> TensorSpec:
    """Return the layout of a result like `want`, with the strides that a worker reports. Raises WireError."""
    if len(stride) != want.dim() or not all(type(s) is int and s >= 0 for s in stride):
        raise WireError("a result has other strides than dimensions")
    dtype = str(want.dtype).removeprefix("torch.")
    return TensorSpec(offset=offset, dtype=dtype, shape=tuple(want.shape), stride=tuple(stride))


class Mapped:
    """The judge's mappings of one worker's allocations, by IPC handle."""

    def __init__(self) -> None:
        self._driver = Driver()
        self._open: dict[str, tuple[int, Tensor]] = {}

    def place(self, reported: Any, handles: list[Any], want: Tensor) -> tuple[TensorSpec, Tensor] | None:
        """Return the layout of a result like `want`, and its allocation's bytes; None without a handle or an element.

        Raises WireError if the reported place has not three fields, or lies outside the allocation.
        """
        match reported:
            case [int() as number, int() as offset, list() as stride] if -1 <= number < len(handles):
                pass
            case _:
                raise WireError("a place is the number of a handle, an offset and strides")
        if number < 0 or not want.numel():
            return None
        spec, memory = layout_of_result(want, offset, stride), self._allocation(handles[number])
        if offset < 0 or offset % want.element_size() or spec.span[1] > memory.numel():
            raise WireError("a result lies outside of its allocation")
        return spec, memory

    def _allocation(self, handle: Any) -> Tensor:
        if not isinstance(handle, str):
            raise WireError("an IPC handle is text")
        if handle not in self._open:
            if len(self._open) >= MOST_ALLOCATIONS:
                raise WireError(f"results in more than {MOST_ALLOCATIONS} allocations")
            try:
                raw = base64.b64decode(handle, validate=True)
                if len(raw) != IPC_HANDLE_BYTES:
                    raise WireError("an IPC handle has 64 bytes")
                pointer = self._driver.open(raw)
                _, nbytes = self._driver.range_of(pointer)
            except (ValueError, DriverError) as error:  # binascii's among them
                raise WireError(f"a result's memory cannot be mapped: {error}") from error
            self._open[handle] = pointer, wrap(pointer, nbytes)
        return self._open[handle][1]

    def close(self) -> None:
        """End all mappings; views of them must not be used afterwards."""
        self._driver.synchronise()
        for pointer, _ in self._open.values():
            with contextlib.suppress(DriverError):
                self._driver.unmap(pointer)
        self._open.clear()


class EarlyRead:
    """A few elements of results, read at the moment of the flag.

    One reading serves all rounds of a worker. It is recorded as a CUDA graph: single reads take the CPU 100 to 290 µs
    after a long wait, and the time differs between arms (H200). The graph picks elements by their addresses, because a
    new recording takes 4 ms and results may lie elsewhere in every round.
    """

    def __init__(self) -> None:
        self._random = np.random.default_rng()
        self._lowest = 0
        self._memory, self._positions, self._seen = (torch.empty(0) for _ in range(3))
        self._read: Callable[[], None] = lambda: None

    def aim(self, places: Sequence[MappedResult]) -> None:
        """Choose the elements to read, of these results of one dtype."""
        dtype: torch.dtype = getattr(torch, places[0][0].dtype)
        lowest = min(memory.data_ptr() + spec.offset for spec, memory in places)
        if lowest < self._lowest or self._seen.dtype != dtype or self._seen.numel() != LOOKED_AT * len(places):
            self._record(lowest, dtype, LOOKED_AT * len(places), places[0][1].device)
        addresses = np.concatenate([self._addresses(*place, dtype.itemsize) for place in places])
        self._positions.copy_(torch.from_numpy((addresses - self._lowest) // dtype.itemsize))

    def take(self) -> int:
        """Read the elements; return the time until they are in the judge's memory, in ns."""
        started = time.perf_counter_ns()
        self._read()
        torch.cuda.synchronize()
        return time.perf_counter_ns() - started

    @contextlib.contextmanager
    def final(self, log: str) -> Iterator[None]:
        """Judge the results in a `with` block; refuse them if elements change after the early read.

        The comparison follows the judging: work that continues after a worker's answer may finish while results are
        judged.
        """
        try:
            yield
        except RefusalError:
            self._require_final(log)
            raise
        self._require_final(log)

    def _require_final(self, log: str) -> None:
        if not elements.same_bits(self._seen, torch.index_select(self._memory, 0, self._positions)):
            reason = "results were not complete when the solution's process reported them"
            raise RefusalError(Status.UNFINISHED_OUTPUT, reason, log)

    def _record(self, lowest: int, dtype: torch.dtype, count: int, device: torch.device) -> None:
        self._lowest = lowest
        self._memory = wrap(lowest, REACH_BYTES).view(dtype)
        self._positions = torch.zeros(count, dtype=torch.int64, device=device)
        self._seen = torch.empty(count, dtype=dtype, device=device)
        self._read = recorded(self._gather)

    def _gather(self) -> None:
        torch.index_select(self._memory, 0, self._positions, out=self._seen)

    def _addresses(self, spec: TensorSpec, memory: Tensor, itemsize: int) -> "np.typing.NDArray[np.int64]":
        """Return the addresses of some random elements of a result."""
        found = np.full(LOOKED_AT, memory.data_ptr() + spec.offset, dtype=np.int64)
        for size, stride in zip(spec.shape, spec.stride, strict=True):
            found += itemsize * stride * self._random.integers(size, size=LOOKED_AT)
        return found
