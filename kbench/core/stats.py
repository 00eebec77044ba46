"""Estimators and intervals for paired timings, in log units: d = log(t_candidate / t_reference), 0.01 is 1 % slower.

The process is the unit of replication: an interval from samples of one process is too narrow (docs/statistics.md).
The tests compare Student's t distribution with scipy.
"""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kbench.core.model import Sample, Timing

STEADY_SHARE = 0.8
"""Share of marked pairs from which all pairs count: the calls themselves bring the device to its power cap."""
CONFIDENCE = 0.99
"""Probability with which each bound of a verdict holds, and a slow-down of the detectable size is found."""
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
_erfc = np.frompyfunc(math.erfc, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A confidence interval over `processes`."""

    low: float
    centre: float
    high: float
    processes: int

    def as_speedup(self) -> "Interval":
        """Turn log(t_candidate / t_reference) into t_reference / t_candidate; the ends change places."""
        return replace(self, low=math.exp(-self.high), centre=math.exp(-self.centre), high=math.exp(-self.low))

    @property
    def half_width(self) -> float:
        """Half the distance between the ends, in the interval's own unit."""
        return (self.high - self.low) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two neighbouring calls of one block. A pair is marked if one of its samples is."""

    log_ratio: float
    marked: bool


def pairs(samples: Iterable[Sample]) -> list[Pair]:
    """Pair candidate and reference of one process in each block, in order of time: in ABBA, partners are neighbours.

    A sample without a partner is left out. Raises ValueError for several processes, or a time that is not positive.
    """
    blocks: dict[int, tuple[list[Sample], list[Sample]]] = {}
    processes = set()
    for sample in sorted(samples, key=lambda s: s.sequence):
        if sample.arm not in {"candidate", "reference"}:
            continue
        if sample.t_event_ns <= 0:
            raise ValueError(f"sample {sample.sequence} has a time of {sample.t_event_ns} ns")
        processes.add(sample.process)
        blocks.setdefault(sample.block, ([], []))[sample.arm == "reference"].append(sample)
    if len(processes) > 1:
        raise ValueError(f"samples of {len(processes)} processes cannot be paired with each other")
    return [
        Pair(log_ratio=math.log(top.t_event_ns / bottom.t_event_ns), marked=top.marked or bottom.marked)
        for tops, bottoms in blocks.values()
        for top, bottom in zip(tops, bottoms, strict=False)
    ]


Marked = TypeVar("Marked", Sample, Pair)


def counted(of_process: Iterable[Marked]) -> list[Marked]:
    """Return the samples (or pairs) of one process that are not marked; all, where `STEADY_SHARE` of them are."""
    found = list(of_process)
    return found if marked_share(found) >= STEADY_SHARE else [one for one in found if not one.marked]


def marked_share(of_process: Sequence[Sample] | Sequence[Pair]) -> float:
    """Share of a process's samples (or pairs) that are marked (0 for none)."""
    return sum(one.marked for one in of_process) / len(of_process) if of_process else 0.0


def pair_log_ratios(samples: Iterable[Sample]) -> list[float]:
    """Give log(t_candidate / t_reference) of every pair of one process that counts, in order of time."""
    return [pair.log_ratio for pair in counted(pairs(samples))]


def process_estimate(timing: Timing) -> float:
    """Median log ratio of those of one process's pairs that count. Raises ValueError if it has no pair."""
    ratios = pair_log_ratios(timing.samples)
    if not ratios:
        raise ValueError("no pair of samples")
    return float(np.median(ratios))


def arm_times_ns(samples: Iterable[Sample], arm: str = "candidate") -> NDArray[np.float64]:
    """Return the times of those of one arm's samples that count. Raises ValueError if the arm has no sample."""
    chosen = counted(sample for sample in samples if sample.arm == arm)
    if not chosen:
        raise ValueError(f"no samples of the arm `{arm}`")
    return np.array([sample.t_event_ns for sample in chosen], dtype=np.float64)


def ratio_interval(estimates: Sequence[float], confidence: float = 0.95) -> Interval:
    """Student's t interval over the estimates of processes, in log units. Raises ValueError for fewer than two."""
    count = len(estimates)
    if count < 2:
        raise ValueError("an interval over processes needs at least two")
    centre = float(np.mean(estimates))
    error = float(np.std(estimates, ddof=1)) / math.sqrt(count)
    half = t_quantile(0.5 + confidence / 2, count - 1) * error
    return Interval(low=centre - half, centre=centre, high=centre + half, processes=count)


def difference_interval(old: Sequence[float], new: Sequence[float], confidence: float = 0.95) -> Interval:
    """Welch's interval for mean(new) - mean(old) of two runs, in log units; degrees of freedom are rounded down.

    Raises ValueError for fewer than two processes on either side.
    """
    if min(len(old), len(new)) < 2:
        raise ValueError("an interval over processes needs at least two on each side")
    parts = [float(np.var(side, ddof=1)) / len(side) for side in (old, new)]
    centre = float(np.mean(new)) - float(np.mean(old))
    variance = sum(parts)
    half = 0.0
    if variance > 0:
        # Shares before squares: variances of equal processes are small enough to underflow.
        weights = sum((part / variance) ** 2 / (len(side) - 1) for part, side in zip(parts, (old, new), strict=True))
        freedom = math.floor(1 / weights + 1e-9)
        half = t_quantile(0.5 + confidence / 2, freedom) * math.sqrt(variance)
    return Interval(low=centre - half, centre=centre, high=centre + half, processes=min(len(old), len(new)))


def median_interval(values: Sequence[float]) -> Interval | None:
    """Distribution-free interval of the median at 95 % or more: two order statistics. None for fewer than 6 values."""
    ordered = sorted(values)
    count = len(ordered)
    rank = _order_statistic_rank(count)
    if rank is None:
        return None
    low, high = float(ordered[rank - 1]), float(ordered[count - rank])
    return Interval(low=low, centre=float(np.median(ordered)), high=high, processes=1)


def median_half_width(values: Sequence[float]) -> float:
    """Half the width of the median's interval; half the range of the values if they are too few for one."""
    interval = median_interval(values)
    return interval.half_width if interval is not None else (max(values) - min(values)) / 2


def timings_interval(timings: Sequence[Timing]) -> Interval | None:
    """Interval of log(t_candidate / t_reference) over processes at 95 %; None for fewer than two with a pair."""
    usable = [timing for timing in timings if pair_log_ratios(timing.samples)]
    return ratio_interval([process_estimate(timing) for timing in usable]) if len(usable) > 1 else None


def one_process_half_width(
    log_ratios: Sequence[float], device: str, time_ns: float, flags: Collection[str] = ()
) -> float | None:
    """Return half the width of a 95 % interval for the speed-up of one process, as a share; None for too few pairs."""
    if len(log_ratios) < 2:
        return None
    return math.expm1(math.hypot(median_half_width(log_ratios), between_processes(device, time_ns, flags)))


def between_processes(device: str, time_ns: float, flags: Collection[str] = ()) -> float:
    """Return half the 95 % width of the difference between the speed-ups of two processes, as a log ratio."""
    between = next(half for least_ns, half in BETWEEN[device] if time_ns >= least_ns)
    return max([between, *(BY_FLAG.get(flag, 0.0) for flag in flags)])


def needs_more_processes(estimates: Sequence[float], precision: float, minimum: int, maximum: int) -> bool:
    """Return whether a run continues: until the 95 % half-width is at most `precision`, a share.

    The width alone decides: stopping on a significant difference would multiply false alarms.
    """
    count = len(estimates)
    if count >= maximum:
        return False
    if count < max(minimum, 2):
        return True
    return ratio_interval(estimates).half_width > math.log1p(precision)


def worthwhile_precision(estimates: Sequence[float], precision: float) -> float:
    """Return the precision to measure one process to: the requested one, or the spread between processes (shares).

    That is the half-width of an interval over three processes: more pairs in each could not narrow it.
    """
    if len(estimates) < 2:
        return precision
    spread = float(np.std(estimates, ddof=1))
    return max(precision, t_quantile(0.975, 2) * spread / math.sqrt(3))


@lru_cache(maxsize=512)
def detection_factor(processes: int) -> float:
    """Smallest change between two runs that is flagged with CONFIDENCE, in units of the spread between processes.

    From the noncentral t distribution. Raises ValueError for fewer than two processes.
    """
    if processes < 2:
        raise ValueError("one process shows no spread between processes")
    freedom = 2 * (processes - 1)
    critical = t_quantile(CONFIDENCE, freedom)
    shift = _root_below(8.0 * (critical + 4.0), lambda nc: 1 - t_cdf(critical, freedom, nc) - CONFIDENCE)
    return shift * math.sqrt(2 / processes)


def detectable_effect(spread: float, processes: int) -> float:
    """Smallest slow-down, a share, that is called SLOWER with CONFIDENCE; `spread`: sd of estimates, in log units."""
    return math.expm1(detection_factor(processes) * spread)


@lru_cache(maxsize=1024)
def _order_statistic_rank(count: int) -> int | None:
    """Largest k such that the k-th smallest and the k-th largest value enclose the median at 95 %."""
    outside, below, rank = (1 - 0.95) / 2, 0.0, None
    for k in range(1, count // 2 + 1):
        below += math.comb(count, k - 1) / 2**count
        if below > outside:
            break
        rank = k
    return rank


def weighted_mean(ratios: Sequence[float], weights: Sequence[float]) -> float:
    """Return the geometric mean of ratios, each counted as often as its weight says."""
    logs = (weight * math.log(ratio) for ratio, weight in zip(ratios, weights, strict=True))
    return math.exp(math.fsum(logs) / math.fsum(weights))


def t_cdf(value: float, freedom: float, noncentrality: float = 0.0) -> float:
    """Distribution function of Student's t, also noncentral: the mean of Phi(x S - nc) over S = chi / sqrt(freedom).

    Over log S the integrand falls off on both sides, and the trapezoid rule converges geometrically.
    """
    root = math.sqrt(freedom)
    lower, upper = -(36.0 / freedom + 9.0 / root), math.log1p(12.0 / root)
    grid = np.linspace(lower, upper, 801)
    scale = np.exp(grid)
    log_density = freedom * (grid - scale**2 / 2)
    log_constant = math.log(2) + freedom / 2 * math.log(freedom / 2) - math.lgamma(freedom / 2)
    weights = np.exp(log_density + log_constant) * (grid[1] - grid[0])
    phi = np.asarray(_erfc((noncentrality - value * scale) / math.sqrt(2)), dtype=np.float64) / 2
    return float(weights @ phi)


@lru_cache(maxsize=4096)
def t_quantile(probability: float, freedom: float) -> float:
    """Quantile of Student's t with `freedom` degrees of freedom, `probability` within (0, 1)."""
    if not 0 < probability < 1:
        raise ValueError(f"a probability lies between 0 and 1, not at {probability}")
    if probability == 0.5:
        return 0.0
    if probability < 0.5:
        return -t_quantile(1 - probability, freedom)
    upper = 2.0
    while t_cdf(upper, freedom) < probability:
        upper *= 2
    return _root_below(upper, lambda x: t_cdf(x, freedom) - probability)


def _root_below(high: float, function: Callable[[float], float]) -> float:
    """Find the root of a monotone function between 0 and `high`, to the last bits of a double."""
    low, sign_low = 0.0, function(0.0) > 0
    for _ in range(200):
        middle = (low + high) / 2
        if middle in {low, high} or high - low < 1e-12 * abs(middle):
            break
        if (function(middle) > 0) == sign_low:
            low = middle
        else:
            high = middle
    return (low + high) / 2
