"""A few elements of each result, read the moment that a worker says that it is there."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from kbench.core.model import Status
from kbench.devices.cuda import recorded
from kbench.judge.exchange import WrongError
from kbench.judge.refusal import RefusalError
from kbench.judge.timing.mapped_results import MappedResult
from kbench.numerics import elements

LOOKED_AT = 1024
"""Elements of a result that the judge reads as soon as the flag is up."""


class EarlyRead:
    """A few elements of results, read the moment that these are said to be there.

    The reads are recorded: queued one by one, they took the CPU 100 to 290 us after a long wait, which differed from
    arm to arm (H200, results/calibration/README.md).
    """

    def __init__(self, places: Sequence[MappedResult]):
        self._spans: list[Tensor] = []
        self._positions: list[Tensor] = []
        self._seen: list[Tensor] = []
        for spec, memory in places:
            begin, end = spec.span
            span = memory[begin:end].view(getattr(torch, spec.dtype))
            positions = torch.zeros(LOOKED_AT, dtype=torch.int64, device=memory.device)
            for size, stride in zip(spec.shape, spec.stride, strict=True):
                positions += stride * torch.randint(size, (LOOKED_AT,), device=memory.device)
            self._spans.append(span)
            self._positions.append(positions)
            self._seen.append(torch.empty(LOOKED_AT, dtype=span.dtype, device=memory.device))
        self._read = recorded(self._queue)

    def take(self) -> int:
        """Read the elements; return the ns that it took until they were here."""
        started = time.perf_counter_ns()
        self._read()
        torch.cuda.synchronize()
        return time.perf_counter_ns() - started

    def _queue(self) -> None:
        for span, positions, seen in zip(self._spans, self._positions, self._seen, strict=True):
            torch.index_select(span, 0, positions, out=seen)

    def _is_final(self) -> bool:
        """Return whether the elements are still what they were: nobody wrote them after the look."""
        now = (torch.index_select(s, 0, p) for s, p in zip(self._spans, self._positions, strict=True))
        return all(elements.same_bits(a, b) for a, b in zip(self._seen, now, strict=True))

    @contextlib.contextmanager
    def final(self, log: str) -> Iterator[Callable[[], None]]:
        """Judge the results in a `with` block; refuse them if the elements are others afterwards than when taken.

        Only afterwards: work that goes on behind a worker's last answer could have them ready while they are judged.
        Where values are wrong, the block itself compares, by what is yielded, before it looks for the reason: that may
        call the worker again, or take back the memory.
        """

        def require_final() -> None:
            if not self._is_final():
                reason = "results were not there yet when the solution's process said that they were"
                raise RefusalError(Status.TIMING_UNATTESTED, reason, log)

        try:
            yield require_final
        except WrongError:
            raise
        except RefusalError:
            require_final()
            raise
        require_final()
