"""An NVIDIA GPU as a device: memory is shared by CUDA IPC, events time; its L2 cache can be made cold."""

import base64
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kbench.catalog.containers import tensors
from kbench.core.model import Environment
from kbench.devices import cuda_runtime, nvml
from kbench.devices.cuda_driver import Driver, DriverError
from kbench.devices.interface import Backend, SharedMemory
from kbench.devices.poison import poison_floats
from kbench.devices.timer import Call, TimedCall, Timer

if TYPE_CHECKING:
    from torch import Tensor

FLUSH_FACTOR = 2
IPC_GRANULE = 2 << 20
"""Bytes of one allocation of the driver; smaller requests share it, and an IPC handle is for all of it."""


class Cuda(Backend):
    """The backend of `cuda`."""

    kind = "cuda"
    has_own_memory = True
    queues_calls = True
    replays_graphs = True
    names_kernels = True
    can_break = True
    preferred_cases = ("default",)

    _runtimes: cuda_runtime.Runtimes | None = None

    def open_ahead(self) -> None:
        """Make the context that torch will use. If that fails, torch reports the reason later."""
        with contextlib.suppress(OSError, MemoryError, DriverError):
            Driver(ordinal=0)

    def identify(self) -> Environment:
        """Describe the GPU that torch sees first, and the software around it."""
        import torch

        properties = torch.cuda.get_device_properties(0)
        return Environment(
            device=self.kind,
            gpu_name=properties.name,
            gpu_uuid=f"GPU-{properties.uuid}",
            driver=nvml.driver_version(),
            cuda=torch.version.cuda or "",
            torch=torch.__version__,
            l2_bytes=properties.L2_cache_size,
            memory_bytes=properties.total_memory,
            capability=f"{properties.major}.{properties.minor}",
        )

    def timer(self, mode: str) -> "CudaTimer":
        """Return CUDA events; in `graph` mode they time the replay of captured graphs."""
        return CudaTimer(graph=mode == "graph")

    def synchronize(self) -> None:
        """Wait until the GPU has done all its work."""
        import torch

        torch.cuda.synchronize()

    def unchecked_error(self) -> str:
        """Ask every loaded copy of CUDA's runtime; an extension may have loaded one before its first call."""
        self._runtimes = self._runtimes or cuda_runtime.loaded()
        return self._runtimes.take_error()

    def release_cached(self) -> None:
        """Free the GPU memory that this process's torch caches."""
        import torch

        torch.cuda.empty_cache()

    @contextlib.contextmanager
    def memory_peak(self) -> Iterator[Callable[[], int]]:
        """Ask torch's allocator, which also gives libraries their workspaces."""
        import torch

        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        yield lambda: torch.cuda.max_memory_allocated() - before

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Start and stop CUDA's profiler, which `ncu --profile-from-start off` waits for."""
        import torch

        with torch.cuda.profiler.profile():
            yield

    def allocate(self, nbytes: int) -> SharedMemory:
        """Allocate device memory with an IPC handle. Raises MemoryError if the device has no room."""
        driver = Driver()
        nbytes = -(-nbytes // IPC_GRANULE) * IPC_GRANULE
        pointer = driver.allocate(nbytes)
        handle = base64.b64encode(driver.export(pointer)).decode()
        descriptor = {"kind": self.kind, "nbytes": nbytes, "handle": handle}
        return self._shared(pointer, descriptor, driver.free)

    def attach(self, descriptor: dict[str, Any], fd: int | None) -> SharedMemory:  # noqa: ARG002
        """Map another process's allocation."""
        driver = Driver()
        return self._shared(driver.open(base64.b64decode(descriptor["handle"])), descriptor, driver.unmap)

    def _shared(self, pointer: int, descriptor: dict[str, Any], end: Any) -> SharedMemory:
        def release() -> None:
            self.synchronize()
            end(pointer)

        memory = wrap(pointer, descriptor["nbytes"])
        return SharedMemory(bytes=memory, descriptor=descriptor, fd=None, release=release)


class _CudaArray:
    """Raw device memory in the form that torch accepts: the CUDA array interface, version 3."""

    def __init__(self, pointer: int, nbytes: int):
        self.__cuda_array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 3,
            "strides": None,
        }


def wrap(pointer: int, nbytes: int) -> "Tensor":
    """Return device memory as a tensor of bytes."""
    import torch

    return torch.as_tensor(_CudaArray(pointer, nbytes), device="cuda")


def recorded(work: Callable[[], None]) -> Callable[[], None]:
    """Record work as a CUDA graph; return its replay. A capture that fails leaves torch's random generator unusable."""
    import torch

    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        graph.capture_begin(capture_error_mode="thread_local")
        work()
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(side)
    return graph.replay


class L2Cache:
    """Makes a GPU's L2 cache cold: it holds no useful and no dirty line afterwards."""

    def __init__(self, driver: Driver):
        import torch

        self._driver = driver
        l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
        self._sweep = torch.zeros(FLUSH_FACTOR * l2_bytes // 4, dtype=torch.int32, device="cuda")

    def prepare(self) -> None:
        """Release any persisting carve-out; these calls of the driver take some time of the host."""
        import torch

        self._driver.reset_persisting_l2(torch.cuda.current_stream().cuda_stream)

    def flush(self) -> None:
        """Overwrite twice the cache's size, then read it back clean."""
        self._sweep.add_(1)
        self._sweep.max()


class CudaTimer(Timer):
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

        call = self.prepared(call, [slot], replay=False)
        start, end = self._driver.event(), self._driver.event()
        self._driver.synchronise()
        submitted = self._now()
        start.record(torch.cuda.current_stream().cuda_stream)
        output = call(slot)
        end.record(torch.cuda.current_stream().cuda_stream)
        submit_ns = self._now() - submitted
        self._driver.synchronise()
        return TimedCall(t_event_ns=round(end.ns_since(start)), t_submit_ns=submit_ns, output=output)

    def prepared(self, call: Call, slots: Sequence[int], *, replay: bool) -> Call:
        """Return the call; for `replay` or in `graph` mode, the replay of a graph per slot, with poisoned outputs."""
        return self._replayed(call, slots) if replay or self._graph else call

    def forget(self) -> None:
        """Release captured graphs."""
        self._captured.clear()

    def _replayed(self, call: Call, slots: Sequence[int]) -> Call:
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
            for leaf in tensors(self._captured[slot][1]):
                if leaf.is_floating_point():
                    poison_floats(leaf)

        def replay(slot: int) -> Any:
            graph, output = self._captured[slot]
            graph.replay()
            return output

        return replay
