"""Time that a run may measure, and the advice to give more."""

import math

DEFAULT_S = 20.0
"""Seconds to measure each solution and case. Chosen: how long a person waits for an answer."""
WORTH_S = 600.0
"""Chosen. Above this need of time, a quieter device or a larger case helps more."""
ENOUGH_PROCESSES = 5
"""Number of processes from which one more narrows an interval by less than a tenth."""
FAR_OFF = 4.0
"""Factor on the budget: an estimate of the needed time from few processes is off by as much."""
MARGIN = 1.2
"""Factor by which another run may take longer."""


def affords_more(measured_s: float, processes: int, budget_s: float) -> bool:
    """Return whether one more process fits the budget, if it takes as long as those so far."""
    return measured_s * (processes + 1) / processes <= budget_s


def is_far_off(half_width: float, precision: float, measured_s: float, processes: int, budget_s: float) -> bool:
    """Return whether the rest of the budget cannot reach the precision: widths fall with the root of the processes."""
    wanted_s = measured_s * (half_width / precision) ** 2
    return processes >= ENOUGH_PROCESSES and wanted_s > FAR_OFF * budget_s


def advice(half_width: float, precision: float, measured_s: float, processes: int) -> str:
    """Return how wide the interval stayed, and which `--budget` would reach the requested precision (shares)."""
    stopped = f"stopped after {measured_s:.0f} s of measuring, {processes} processes, at ± {100 * half_width:.2g} %"
    wanted_s = measured_s * (half_width / precision) ** 2
    if wanted_s > WORTH_S:
        return f"{stopped}; more time would not help much: try a quieter device or a larger case"
    wanted = math.ceil(processes * wanted_s / measured_s)
    options = f"--budget {_rounded(wanted_s * MARGIN)}s --max-processes {wanted}"
    return f"{stopped}; `{options}` would bring about ± {100 * precision:.2g} %"


def _rounded(seconds: float) -> int:
    """Round up to two digits."""
    unit = int(10 ** max(0, math.floor(math.log10(max(1.0, seconds))) - 1))
    return math.ceil(seconds / unit) * unit
