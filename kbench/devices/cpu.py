"""The processor as a device: a sealed memfd is shared, the monotonic clock times."""

import fcntl
import mmap
import os
import platform
import time
from typing import Any

from kbench.core.model import Environment
from kbench.devices import selection
from kbench.devices.compute_threads import ComputeThreads
from kbench.devices.interface import Backend, Call, SharedMemory, TimedCall, Timer

VECTOR_MATH = """
acos acosh asin asinh atan atanh cos cosh erf erfc erfinv exp exp2 expm1 lgamma log log10 log1p log2 rsqrt sigmoid sin
sinh sqrt tan tanh
""".split()  # noqa: SIM905 - as lines they can be read
"""Functions of torch that call a vector function of MKL."""


class Cpu(Backend):
    """The backend of `cpu`."""

    kind = "cpu"
    has_own_memory = False
    queues_calls = False
    names_kernels = False
    preferred_cases = ("cpu", "small", "default")

    def settle(self) -> None:
        """Call each vector function of MKL once, in one thread.

        The first call chooses the code for this processor. If two threads make it at once, one of them may get code
        with half the digits (torch 2.13, MKL 2024.2; tests/devices/test_cpu.py has the figures).
        """
        import torch

        for dtype in (torch.float32, torch.float64):
            one = torch.full((1,), 0.5, dtype=dtype)
            for name in VECTOR_MATH:
                getattr(torch, name)(one)

    def identify(self) -> Environment:
        """Describe the processor and the software around it."""
        import torch

        processor = selection.cpu()
        return Environment(
            device=self.kind,
            gpu_name=processor.name,
            gpu_uuid=processor.uuid,
            driver=platform.release(),
            cuda="",
            torch=torch.__version__,
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        )

    def timer(self, mode: str) -> "HostTimer":  # noqa: ARG002
        """Return the monotonic clock; a CPU has no graphs, and its cache is not flushed."""
        return HostTimer()

    def synchronize(self) -> None:
        """Do nothing: a call is over when it returns."""

    def allocate(self, nbytes: int) -> SharedMemory:
        """Allocate a file in memory that cannot shrink: otherwise a worker could kill the judge by SIGBUS."""
        fd = os.memfd_create("kbench", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, nbytes)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return self.attach({"kind": self.kind, "nbytes": nbytes}, fd)

    def attach(self, descriptor: dict[str, Any], fd: int | None) -> SharedMemory:
        """Map a file in memory."""
        import torch

        assert fd is not None, "a memfd block travels with its descriptor"
        mapped = torch.frombuffer(mmap.mmap(fd, descriptor["nbytes"]), dtype=torch.uint8)
        return SharedMemory(bytes=mapped, descriptor=descriptor, fd=fd, release=lambda: os.close(fd))


class HostTimer(Timer):
    """The monotonic clock around a call."""

    name = "host"

    def __init__(self) -> None:
        self._now = time.perf_counter_ns  # now, before any solution is imported
        self._threads = ComputeThreads()

    def start(self) -> None:
        """Put each computing thread on a processor of its own."""
        self._threads.spread()

    def measure(self, call: Call, slot: int) -> TimedCall:
        """Call once; submit time and call time are equal here."""
        start = self._now()
        output = call(slot)
        elapsed_ns = self._now() - start
        return TimedCall(t_event_ns=elapsed_ns, t_submit_ns=elapsed_ns, output=output)
