"""Raw samples as plots of characters: their sequence, their histogram, and their labels."""

import statistics
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from kbench.core import stats
from kbench.core.events import Judged
from kbench.core.model import Passed, Timing
from kbench.report import units
from kbench.report.summary import RunSummary
from kbench.report.table import one_line

LEVELS = "▁▂▃▄▅▆▇█"
WIDTH, BINS = 60, 30
LEGEND = "two lines for each arm: its times in order, and how often each occurs from the shortest to the longest"


def render_samples(run: RunSummary, judged: Sequence[Judged]) -> str:
    """Draw the samples of every timed process of a run."""
    blocks = [
        _process(f"{one.solution}, case {one.case}", timing)
        for one in judged
        if isinstance(one.outcome, Passed)
        for timing in one.outcome.timings
    ]
    return "\n\n".join([LEGEND, *blocks]) if blocks else f"{one_line(run.problem)}: no process was timed"


def sequence(values: Sequence[float]) -> str:
    """Draw values in order of time between their extremes; neighbours share a column by their median."""
    columns = min(WIDTH, len(values))
    bounds = [round(place * len(values) / columns) for place in range(columns + 1)]
    medians = [statistics.median(values[low:high]) for low, high in pairwise(bounds)]
    low, span = min(medians), max(medians) - min(medians)
    top = len(LEVELS) - 1
    return "".join(LEVELS[round(top * (value - low) / span) if span else 0] for value in medians)


def histogram(values: Sequence[float]) -> str:
    """Draw a histogram from the smallest to the largest value; an empty bin is a blank."""
    counts, _ = np.histogram(values, bins=BINS if max(values) > min(values) else 1)
    top = len(LEVELS) - 1
    return "".join(LEVELS[round(top * count / counts.max())] if count else " " for count in counts)


def _process(title: str, timing: Timing) -> str:
    ordered = sorted(timing.samples, key=lambda sample: sample.sequence)
    process = ordered[0].process if ordered else 0
    marked = sum(sample.marked for sample in ordered)
    lines = [f"{title}, process {process}: {len(ordered)} samples, {marked} marked"]
    for arm in sorted({sample.arm for sample in ordered}):
        times = [float(sample.t_event_ns) for sample in ordered if sample.arm == arm]
        unit = units.unit_for(times)
        low, high = (units.number(time / unit.size_ns, least_digits=4) for time in (min(times), max(times)))
        lines.append(f"  {one_line(arm):<9}  {sequence(times)}")
        lines.append(f"  {'':<9}  {histogram(times)}  {low} … {high} {unit.name}")
    clocks = [sample.sm_clock_mhz for sample in ordered if sample.sm_clock_mhz is not None]
    if clocks:
        steady = min(clocks) == max(clocks)
        shown = f"{clocks[0]} MHz" if steady else f"{sequence(clocks)}  {min(clocks)} … {max(clocks)} MHz"
        lines.append(f"  SM clock   {shown}")
    named = dict.fromkeys((*timing.flags, *stats.timing_flags(ordered)))
    lines.append("  flags: " + (", ".join(named) or "none"))
    return "\n".join(lines)
