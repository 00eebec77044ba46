"""A worker's part in a round: queue calls behind the judge's gate, and report the places of their results."""

import base64
import ctypes
import mmap
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kbench.devices.backend import backend_of
from kbench.devices.cuda_driver import Driver, DriverError
from kbench.process.channel import flatten
from kbench.process.gate_page import DONE, OPEN, PAGE_BYTES
from kbench.process.shared_memory import layout_of
from kbench.worker.delivery import is_plain


class CallQueue:
    """The worker's end of the gate; made before a solution is imported, so that what it calls is what it knew then."""

    def __init__(self, fd: int):
        import torch

        self._driver = Driver()
        self._page = mmap.mmap(fd, PAGE_BYTES)
        os.close(fd)
        pointer = ctypes.addressof(ctypes.c_char.from_buffer(self._page))
        self._address = self._driver.register(pointer, PAGE_BYTES)
        self._now = time.perf_counter_ns
        self._numbers: dict[int, int] = {}
        self.handles: list[str] = []
        """IPC handles of the allocations that results of this round lie in."""
        self._stream = torch.cuda.current_stream
        self.event_ns = 0.0
        """Time of a call of the last round, by events."""
        self.submit_ns = 0
        """Host's time to submit a call of the last round."""

    @contextmanager
    def timed(self, calls: int) -> Iterator[None]:
        """Measure what is queued in a `with` block by events, which are read by `read` once all of it is done."""
        self._marks = self._driver.event(), self._driver.event()
        began = self._now()
        self._marks[0].record(self._stream().cuda_stream)
        yield
        self._marks[1].record(self._stream().cuda_stream)
        self.submit_ns = (self._now() - began) // max(1, calls)

    @contextmanager
    def gated(self, number: int) -> Iterator[None]:
        """Hold what is queued in a `with` block until the judge opens the gate; say `done` behind it."""
        self._driver.synchronise()
        self._driver.wait_value(self._stream().cuda_stream, self._address + 4 * OPEN, number)
        yield
        self._driver.write_value(self._stream().cuda_stream, self._address + 4 * DONE, number)

    def read(self, calls: int) -> None:
        """Wait for the device, then read the events of the last round."""
        self._driver.synchronise()
        self.event_ns = self._marks[1].ns_since(self._marks[0]) / max(1, calls)

    def places(self, output: Any) -> list[list[Any]]:
        """Return the place of each tensor of a result: number of the allocation in `handles`, offset in bytes, strides.

        The number is -1 for memory without a handle: of another process, or of the driver's own pools.
        """
        import torch

        found = []
        for _, leaf in flatten(output):
            if not isinstance(leaf, torch.Tensor):
                continue
            dense = is_plain(leaf) and not layout_of(leaf) and backend_of(leaf).has_own_memory
            handle, offset = self._handle(leaf.data_ptr()) if dense and leaf.numel() else (-1, 0)
            found.append([handle, offset, list(leaf.stride()) if dense else []])
        return found

    def forget(self) -> None:
        """Ask for handles anew: allocations may have gone."""
        self._numbers.clear()
        self.handles.clear()

    def _handle(self, pointer: int) -> tuple[int, int]:
        try:
            base, _ = self._driver.range_of(pointer)
            if base not in self._numbers:
                self.handles.append(base64.b64encode(self._driver.export(base)).decode())
                self._numbers[base] = len(self.handles) - 1
        except DriverError:
            return -1, 0
        return self._numbers[base], pointer - base


def queue_calls(
    call: Callable[[int], Any], slots: Sequence[int], take: Callable[[int, Any], None] | None, *, keep: bool
) -> list[Any]:
    """Make the calls; `keep` every result, or hand each to `take` at once."""
    results = []
    for slot in slots:
        result = call(slot)
        if take is not None:
            take(slot, result)
        elif keep:
            results.append(result)
        del result
    return results
