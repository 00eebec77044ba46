"""Calls of a solution under torch's profiler, and what its own process knows besides: libraries, compiled kernels."""

import contextlib
import dataclasses
import heapq
import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from kbench.build.cache import ENVIRONMENT_FOLDERS
from kbench.core.trace import (
    LONGEST_NAME,
    MOST_LAUNCHES,
    MOST_NAMES,
    CallTrace,
    KernelResources,
)
from kbench.devices import toolkit
from kbench.devices.backend import backend
from kbench.devices.profiler import CALL, CUOBJDUMP, resources, shape_of, shortest_call
from kbench.worker.stages import Stage

WARM_UP = 2
MOST_CALLS = 20
PROFILED = 5
LONG_S = 1.0
"""Chosen. Calls are repeated for so long; one that takes longer is repeated once."""


def answer(model: Callable[..., Any], inputs: Sequence[Any], device: str, *, counters: bool) -> dict[str, Any]:
    """Return a trace for the parent; with `counters` a tool around this process looks at a call, and there is none."""

    def call() -> Any:
        with Stage("forward"):
            return model(*inputs)

    if counters:
        under_counters(call, device)
        return {}
    return {"trace": dataclasses.asdict(trace(call, device))}


def trace(call: Callable[[], Any], device: str) -> CallTrace:
    """Call some times without the profiler, then some times with it, and sum up what it saw."""
    import torch

    on = backend(device)
    for _ in range(WARM_UP):
        call()
    on.synchronize()
    call_ns = _time(call, on.synchronize, in_a_row=on.queues_calls)
    kinds = [torch.profiler.ProfilerActivity.CPU]
    kinds += [torch.profiler.ProfilerActivity.CUDA] if on.names_kernels else []
    with torch.profiler.profile(activities=kinds):  # the first use in a process sets the profiler up
        call()
        on.synchronize()
    with torch.profiler.profile(activities=kinds) as profiler:
        for _ in range(PROFILED if call_ns < 1e9 * LONG_S else 1):
            with torch.profiler.record_function(CALL):
                call()
            on.synchronize()
    document = _document(profiler)
    seen = shortest_call(document.get("traceEvents", []))
    compiled, remark = _resources(on.names_kernels)
    return CallTrace(
        call_ns=round(call_ns),
        profiled_ns=seen.host_ns,
        launches=tuple(heapq.nlargest(MOST_LAUNCHES, seen.launches, key=attrgetter("duration_ns"))),
        operators=tuple(heapq.nlargest(MOST_NAMES, seen.operators, key=attrgetter("self_ns"))),
        runtime_calls=tuple(heapq.nlargest(MOST_NAMES, seen.runtime_calls, key=attrgetter("self_ns"))),
        resources=tuple(compiled[:MOST_NAMES]),
        shape=shape_of(document.get("deviceProperties", [])),
        built_libraries=len(built_libraries()),
        cut=len(seen.launches) > MOST_LAUNCHES,
        remark=remark,
    )


def under_counters(call: Callable[[], Any], device: str) -> None:
    """Call once where a tool reads hardware counters, after calls that it does not look at."""
    on = backend(device)
    for _ in range(WARM_UP):
        call()
    on.synchronize()
    with on.counted():
        call()
        on.synchronize()


def built_libraries() -> list[Path]:
    """Return the shared libraries that this process has mapped from the folders that kbench builds in."""
    folders = [os.environ[name] for name in ENVIRONMENT_FOLDERS if name in os.environ]
    mapped = {line.split(maxsplit=5)[-1] for line in Path("/proc/self/maps").read_text().splitlines() if ".so" in line}
    # A library built in /tmp may be mapped from another path.
    roots = (*folders, tempfile.gettempdir())
    return sorted(Path(path) for path in mapped if path.startswith(roots))


def _time(call: Callable[[], Any], synchronize: Callable[[], None], *, in_a_row: bool) -> float:
    """Return the time of a call in ns: the mean where the host may submit ahead of the device, else the shortest."""
    stamps = [time.perf_counter_ns()]
    while len(stamps) == 1 or (len(stamps) <= MOST_CALLS and stamps[-1] - stamps[0] < 1e9 * LONG_S):
        call()
        stamps.append(time.perf_counter_ns())
    if not in_a_row:
        return min(after - before for before, after in itertools.pairwise(stamps))
    synchronize()
    return (time.perf_counter_ns() - stamps[0]) / (len(stamps) - 1)


def _document(profiler: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        document = json.loads(path.read_text(errors="replace"))
    return document if isinstance(document, dict) else {}


def _resources(names_kernels: bool) -> tuple[list[KernelResources], str]:
    """Return what compiled kernels of the solution's own say of themselves, and why that is not known."""
    if not names_kernels:
        return [], ""
    tool = toolkit.find(CUOBJDUMP)
    if tool is None:
        return [], f"spills are not known: {CUOBJDUMP} of the CUDA toolkit is not installed"
    import torch

    cubins = Path(os.environ.get("TRITON_CACHE_DIR", os.devnull)).rglob("*.cubin")
    found = []
    for each in resources(tool, [*built_libraries(), *cubins]):
        name = each.name
        with contextlib.suppress(RuntimeError):
            name = torch._C._demangle(each.name)  # noqa: SLF001 - as Kineto does it
        found.append(dataclasses.replace(each, name=name[:LONGEST_NAME]))
    return found, ""
