"""A worker's results in its own memory, which the judge maps, so that nothing is copied in timed work.

The mapping outlives the worker, so results of a killed process can still be read.
"""

import base64
import contextlib
from typing import Any

from torch import Tensor

from kbench.devices.cuda import wrap
from kbench.devices.cuda_driver import IPC_HANDLE_BYTES, Driver, DriverError
from kbench.process.channel import WireError
from kbench.process.shared_memory import TensorSpec

MOST_ALLOCATIONS = 4096

MappedResult = tuple[TensorSpec, Tensor]
"""Place of a result: its layout, and the bytes of the allocation."""


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
        if len(stride) != want.dim() or not all(type(s) is int and s >= 0 for s in stride):
            raise WireError("a result has other strides than dimensions")
        dtype = str(want.dtype).removeprefix("torch.")
        spec = TensorSpec(offset=offset, dtype=dtype, shape=tuple(want.shape), stride=tuple(stride))
        memory = self._allocation(handles[number])
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
