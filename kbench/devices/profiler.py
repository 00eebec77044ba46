"""Reports of torch's profiler (Kineto, CUPTI) about a call, and of `cuobjdump` about compiled kernels.

A trace's fields: `output_json.cpp` and `CuptiActivity.cpp` of Kineto; its times are in µs.
"""

import math
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kbench.core.trace import LONGEST_NAME, MOST_LAUNCHES, DeviceActivity, DeviceShape, HostActivity, KernelResources


def profile(call: Callable[[], Any], prepare: Callable[[], Any]) -> tuple[Any, list[tuple[str, int, int]]]:
    """Call once; return the result and (name, start in ns, duration in ns) of every activity on the device.

    `prepare` runs before, unprofiled. Starts count from the first kernel; none if CUPTI is missing or in use.
    """
    import torch
    from torch._C._autograd import DeviceType
    from torch.profiler import ProfilerActivity

    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]):
        torch.cuda.synchronize()  # the first use in a process sets CUPTI up
    prepare()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as profiler:
        output = call()
        torch.cuda.synchronize()
    events = [e for e in profiler.events() if e.device_type == DeviceType.CUDA]
    first = min((e.time_range.start for e in events), default=0)
    activities = [
        (e.name[:LONGEST_NAME], round(1e3 * (e.time_range.start - first)), round(1e3 * e.time_range.elapsed_us()))
        for e in events
    ]
    return output, sorted(activities, key=lambda activity: activity[1])[:MOST_LAUNCHES]


CUOBJDUMP = "cuobjdump"
LIMIT_S = 60.0
MOST_FILES = 32
LINE = re.compile(r"Function (?P<name>\S+?):\s+REG:(?P<registers>\d+) STACK:(?P<stack>\d+)")
"""A line of `-res-usage` (CUDA Binary Utilities). STACK has spilled registers and local arrays of one thread."""


def parse_resources(text: str) -> dict[str, KernelResources]:
    """Read the tool's text; for a kernel of several architectures, the last and newest one."""
    return {
        found["name"]: KernelResources(
            name=found["name"][:LONGEST_NAME], registers=int(found["registers"]), stack_bytes=int(found["stack"])
        )
        for found in LINE.finditer(text)
    }


def resources(tool: Path, files: Iterable[Path]) -> Iterator[KernelResources]:
    """Yield the kernels in shared libraries and cubins, by their mangled names; files without kernels are skipped."""
    for file in sorted(files)[:MOST_FILES]:
        try:
            done = subprocess.run(
                [tool, "-res-usage", str(file)], capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        yield from parse_resources(done.stdout).values()


CALL = "kbench::call"
"""The annotation around a profiled call."""
NOTE = "user_annotation"
ON_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
SHAPE = {
    "computeMajor": "major",
    "computeMinor": "minor",
    "numSms": "sms",
    "maxThreadsPerMultiprocessor": "threads_per_sm",
    "regsPerMultiprocessor": "registers_per_sm",
    "sharedMemPerMultiprocessor": "shared_bytes_per_sm",
}
"""Fields of a `DeviceShape`, by Kineto's names."""
NONE = (0,)
"""Size in blocks or threads of a copy, which has neither."""
OPERATORS = frozenset({"cpu_op", NOTE})
RUNTIME_KINDS = frozenset({"cuda_runtime", "cuda_driver"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedCall:
    """One annotated call."""

    host_ns: int = 0
    launches: list[DeviceActivity] = field(default_factory=list)
    """Activities sorted by start, counted from the first one."""
    operators: list[HostActivity] = field(default_factory=list)
    runtime_calls: list[HostActivity] = field(default_factory=list)


def shortest_call(events: Sequence[Mapping[str, Any]]) -> TracedCall:
    """Return the annotated call whose host part is the shortest; an empty one without calls.

    An activity on the device belongs to the last call that began before it, because a wait follows each call.
    """
    timed = [event for event in events if event.get("ph") == "X"]
    spans = sorted((event for event in timed if event.get("name") == CALL and event.get("cat") == NOTE), key=_start)
    if not spans:
        return TracedCall()
    ends = [*(_start(span) for span in spans[1:]), math.inf]
    span, until = min(zip(spans, ends, strict=True), key=lambda pair: float(pair[0]["dur"]))
    begin, end = _start(span), _start(span) + float(span["dur"])
    device = [event for event in timed if event.get("cat") in ON_DEVICE and begin <= _start(event) < until]
    first = min(map(_start, device), default=0.0)
    host = [event for event in timed if begin <= _start(event) <= end]
    operators = [event for event in host if event.get("cat") in OPERATORS and event.get("tid") == span.get("tid")]
    return TracedCall(
        host_ns=round(1e3 * float(span["dur"])),
        launches=sorted((_activity(event, first) for event in device), key=lambda activity: activity.start_ns),
        operators=_together(_self_times(operators)),
        runtime_calls=_together((event, float(event["dur"])) for event in host if event.get("cat") in RUNTIME_KINDS),
    )


def shape_of(properties: Sequence[Mapping[str, Any]]) -> DeviceShape | None:
    """Return the shape of a trace's first device; None if the trace lacks it, as on a processor."""
    device = properties[0] if properties else {}
    known = [device.get(name) for name in SHAPE]
    if not all(isinstance(value, int) for value in known):
        return None
    return DeviceShape(**{ours: int(device[theirs]) for theirs, ours in SHAPE.items()})


def _activity(event: Mapping[str, Any], first: float) -> DeviceActivity:
    fields = event.get("args", {})
    return DeviceActivity(
        name=str(event["name"])[:LONGEST_NAME],
        start_ns=round(1e3 * (float(event["ts"]) - first)),
        duration_ns=round(1e3 * float(event["dur"])),
        blocks=math.prod(map(int, fields.get("grid") or NONE)),
        threads=math.prod(map(int, fields.get("block") or NONE)),
        registers=int(fields.get("registers per thread", 0)),
        shared_bytes=int(fields.get("shared memory", 0)),
    )


def _start(event: Mapping[str, Any]) -> float:
    return float(event["ts"])


def _self_times(events: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], float]]:
    """Return each event of one thread with its time without the events inside it."""
    ordered = sorted(events, key=lambda event: (_start(event), -float(event["dur"])))
    own = [float(event["dur"]) for event in ordered]
    open_ones: list[int] = []
    for number, event in enumerate(ordered):
        while open_ones and _start(event) >= _start(ordered[open_ones[-1]]) + float(ordered[open_ones[-1]]["dur"]):
            open_ones.pop()
        if open_ones:
            own[open_ones[-1]] -= float(event["dur"])
        open_ones.append(number)
    # The time of the annotation itself belongs to no operator.
    return [(event, max(0.0, time_us)) for event, time_us in zip(ordered, own, strict=True) if event["name"] != CALL]


def _together(events: Iterable[tuple[Mapping[str, Any], float]]) -> list[HostActivity]:
    found: dict[str, tuple[int, float]] = {}
    for event, time_us in events:
        count, total_us = found.get(str(event["name"]), (0, 0.0))
        found[str(event["name"])] = count + 1, total_us + time_us
    return [
        HostActivity(name=name[:LONGEST_NAME], count=count, self_ns=round(1e3 * time_us))
        for name, (count, time_us) in found.items()
    ]
