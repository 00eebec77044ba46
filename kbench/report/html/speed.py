"""Plots of speed: speed-ups with their intervals, the spread over processes, and both times of a call."""

from collections.abc import Iterable, Sequence

from kbench.core.verdict import Thresholds
from kbench.report import units
from kbench.report.html.axes import Scale, around, changes_around, time_scale
from kbench.report.html.charts import Chart, ChartRow, Mark, between
from kbench.report.shown import shown
from kbench.report.summary import CaseSummary
from kbench.report.swept_table import SweptLine


def speedups(cases: Sequence[CaseSummary]) -> Chart:
    """Draw every speed-up with its interval and the point of every process, on one logarithmic axis."""
    timed = [case for case in cases if case.speedup is not None]
    scale = speed_scale(timed)
    rows = [
        ChartRow(
            label=case.solution,
            note=where(case, cases),
            value=case.shown_speedup,
            value_note="one process" if case.alone else case.shown_interval.replace(units.ABSENT, ""),
            marks=tuple(
                Mark(x=scale.at(row.speedup), title=f"process {row.process}: {row.speedup:.4f}×")
                for row in case.rows
                if row.speedup is not None and row.time_ns_median is not None
            ),
            spans=between(case.speedup_low, case.speedup_high, scale, title=case.shown_interval),
        )
        for case in timed
    ]
    return Chart(
        rows=rows,
        scale=scale,
        axis="times as fast as the reference",
        rule=(1.0, "reference"),
        key=(("point", "a process"), ("interval", "95 % interval")),
    )


def speed_scale(timed: Iterable[CaseSummary | SweptLine]) -> Scale:
    """Make an axis of speed-ups that holds these with their intervals, and 1×."""
    ends = (end for one in timed for end in (one.speedup, one.speedup_low, one.speedup_high))
    return around([1.0, *ends], log=True, unit="×", least_span=0.4)


def spreads(cases: Sequence[CaseSummary]) -> Chart:
    """Draw each process and the interval relative to the speed-up, beside the gate's margin."""
    several = [case for case in cases if case.speedup and not case.alone]
    margin = 100 * Thresholds().margin

    def away(case: CaseSummary, value: float | None) -> float | None:
        return None if value is None or not case.speedup else 100 * (value / case.speedup - 1)

    told = [
        (case, [deviation for row in case.rows if (deviation := away(case, row.speedup)) is not None])
        for case in several
    ]
    ends = [away(case, end) for case in several for end in (case.speedup_low, case.speedup_high)]
    ends += [value for _, values in told for value in values]
    scale = changes_around(ends)
    band = between(-margin, margin, scale, kind="margin", title=f"± {margin:g} %")
    rows = []
    for case, values in told:
        low, high = away(case, case.speedup_low), away(case, case.speedup_high)
        half = (high - low) / 2 if low is not None and high is not None else None
        rows.append(
            ChartRow(
                label=case.solution,
                note=where(case, cases),
                value="" if half is None else f"± {half:.2g} %",
                value_note=f"{len(values)} processes",
                marks=tuple(Mark(x=scale.at(value), title=units.change(value / 100)) for value in values),
                spans=(*band, *between(low, high, scale)),
            )
        )
    return Chart(
        rows=rows,
        scale=scale,
        axis="each process's speed-up, from their mean",
        rule=(0.0, ""),
        key=(("point", "a process"), ("interval", "95 % interval"), ("margin", f"the gate's margin, ± {margin:g} %")),
    )


def times(cases: Sequence[CaseSummary]) -> Chart:
    """Draw the device time and the wall time of a call, the reference's, and the device's limit."""
    scale, unit = time_scale(
        time for case in cases for time in (case.time_ns, case.wall_ns, case.reference_ns, case.limit_ns)
    )
    rows, kinds = [], {"reference"}
    for case in cases:
        found = {"limit": case.limit_ns, "reference": case.reference_ns, "wall": case.wall_ns, "point": case.time_ns}
        kinds |= {kind for kind, time in found.items() if time}
        cells = shown(case, unit)
        marks = [
            Mark(x=scale.at(time / unit.size_ns), kind=kind, title=f"{NAMES[kind]}: {units.duration(time)}")
            for kind, time in found.items()
            if time
        ]
        rows.append(
            ChartRow(
                label=case.solution,
                note=where(case, cases),
                value=f"{cells.time} {unit.name}",
                value_note="" if case.wall_ns is None else f"wall {cells.wall}",
                marks=tuple(marks),
            )
        )
    key = tuple((kind, name) for kind, name in NAMES.items() if kind in kinds)
    return Chart(rows=rows, scale=scale, axis="time of a call, shorter is better", key=key)


NAMES = {
    "point": "device time",
    "wall": "wall time of a plain loop",
    "reference": "reference, device time",
    "limit": "limit of the device",
}


def where(case: CaseSummary, cases: Sequence[CaseSummary]) -> str:
    """Return the label, with the case if there are several."""
    return case.case if len({one.case for one in cases}) > 1 else ""
