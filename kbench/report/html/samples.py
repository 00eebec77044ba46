"""Raw samples drawn process by process: in order of time, with their distribution at the right edge."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kbench.core import stats
from kbench.core.model import Sample, Timing
from kbench.report import units
from kbench.report.html.charts import Line, Mark, Plane, Scale, Tick
from kbench.report.shown import flag_text
from kbench.report.summary import CaseSummary

ARMS = {"candidate": "point", "reference": "reference"}
STRIP = 0.3
"""Width of the distribution, as a share of that of the samples."""
BINS = 24
LEAST_REACH = 0.2
"""Least range of the axis in percent, so that small noise looks small."""
INSIDE = 0.98
"""Share of the samples within the axis; the others are drawn at its ends."""


def panels(cases: Sequence[CaseSummary]) -> list[dict[str, Any]]:
    """Draw the samples of every timed case: a panel for each process, all of a case on one axis."""
    several = len({one.case for one in cases}) > 1
    return [
        _case(f"{one.solution}, case {one.case}" if several else one.solution, [t for t in one.timings if t.samples])
        for one in cases
        if one.timings
    ]


def _case(title: str, timings: Sequence[Timing]) -> dict[str, Any]:
    middles = {arm: _median([s for timing in timings for s in timing.samples if s.arm == arm]) for arm in ARMS}
    away = [_deviation(sample, middles) for timing in timings for sample in timing.samples if sample.arm in ARMS]
    reach = max(LEAST_REACH, float(np.quantile(np.abs(away), INSIDE))) if away else LEAST_REACH
    scale = Scale(low=-1.1 * reach, high=1.1 * reach)
    return {
        "title": title,
        "median": units.duration(middles["candidate"]),
        "ticks": [Tick(at=scale.down(end), text=units.change(end / 100)) for end in (reach, 0.0, -reach)],
        "panels": [_panel(timing, middles, scale) for timing in timings],
    }


def _panel(timing: Timing, middles: dict[str, float], y: Scale) -> dict[str, Any]:
    ordered = sorted((s for s in timing.samples if s.arm in ARMS), key=lambda sample: sample.sequence)
    first, span = ordered[0].sequence, max(ordered[-1].sequence - ordered[0].sequence, 1)
    deviations = [_deviation(sample, middles) for sample in ordered]
    dots = [
        Mark(
            x=sample.sequence,
            y=deviation,
            kind=ARMS[sample.arm] + (" marked" if sample.marked else ""),
        )
        for sample, deviation in zip(ordered, deviations, strict=True)
    ]
    own = [sample for sample in ordered if sample.arm == "candidate"]
    bars = _bars([_deviation(sample, middles) for sample in own], y, begin=first + 1.05 * span, width=STRIP * span)
    x = Scale(low=first - 0.03 * span, high=first + (1.05 + STRIP) * span)
    return {
        "process": ordered[0].process,
        "median": units.duration(_median(own)),
        "names": [(name.replace("_", " "), flag_text(name)) for name in timing.flags],
        "marked": sum(sample.marked for sample in ordered),
        "beyond": sum(not y.low <= deviation <= y.high for deviation in deviations),
        "plot": Plane(dots=dots, bands=bars, x=x, y=y),
    }


def _bars(values: Sequence[float], y: Scale, *, begin: float, width: float) -> list[Line]:
    counts, edges = np.histogram(np.clip(values, y.low, y.high), bins=BINS, range=(y.low, y.high))
    lengths = width * counts / max(int(counts.max()), 1)
    bars = zip(lengths, edges, edges[1:], strict=False)
    return [Line(x=(begin, begin + length), y=(low, high), kind="bar") for length, low, high in bars if length]


def _median(samples: Sequence[Sample]) -> float:
    times = [sample.t_event_ns for sample in stats.counted(samples)]
    return float(np.median(times)) if times else 1.0


def _deviation(sample: Sample, middles: dict[str, float]) -> float:
    """Distance of a sample from its arm's median over all processes, in percent."""
    return 100 * (sample.t_event_ns / middles[sample.arm] - 1)
