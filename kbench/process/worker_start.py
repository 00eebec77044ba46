"""Start workers: what they may use and see, and a process that makes itself ready before it gets a solution."""

import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from kbench.build import cache as build_cache
from kbench.build import interpreter
from kbench.core.events import RunOptions
from kbench.core.model import Status
from kbench.process.channel import Message
from kbench.process.child import WORKER, Child, Launch
from kbench.process.child_error import ChildError
from kbench.process.gate_page import Gate
from kbench.sandbox import hidden_paths, libc, removal, rungs
from kbench.sandbox.namespaces import Surroundings
from kbench.sandbox.process_table import ClosedCensus

T = TypeVar("T")
SETUP_TIMEOUT_S = 120.0
IMPORTS = {
    "": (),
    "programs": (),
    "kernels": ("triton",),
    "graphs": ("torch._dynamo", "torch._inductor.compile_fx"),
}
"""By what a solution compiles with in its calls (`build.observation.compiler_of`), what takes seconds to import."""
MEMORY_SHARE = 0.8
MEMORY_FLOOR_BYTES = 6 << 30
MEMORY_PER_CASE = 12
KEPT_VARIABLES = (
    *("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "CC", "CXX"),
    *("CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "TRITON_INTERPRET"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """A point in time on a clock that may stand still; the clock is None while it does."""

    limit_s: float
    """Seconds until then when it was set."""
    at_s: float
    clock: Callable[[], float | None] = time.monotonic

    @property
    def left_s(self) -> float:
        """Seconds until then; there is no end to them while the clock stands still."""
        now_s = self.clock()
        return math.inf if now_s is None else max(0.0, self.at_s - now_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """Settings of a judge's workers."""

    device: str
    rung: int
    scratch: str
    options: RunOptions = field(default_factory=RunOptions)
    threads: int = 1
    case_bytes: int = 0
    """Inputs, outputs and parameters of one call."""
    deadline: Deadline | None = None
    """Deadline of the present solution, for all requests to its worker."""
    cache: str = ""
    home: str = ""
    """Folder for what the judge's own reference compiles."""
    files: list[str] = field(default_factory=list)
    """Folders of results and builds, which workers must not read, and the solutions and problem that they need."""
    uuid: str = ""
    """UUID of the device that the judge shares with other processes; empty where it does not wait for them."""
    leases: str = ""
    """Folder of the device's locks."""
    holder: str = ""
    """Name of the judge's parent, for processes that wait."""
    compilers: list[str] = field(default_factory=list)
    """Compilers of the solutions that are expected first: their workers start at once."""


STEADY_HOST = {
    # OpenMP threads that spin while they wait lose their turn on a shared processor: PyTorch's LayerNorm, 40 µs on its
    # own, took 15 ms beside other programs (2 threads on 2 busy cores).
    "OMP_WAIT_POLICY": "PASSIVE",
    # Not at once, though: a thread that sleeps between two operations may wake up on the other one's processor, where
    # the first of a burst had one each (`compute_threads`). 15,000 are about 0.2 ms.
    "GOMP_SPINCOUNT": "15000",
    # Freed memory is used again, whatever its size, as on a GPU. Fresh pages took 80 to 95 % of a call with 64 MB of
    # results, and two or three times as long from one place of memory as from another.
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
}
"""Environment of judges and workers, so that a CPU's times depend less on what else the machine does."""


def worker_environment(scratch: Path) -> dict[str, str]:
    """Return the whole environment of a worker: nothing of the caller's but what compilers and CUDA need."""
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    places = [str(Path(sys.executable).parent), *kept.get("PATH", os.defpath).split(os.pathsep)]
    return {
        **kept,
        **STEADY_HOST,
        # torch looks for ninja on PATH, where an environment's own is only once that is activated.
        "PATH": os.pathsep.join(dict.fromkeys(places)),
        "PYTHONPATH": interpreter.search_path(),
        **build_cache.compiler_environment(scratch / "cache"),
        "TMPDIR": str(scratch),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        **interpreter.bytecode(),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        # Whole cached graphs hold the absolute paths of the process that made them; kernels and choices do not.
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
        "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
        "USER": "kbench",
    }


def hidden(config: WorkerConfig) -> list[Path]:
    """Return what a worker that starts now must not read."""
    others = [Path(folder) for folder in (config.cache, config.leases, config.scratch) if folder]
    return hidden_paths.hidden(results=config.options.results_dir, others=others, files=[*map(Path, config.files)])


@dataclass(frozen=True, kw_only=True)
class Confinement:
    """The folders and files that one worker may write and see."""

    device: str
    rung: int
    home: Path
    """The folder that it runs in."""
    writable: Sequence[Path]
    temporary: Path
    """The folder that becomes its /tmp."""
    files: Sequence[Path]
    """The solution and the problem, and what else it must read."""
    hidden: Sequence[Path]

    @cached_property
    def surroundings(self) -> Surroundings:
        """The contents of its /tmp."""
        return hidden_paths.surroundings(self.temporary, own=self.writable, files=self.files, hidden=self.hidden)

    def launch(self, environment: Mapping[str, str], module: str = WORKER, limit_bytes: int | None = None) -> Launch:
        """Return how it is started, with `environment` beside the usual one and a limit of its memory."""
        return Launch(
            module=module,
            environment={**worker_environment(self.home), **environment},
            folder=self.home,
            rung=rungs.Rung(self.rung),
            surroundings=self.surroundings,
            memory_limit_bytes=limit_bytes,
        )

    def setup(self, *, allow_exec: bool, threads: int, **other: Any) -> Message:
        """Return the first request to it: to lock itself in."""
        return {
            "op": "setup",
            "caller": str(Path.cwd()),
            "device": self.device,
            "rung": self.rung,
            "writable": [str(path) for path in self.writable],
            "temporary": str(self.temporary),
            "hidden": [str(path) for path in self.hidden],
            "allow_exec": allow_exec,
            "threads": threads,
            **other,
        }


class WorkerProcess(Child):
    """A worker that locks itself in as soon as it starts; it has not heard of any solution.

    Only its `compiler` depends on the solution that it gets: it may start that, if any, and imports it ahead.
    """

    def __init__(self, config: WorkerConfig, nursery: Child, number: int, *, compiler: str):
        self.compiler = compiler
        self.scratch = Path(config.scratch) / f"worker-{os.getpid()}-{number}"
        self.scratch.mkdir(parents=True)
        place = Confinement(
            device=config.device,
            rung=config.rung,
            home=self.scratch,
            writable=[self.scratch],
            temporary=build_cache.furnish(self.scratch / "cache"),
            files=[Path(file) for file in config.files],
            hidden=hidden(config),  # now, not once for the run: others begin meanwhile
        )
        super().__init__(place.launch({}), nursery)
        setup = place.setup(allow_exec=bool(compiler), threads=config.threads, imports=IMPORTS[compiler])
        self.gate: Gate | None = None
        """The gate of a worker on a GPU that has been asked to open it."""

        def locked_in() -> Message:
            answer = self.request(setup, timeout_s=SETUP_TIMEOUT_S)
            if config.rung >= rungs.Rung.LIMITS and not setup["allow_exec"]:
                self._closed = ClosedCensus(self.pid)  # a filter of system calls lets it start no process
            return answer

        self._setup = self._opening = in_thread(locked_in)

    def open(self, mode: str, *, queues_calls: bool) -> None:
        """Have it open the device, once, when it is ready: `wait` returns after that."""
        if self._opening is not self._setup:
            return
        self.gate = Gate() if queues_calls else None
        fds = [self.gate.fd] if self.gate is not None else []

        def opened() -> Message:
            self._setup.result()
            return self.request({"op": "open", "mode": mode}, fds=fds, timeout_s=SETUP_TIMEOUT_S)

        self._opening = in_thread(opened)

    @property
    def is_ready(self) -> bool:
        """True once the worker has locked itself in and imported what it was to, or has failed to."""
        return self._setup.done()

    def settle(self) -> None:
        """Return when the worker has opened the device, or has failed to, where it was asked to."""
        if self._opening is not self._setup:
            wait([self._opening])

    def wait(self, timeout_s: float) -> None:
        """Return when the worker has done what it was asked so far. Raises ChildError where it has not in time."""
        try:
            self._opening.result(timeout_s)
        except TimeoutError as error:
            reason = f"not ready within {timeout_s:.0f} s"
            raise ChildError(Status.CALL_TIMEOUT, reason, self.log) from error

    def kill(self) -> None:
        """Kill the worker and all that it started; its scratch folder goes with it."""
        super().kill()
        removal.remove(self.scratch)
        if self.gate is not None:
            self.gate.close()
        self.gate = None


def in_thread(request: Callable[[], T]) -> Future[T]:
    """Make a request in a thread of its own."""
    thread = ThreadPoolExecutor(max_workers=1)
    answer = thread.submit(request)
    thread.shutdown(wait=False)
    return answer


def memory_limit_bytes(case_bytes: int = 0) -> int:
    """Return the limit of a worker's host memory: enough for any honest use, and a share of what is free.

    On a CPU the inputs and outputs themselves (`case_bytes`) lie there, several times over. Memory that this process
    has freed and kept (STEADY_HOST) is given back first.
    """
    libc.call("malloc_trim", 0)
    return at_most_available(MEMORY_FLOOR_BYTES + MEMORY_PER_CASE * case_bytes)


def at_most_available(limit_bytes: int) -> int:
    """Return a limit of a process's host memory, which leaves other processes a share of what is free now."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return min(limit_bytes, int(int(line.split()[1]) * 1024 * MEMORY_SHARE))
    return limit_bytes
