"""Time one call in a worker: CUDA events on a GPU, the monotonic clock on a CPU; and make a GPU's L2 cache cold.

Rounds of many calls behind the judge's gate are in `kbench.worker.queued_calls`.
"""

import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kbench.devices.cuda_driver import Driver

FLUSH_FACTOR = 2

Call = Callable[[int], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedCall:
    """One measured call: the device's time, the host's time to submit it, and what it returned."""

    t_event_ns: int
    t_submit_ns: int
    output: Any


class Timer(Protocol):
    """Times `call(slot)`."""

    name: str

    def measure(self, call: Call, slot: int) -> TimedCall:
        """Call once and return the time of the call."""
        ...

    def prepared(self, call: Call, slots: Sequence[int]) -> Call:
        """Return what is to be called in place of `call` on these slots: itself, or the replay of a graph of it."""
        ...

    def forget(self) -> None:
        """Let go of captured graphs: their inputs lie elsewhere now, or other numbers are among them."""
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


class HostTimer:
    """The monotonic clock around a call."""

    name = "host"

    def __init__(self) -> None:
        self._now = time.perf_counter_ns  # now, before any solution is imported

    def measure(self, call: Call, slot: int) -> TimedCall:
        """Call once; submit time and call time are the same thing here."""
        start = self._now()
        output = call(slot)
        elapsed_ns = self._now() - start
        return TimedCall(t_event_ns=elapsed_ns, t_submit_ns=elapsed_ns, output=output)

    def prepared(self, call: Call, slots: Sequence[int]) -> Call:  # noqa: ARG002
        """Return the call itself."""
        return call

    def forget(self) -> None:
        """Do nothing: nothing is captured on a CPU."""


class L2Cache:
    """Makes a GPU's L2 cache cold: nothing useful in it, and nothing that is still to be written back."""

    def __init__(self, driver: Driver):
        import torch

        self._driver = driver
        l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
        self._sweep = torch.zeros(FLUSH_FACTOR * l2_bytes // 4, dtype=torch.int32, device="cuda")

    def flush(self) -> None:
        """Give back any persisting carve-out, overwrite twice the cache's size, then read it back clean."""
        import torch

        self._driver.reset_persisting_l2(torch.cuda.current_stream().cuda_stream)
        self._sweep.add_(1)
        self._sweep.max()


class CudaTimer:
    """CUDA events on the current stream."""

    name = "events"

    def __init__(self, *, graph: bool = False):
        self._graph = graph
        self._captured: dict[int, tuple[Any, Any]] = {}
        self._driver = Driver()
        self._now = time.perf_counter_ns

    def measure(self, call: Call, slot: int) -> TimedCall:
        """Call once between two events, on an idle device."""
        import torch

        call = self.prepared(call, [slot])
        start, end = self._driver.event(), self._driver.event()
        self._driver.synchronise()
        submitted = self._now()
        start.record(torch.cuda.current_stream().cuda_stream)
        output = call(slot)
        end.record(torch.cuda.current_stream().cuda_stream)
        submit_ns = self._now() - submitted
        self._driver.synchronise()
        return TimedCall(t_event_ns=round(end.ns_since(start)), t_submit_ns=submit_ns, output=output)

    def prepared(self, call: Call, slots: Sequence[int]) -> Call:
        """Return the call, or in `graph` mode one that replays a graph per slot, its outputs poisoned here."""
        return self._replayed(call, slots) if self._graph else call

    def forget(self) -> None:
        """Let go of captured graphs."""
        self._captured.clear()

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


def synchronize(device: str) -> None:
    """Wait until a GPU has done all that was asked of it."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()
