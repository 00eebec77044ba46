"""Time calls on a device: CUDA events with a cold L2 cache and launch latency kept out, or the host's clock on a CPU.

The judge times the reference and a worker times the candidate with the same code. The order of one measurement is:
reset of persisting L2, L2 flush (a write of twice the cache, so that nothing useful is left, then a read sweep, so that
no dirty line is written back inside the timed region), a spin that keeps the stream busy until the host has queued
everything, start event, the calls, end event, device-wide synchronisation.
"""

import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kbench.measure.driver import Driver

FLUSH_FACTOR = 2
SPIN_LIMIT_S = 2e-3
SPIN_MARGIN = 1.5
NOMINAL_CLOCK_HZ = 1.9e9
OVERHEAD_PAIRS = 100

Call = Callable[[int], Any]
After = Callable[[int, Any], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One measurement: time per call, the host's time to submit a call, and what the calls returned."""

    t_event_ns: int
    t_submit_ns: int
    outputs: list[Any]


class Timer(Protocol):
    """Times `call(slot)` for the given slots, all between one pair of clock readings."""

    name: str

    def measure(
        self, call: Call, slots: Sequence[int], *, flush: bool, spin: bool = True, after: After | None = None
    ) -> Measured:
        """Run the calls back to back and return the time per call; without `spin`, launches are not hidden.

        `after(slot, output)` happens behind each call, and counts.
        """
        ...

    def overhead_ns(self) -> float | None:
        """Return the time that an empty measurement reads, or None where the clock is the host's."""
        ...


def timer_for(device: str, mode: str = "cold") -> Timer:
    """Return the timer of a device; `graph` mode replays captured graphs on the same clock."""
    return CudaTimer(graph=mode == "graph") if device == "cuda" else HostTimer()


def start_on(number: int) -> None:
    """Go to processor `number` (counted round those allowed), and be free to leave it.

    Two processes whose times are compared begin where the other one did: what else runs there slows both.
    """
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(allowed)[number % len(allowed)]})
    # Not pinned: threads that a call starts would be, too.
    os.sched_setaffinity(0, allowed)


def poison_pool(outputs: Sequence[Any]) -> None:
    """Fill free memory of the outputs' sizes with NaN, so that unwritten elements cannot look right."""
    import torch

    held = [torch.empty_strided(o.shape, o.stride(), dtype=o.dtype, device=o.device) for o in outputs]
    for tensor in held:
        if tensor.is_floating_point():
            tensor.fill_(float("nan"))


def run_calls(call: Call, slots: Sequence[int], after: After | None) -> list[Any]:
    """Call on each slot, have `after` look at each result at once, and return all of them."""
    outputs = []
    for slot in slots:
        outputs.append(call(slot))
        if after is not None:
            after(slot, outputs[-1])
    return outputs


class HostTimer:
    """The monotonic clock around the calls: CPU timing, which no cache flush precedes."""

    name = "host"

    def __init__(self) -> None:
        self._now = time.perf_counter_ns  # now, before any solution is imported

    def measure(
        self,
        call: Call,
        slots: Sequence[int],
        *,
        flush: bool,  # noqa: ARG002
        spin: bool = True,  # noqa: ARG002
        after: After | None = None,
    ) -> Measured:
        """Run the calls back to back; submit time and call time are the same thing here."""
        start = self._now()
        outputs = run_calls(call, slots, after)
        per_call = (self._now() - start) // max(1, len(slots))
        return Measured(t_event_ns=per_call, t_submit_ns=per_call, outputs=outputs)

    def overhead_ns(self) -> float | None:
        """Return None: a host clock read costs tens of nanoseconds."""
        return None


class CudaTimer:
    """CUDA events on the current stream."""

    def __init__(self, graph: bool = False):
        import torch

        self.name = "graph" if graph else "events"
        self._graph = graph
        self._captured: dict[int, tuple[Any, Any]] = {}
        self._l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
        self._sweep = torch.zeros(FLUSH_FACTOR * self._l2_bytes // 4, dtype=torch.int32, device="cuda")
        self._driver = Driver()
        self._now = time.perf_counter
        self._submit_s = 50e-6

    def flush(self) -> None:
        """Give back any persisting carve-out, overwrite the whole L2, then read it back clean."""
        import torch

        self._driver.reset_persisting_l2(torch.cuda.current_stream().cuda_stream)
        self._sweep.add_(1)
        self._sweep.max()

    def measure(
        self, call: Call, slots: Sequence[int], *, flush: bool, spin: bool = True, after: After | None = None
    ) -> Measured:
        """Run the calls back to back between two events; see the module's docstring for the order."""
        import torch

        if self._graph:
            call = self._replayed(call, slots)
        start, end = self._driver.event(), self._driver.event()
        self._driver.synchronise()
        if flush:
            self.flush()
        if spin:
            spin_s = min(SPIN_MARGIN * self._submit_s * max(1, len(slots)), SPIN_LIMIT_S)
            torch.cuda._sleep(int(spin_s * NOMINAL_CLOCK_HZ))  # noqa: SLF001 - torch's only spin kernel
        submitted = self._now()
        start.record(torch.cuda.current_stream().cuda_stream)
        outputs = run_calls(call, slots, after)
        end.record(torch.cuda.current_stream().cuda_stream)
        submit_s = self._now() - submitted
        self._driver.synchronise()
        count = max(1, len(slots))
        # A call that waits for the device takes as long as it takes: only what is queued counts as submission.
        self._submit_s = min(max(submit_s / count, 0.7 * self._submit_s), SPIN_LIMIT_S)
        return Measured(
            t_event_ns=round(end.ns_since(start) / count),
            t_submit_ns=round(submit_s * 1e9 / count),
            outputs=outputs,
        )

    def overhead_ns(self) -> float:
        """Return the median time between two events with nothing in between, queued behind a flush."""
        import torch

        readings = []
        stream = torch.cuda.current_stream().cuda_stream
        self.flush()
        for _ in range(OVERHEAD_PAIRS):
            start, end = self._driver.event(), self._driver.event()
            start.record(stream)
            end.record(stream)
            readings.append((start, end))
        self._driver.synchronise()
        times = sorted(end.ns_since(start) for start, end in readings)
        return times[len(times) // 2]

    def _replayed(self, call: Call, slots: Sequence[int]) -> Call:
        """Return a call that replays a graph per slot, its outputs poisoned before every measurement."""
        import torch

        for slot in slots:
            if slot not in self._captured:
                side = torch.cuda.Stream()
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    call(slot)
                torch.cuda.current_stream().wait_stream(side)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    output = call(slot)
                self._captured[slot] = (graph, output)
            for leaf in tensor_leaves(self._captured[slot][1]):
                if leaf.is_floating_point():
                    leaf.fill_(float("nan"))

        def replay(slot: int) -> Any:
            graph, output = self._captured[slot]
            graph.replay()
            return output

        return replay


def tensor_leaves(value: Any) -> list[Any]:
    """Return the tensors in a nest of tuples, lists, dicts and dataclasses, in order."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in tensor_leaves(item)]
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in tensor_leaves(item)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, field.name, None) for field in dataclasses.fields(value)]
        return [leaf for part in parts for leaf in tensor_leaves(part)]
    return []
