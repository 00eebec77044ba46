"""Known differences between the speed-ups of two processes, for a number without an interval."""

import math
from collections.abc import Collection, Sequence

from kbench.core.stats import median_half_width

BETWEEN: dict[str, tuple[tuple[float, float], ...]] = {
    "cuda": ((20e3, 0.006), (0.0, 0.05)),
    "cpu": ((1e6, 0.025), (2e5, 0.06), (0.0, 0.15)),
}
"""By device, (least time per call in ns, half the 95 % width of the difference between processes as a log ratio).
GPU: the largest spread in `results/calibration`; below 20 µs contexts differ by 5 %. CPU: docs/statistics.md."""
BY_FLAG = {"host_bound": 0.05, "host_synchronising": 0.05, "reference_unqueued": 0.3}
"""Half-widths by flag, where the host decides how long a GPU takes. KernelBench 1/71 (1,890 launches a call) read
0.94x to 1.07x against itself in six verdicts; references that wait for the device (2/83, 2/93, 3/30) 0.71x to 1.05x, a
standard deviation of 13 % (`reference_unqueued` in results/calibration/sweep_{h100,h200}.csv and an earlier sweep)."""
FEWEST_PAIRS = 2


def of_one_process(
    log_ratios: Sequence[float], device: str, time_ns: float, flags: Collection[str] = ()
) -> float | None:
    """Return half the width of a 95 % interval for the speed-up of one process, as a share; None for too few pairs."""
    if len(log_ratios) < FEWEST_PAIRS:
        return None
    return math.expm1(math.hypot(median_half_width(log_ratios), between_processes(device, time_ns, flags)))


def between_processes(device: str, time_ns: float, flags: Collection[str] = ()) -> float:
    """Return half the 95 % width of the difference between the speed-ups of two processes, as a log ratio."""
    between = next(half for least_ns, half in BETWEEN[device] if time_ns >= least_ns)
    return max([between, *(BY_FLAG.get(flag, 0.0) for flag in flags)])
