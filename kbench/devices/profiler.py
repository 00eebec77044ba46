"""Which device kernels one call launches and when they ran, as CUPTI saw it through torch's profiler."""

from collections.abc import Callable
from typing import Any

MOST_KERNELS = 4096
MOST_LETTERS = 300


def profile(call: Callable[[], Any], prepare: Callable[[], Any]) -> tuple[Any, list[tuple[str, int, int]]]:
    """Call once; return what it returned and (name, start in ns, duration in ns) of everything on the device.

    `prepare` runs just before the call and is not in the profile. Start times count from the first kernel.
    The list is empty where CUPTI is missing or another tool holds it.
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
        (e.name[:MOST_LETTERS], round(1e3 * (e.time_range.start - first)), round(1e3 * e.time_range.elapsed_us()))
        for e in events
    ]
    return output, sorted(activities, key=lambda activity: activity[1])[:MOST_KERNELS]
