"""Raw samples drawn process by process: in order of time, with their distribution at the right edge."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kbench.core import stats
from kbench.core.events import Judged
from kbench.core.model import Passed, Sample, Timing
from kbench.report import units
from kbench.report.html.charts import Dot, Scale
from kbench.report.shown import flag_text

ARMS = {"candidate": "point", "reference": "reference"}
STRIP = 76.0
"""Width of the samples in percent of a panel; their distribution has the rest."""
BINS = 24
LEAST_REACH = 0.2
"""Least range of the axis in percent, so that small noise looks small."""
INSIDE = 0.98
"""Share of the samples within the axis; the others are drawn at its ends."""


def panels(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """Draw the samples of every timed case: a panel for each process, all of a case on one axis."""
    timed = [(one, one.outcome.timings) for one in judged if isinstance(one.outcome, Passed)]
    several = len({one.case for one in judged}) > 1
    return [
        _case(f"{one.solution}, case {one.case}" if several else one.solution, [t for t in timings if t.samples])
        for one, timings in timed
        if timings
    ]


def _case(title: str, timings: Sequence[Timing]) -> dict[str, Any]:
    middles = {arm: _median([s for timing in timings for s in timing.samples if s.arm == arm]) for arm in ARMS}
    away = [_deviation(sample, middles) for timing in timings for sample in timing.samples if sample.arm in ARMS]
    reach = max(LEAST_REACH, float(np.quantile(np.abs(away), INSIDE))) if away else LEAST_REACH
    scale = Scale.of_changes(1.1 * reach)
    first, *_, last = scale.ticks(upright=True)
    ticks = ((first.at, first.text), (scale.at(0.0), "0"), (last.at, last.text))
    return {
        "title": title,
        "median": units.duration(middles["candidate"]),
        "ticks": [{"at": 100 - at, "text": text} for at, text in ticks],
        "panels": [_panel(timing, middles, scale) for timing in timings],
    }


def _panel(timing: Timing, middles: dict[str, float], scale: Scale) -> dict[str, Any]:
    ordered = sorted((s for s in timing.samples if s.arm in ARMS), key=lambda sample: sample.sequence)
    far = set()
    for arm in ARMS:
        mine = [sample for sample in ordered if sample.arm == arm]
        outliers = stats.outliers([float(sample.t_event_ns) for sample in mine])
        far |= {id(sample) for sample, is_far in zip(mine, outliers, strict=True) if is_far}
    first, last = ordered[0].sequence, max(ordered[-1].sequence, ordered[0].sequence + 1)
    deviations = [_deviation(sample, middles) for sample in ordered]
    dots = [
        Dot(
            x=round(2 + (STRIP - 4) * (sample.sequence - first) / (last - first), 1),
            y=round(100 - scale.at(deviation), 1),
            kind=ARMS[sample.arm] + (" marked" if sample.marked else " outlier" if id(sample) in far else ""),
        )
        for sample, deviation in zip(ordered, deviations, strict=True)
    ]
    own = [sample for sample in ordered if sample.arm == "candidate"]
    names = dict.fromkeys((*timing.flags, *stats.timing_flags(ordered)))
    return {
        "process": ordered[0].process,
        "median": units.duration(_median(own)),
        "names": [(name.replace("_", " "), flag_text(name)) for name in names],
        "marked": sum(sample.marked for sample in ordered),
        "beyond": sum(not scale.low <= deviation <= scale.high for deviation in deviations),
        "dots": dots,
        "bars": _bars([_deviation(sample, middles) for sample in own], scale),
    }


def _bars(values: Sequence[float], scale: Scale) -> list[dict[str, Any]]:
    counts, _ = np.histogram(np.clip(values, scale.low, scale.high), bins=BINS, range=(scale.low, scale.high))
    most, step = max(int(counts.max()), 1), 100 / BINS
    return [
        {
            "y": round(100 - step * (place + 1), 2),
            "height": round(step * 0.9, 2),
            "x": STRIP,
            "width": round(max((100 - STRIP) * int(count) / most, 0.15), 2),
        }
        for place, count in enumerate(counts)
        if count
    ]


def _median(samples: Sequence[Sample]) -> float:
    times = [sample.t_event_ns for sample in stats.counted(samples)]
    return float(np.median(times)) if times else 1.0


def _deviation(sample: Sample, middles: dict[str, float]) -> float:
    """Distance of a sample from its arm's median over all processes, in percent."""
    return 100 * (sample.t_event_ns / middles[sample.arm] - 1)
