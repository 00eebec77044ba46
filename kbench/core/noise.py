"""How much the speed-ups of two processes may differ: all that is known about a number without an interval."""

import math
from collections.abc import Collection, Sequence

from kbench.core.stats import median_interval

BETWEEN: dict[str, tuple[tuple[float, float], ...]] = {
    "cuda": ((20e3, 0.006), (0.0, 0.05)),
    "cpu": ((1e6, 0.025), (2e5, 0.06), (0.0, 0.15)),
}
"""By device: from which time per call (ns), half the 95 % width of the difference between processes, as log ratios.

GPU: the largest spread of six processes in `results/calibration` (0.1 to 8 ms); below 20 us contexts of one device
differ by 5 %. CPU (docs/statistics.md): 2.5 % at 1.2 ms, 4 % at 0.5 ms; 3.3 % at 0.09 ms, of one machine only.
"""
BY_FLAG = {"host_bound": 0.05, "host_synchronising": 0.05, "reference_unqueued": 0.3}
"""By flag, the same where the host decides how long a GPU takes: its launches, or that it waits for results, bound it.

One call of cuDNN's FFT convolution is 1,890 launches of 4.4 us (KernelBench 1/71): 8.24 and 8.65 ms in two processes
on an H200, each known to 0.3 % in its process, and 0.94x to 1.07x in six verdicts. References that wait for the
device in each call (2/83, 2/93, 3/30) read 0.71x to 1.05x against themselves, on busy processors: a standard deviation
of 13 % in nine verdicts (`reference_unqueued` in results/calibration/sweep_{eager_h200,h100,h200}.csv).
"""
FEWEST_PAIRS = 2


def of_one_process(
    log_ratios: Sequence[float], device: str, time_ns: float, flags: Collection[str] = ()
) -> float | None:
    """Return half the width of a 95 % interval for the speed-up of one process, as a share of it.

    It combines the spread of its own pairs with the known difference between processes. None for too few pairs.
    """
    if len(log_ratios) < FEWEST_PAIRS:
        return None
    interval = median_interval(log_ratios)
    own = interval.half_width if interval is not None else (max(log_ratios) - min(log_ratios)) / 2
    return math.expm1(math.hypot(own, between_processes(device, time_ns, flags)))


def between_processes(device: str, time_ns: float, flags: Collection[str] = ()) -> float:
    """Return half the 95 % width of the difference between the speed-ups of two processes, as a log ratio."""
    between = next(half for least_ns, half in BETWEEN[device] if time_ns >= least_ns)
    return max([between, *(BY_FLAG.get(flag, 0.0) for flag in flags)])
