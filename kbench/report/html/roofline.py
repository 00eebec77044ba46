"""The roofline: arithmetic rate over arithmetic intensity, under the roofs measured on this device."""

from collections.abc import Sequence
from itertools import pairwise

from kbench.core.model import Peaks
from kbench.core.roofline import arithmetic_peaks
from kbench.report import units
from kbench.report.html.axes import Scale, around, from_zero
from kbench.report.html.charts import Chart, ChartRow, Dot, Line, Plane, Span, level
from kbench.report.html.speed import where
from kbench.report.summary import CaseSummary

LABEL_GAP = 5.5
"""Height of a label in percent of the plane."""


def rooflines(cases: Sequence[CaseSummary], peaks: Peaks | None) -> list[tuple[str, Plane]]:
    """Draw one plane for each case that has arithmetic; a single one has no name."""
    named: dict[str, list[CaseSummary]] = {}
    for case in cases:
        if case.rows and case.rows[0].flops and case.rows[0].dram_bytes and case.time_ns:
            named.setdefault(case.case, []).append(case)
    return [(name, _plane(of_case, peaks)) for name, of_case in named.items()]


def rates(cases: Sequence[CaseSummary]) -> Chart:
    """Draw the rates of the compulsory bytes of cases; the limit is the end of each bar's track."""
    moving = [case for case in cases if case.rows and case.rows[0].dram_bytes]
    known = [(case, case.percent_of_limit) for case in moving if case.percent_of_limit is not None]
    scale = from_zero([100.0, *(share for _, share in known)], " %")
    rows = [
        ChartRow(
            label=case.solution,
            note=where(case, cases),
            value=units.percent(share),
            value_note=units.rate(case.rows[0].dram_bytes, case.time_ns, "B"),
            spans=(Span(low=0.0, high=scale.at(share), kind="bar", title=f"limit {units.duration(case.limit_ns)}"),),
        )
        for case, share in known
    ]
    return Chart(rows=rows, scale=scale, axis="share of the device's limit", rule=(100.0, "limit"))


def _plane(cases: Sequence[CaseSummary], peaks: Peaks | None) -> Plane:
    row = cases[0].rows[0]
    flops, intensity = float(row.flops or 0), float(row.flops or 0) / float(row.dram_bytes or 1)
    reached = {case.solution: flops / (case.time_ns or 1.0) * 1e9 for case in cases}
    limit = flops / row.limit_ns * 1e9 if row.limit_ns else None
    known = {} if peaks is None else arithmetic_peaks(peaks)
    ceilings = [(f"{name} {rate / 1e12:.3g}", rate) for name, rate in known.items()]
    ridges = [rate / peaks.copy_bytes_per_s for _, rate in ceilings] if peaks is not None else []
    x = around([intensity / 8, intensity * 8, *ridges], log=True)
    y = around([*reached.values(), limit, *(rate for _, rate in ceilings)], log=True, least_span=4)
    teras = Scale(low=y.low / 1e12, high=y.high / 1e12, log=True)
    lines = [_memory(peaks, x, y, max(rate for _, rate in ceilings))] if peaks is not None else []
    for (name, rate), ridge in zip(ceilings, ridges, strict=True):
        lines.append(level(y.down(rate), x.at(max(ridge, x.low)), 100.0, kind="roof", label=name))
    if limit is not None:
        begin, end = max(x.at(intensity) - 3, 0), min(x.at(intensity) + 3, 100)
        lines.append(level(y.down(limit), begin, end, kind="limit", label="" if ceilings else "limit"))
    heights = [y.down(rate) for rate in reached.values()]
    dots = [
        Dot(x=x.at(intensity), y=height, label=name, label_y=label_y, title=f"{name}: {rate / 1e12:.3g} TFLOP/s")
        for (name, rate), height, label_y in zip(reached.items(), heights, spread_labels(heights), strict=True)
    ]
    return Plane(
        dots=dots,
        lines=lines,
        x=x,
        y=teras,
        x_axis="FLOP for each byte that must move",
        y_axis="TFLOP/s",
    )


def _memory(peaks: Peaks, x: Scale, y: Scale, top: float) -> Line:
    """Draw the slope of memory from where it enters the plane to the highest ceiling."""
    start = max(x.low, y.low / peaks.copy_bytes_per_s)
    end = min(x.high, top / peaks.copy_bytes_per_s)
    rate = peaks.copy_bytes_per_s
    label = f"memory {rate / 1e12:.3g} TB/s" if rate >= 1e12 else f"memory {rate / 1e9:.3g} GB/s"
    return Line(x1=x.at(start), y1=y.down(start * rate), x2=x.at(end), y2=y.down(end * rate), kind="roof", label=label)


def spread_labels(heights: Sequence[float]) -> list[float]:
    """Move labels apart as little as possible until neighbours are LABEL_GAP apart."""
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    placed = list(heights)
    for before, index in pairwise(order):
        placed[index] = max(placed[index], placed[before] + LABEL_GAP)
    lowest = 100 - LABEL_GAP / 2
    for index in reversed(order):
        placed[index] = min(placed[index], lowest)
        lowest = placed[index] - LABEL_GAP
    return [round(height, 2) for height in placed]
