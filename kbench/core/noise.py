"""How far a speed-up of one process may be from another process's: what is known of a number without an interval."""

import math
from collections.abc import Sequence

from kbench.core.stats import median_interval

BETWEEN: dict[str, tuple[tuple[float, float], ...]] = {
    "cuda": ((0.0, 0.003),),
    "cpu": ((1e6, 0.013), (2e5, 0.026), (0.0, 0.38)),
}
"""By device, from which time per call (ns) on: the sd of log ratios between processes, before anything else is known.

GPU: the largest of `results/calibration` and of six processes in `results/h200`, 0.1 to 8 ms; shorter calls were not
measured. CPU (docs/statistics.md): 1.3 % at 1.2 ms; twice that down to 0.2 ms is chosen; 1.1x to 2.1x below.
"""
WITHIN_95 = 1.96
FEWEST_PAIRS = 2


def of_one_process(log_ratios: Sequence[float], device: str, time_ns: float) -> float | None:
    """Return half the width of a 95 % interval for the speed-up of one process, as a share of it.

    Of the spread of its own pairs and of what processes are known to differ by. None for too few pairs.
    """
    if len(log_ratios) < FEWEST_PAIRS:
        return None
    interval = median_interval(log_ratios)
    own = interval.half_width if interval is not None else (max(log_ratios) - min(log_ratios)) / 2
    between = next(sd for least_ns, sd in BETWEEN.get(device, BETWEEN["cpu"]) if time_ns >= least_ns)
    return math.expm1(math.hypot(own, WITHIN_95 * between))
