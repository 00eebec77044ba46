"""A few elements of each result, read at the moment of a worker's flag."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from kbench.core.model import Status
from kbench.devices.cuda import recorded, wrap
from kbench.judge.clock.mapped_results import MappedResult
from kbench.judge.refusal import RefusalError, WrongError
from kbench.numerics import elements
from kbench.process.shared_memory import TensorSpec

LOOKED_AT = 1024
"""Number of elements of a result that the judge reads as soon as the flag is up."""
REACH_BYTES = 1 << 47
"""Size of the address range that a reading spans from the lowest result on: all memory of the device above it."""


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
    def final(self, log: str) -> Iterator[Callable[[], None]]:
        """Judge the results in a `with` block; refuse them if elements change after the early read.

        The comparison follows the judging: work that continues after a worker's answer may finish while results are
        judged. For wrong values the block itself calls the yielded function before it looks for a diagnosis, which may
        call the worker again, or take back the memory.
        """

        def require_final() -> None:
            if not elements.same_bits(self._seen, torch.index_select(self._memory, 0, self._positions)):
                reason = "results were not complete when the solution's process reported them"
                raise RefusalError(Status.UNFINISHED_OUTPUT, reason, log)

        try:
            yield require_final
        except WrongError:
            raise
        except RefusalError:
            require_final()
            raise
        require_final()

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
