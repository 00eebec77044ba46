"""Plots of speed: speed-ups and their spread over processes, times over cases, and rooflines."""

from collections.abc import Sequence

from kbench.core.model import Peaks
from kbench.core.roofline import arithmetic_peaks
from kbench.report import units
from kbench.report.html import charts
from kbench.report.html.charts import Chart, ChartRow, Line, Mark, Span, around
from kbench.report.pivot import Pivot
from kbench.report.summary import CaseSummary


def speedups(cases: Sequence[CaseSummary]) -> Chart:
    """Draw every speed-up with its interval and the point of every process, on one logarithmic axis."""
    rows = [
        ChartRow(
            label=case.solution,
            note=where(case, cases),
            value=case.shown_speedup,
            value_note="one process" if case.alone else case.shown_interval.replace(units.ABSENT, ""),
            marks=[
                Mark(x=row.speedup, title=f"process {row.process}: {row.speedup:.4f}×")
                for row in case.rows
                if row.speedup is not None and row.time_ns_median is not None
            ],
            span=Span(low=case.speedup_low, high=case.speedup_high, title=case.shown_interval),
        )
        for case in cases
        if case.speedup is not None
    ]
    return speed_chart(rows, key=(("point", "a process"), ("interval", "95 % interval")))


def speed_chart(rows: Sequence[ChartRow], key: tuple[tuple[str, str], ...] = ()) -> Chart:
    """Draw rows of speed-ups on a logarithmic axis that holds them with their intervals, and 1×."""
    ends = [mark.x for row in rows for mark in row.marks]
    ends += [end for row in rows if row.span for end in (row.span.low, row.span.high) if end is not None]
    scale = around([1.0, *ends], log=True, unit="×", least_span=0.4)
    return Chart(rows=rows, scale=scale, axis="times as fast as the reference", rule=(1.0, "reference"), key=key)


def over_cases(pivot: Pivot, rate: str = "") -> charts.Plane:
    """Draw over the cases, in their order, the time of each solution, or the rate that it reaches, in its unit."""

    def value(one: CaseSummary | None) -> float | None:
        return None if one is None else pivot.rate_of(one) if rate else one.time_ns

    rows = {name: [value(row.get(name)) for row in pivot.cells.values()] for name in pivot.run.solutions}
    known = [number for row in rows.values() for number in row if number]
    unit = units.TimeUnit(rate, 1.0) if rate else units.unit_for(known)
    y = around([number / unit.size_ns for number in known], log=True, unit=f" {unit.name}", least_span=0.5)

    def seen(name: str, case: str, number: float | None) -> Mark | None:
        if not number:
            return None
        y = number / unit.size_ns
        return Mark(y=y, title=f"{name}, case {case}: {units.number(y)} {unit.name}")

    series = {
        name: [seen(name, case, number) for case, number in zip(pivot.cells, row, strict=True)]
        for name, row in rows.items()
    }
    what = "rate of a call" if rate else "time of a call"
    return charts.over(series, y, x_axis="case, by its place in the table", y_axis=what)


def where(case: CaseSummary, cases: Sequence[CaseSummary]) -> str:
    """Return the label, with the case if there are several."""
    return case.case if len({one.case for one in cases}) > 1 else ""


def rooflines(cases: Sequence[CaseSummary], peaks: Peaks | None) -> list[tuple[str, charts.Plane]]:
    """Draw one plane for each case that has arithmetic; a single one has no name."""
    named: dict[str, list[CaseSummary]] = {}
    for case in cases:
        if case.rows and case.rows[0].flops and case.rows[0].dram_bytes and case.time_ns:
            named.setdefault(case.case, []).append(case)
    return [(name, _plane(of_case, peaks)) for name, of_case in named.items()]


def _plane(cases: Sequence[CaseSummary], peaks: Peaks | None) -> charts.Plane:
    """Draw what each solution reaches, in TFLOP/s over FLOP per byte, below the roofs of the device."""
    row = cases[0].rows[0]
    flops, intensity = float(row.flops or 0), float(row.flops or 0) / float(row.dram_bytes or 1)
    reached = {case.solution: flops / (case.time_ns or 1.0) / 1e3 for case in cases}
    limit = flops / row.limit_ns / 1e3 if row.limit_ns else None
    roofs = {} if peaks is None else {name: rate / 1e12 for name, rate in arithmetic_peaks(peaks).items()}
    memory = None if peaks is None else peaks.copy_bytes_per_s / 1e12
    x = around([intensity / 8, intensity * 8, *(rate / memory for rate in roofs.values() if memory)], log=True)
    y = around([*reached.values(), limit, *roofs.values()], log=True, least_span=4)
    lines = []
    if memory is not None:
        start, end = max(x.low, y.low / memory), min(x.high, max(roofs.values()) / memory)
        label = f"memory {memory:.3g} TB/s" if memory >= 1 else f"memory {memory * 1e3:.3g} GB/s"
        lines = [Line(x=(start, end), y=(start * memory, end * memory), kind="roof", label=label)]
        for name, rate in roofs.items():
            ends = max(rate / memory, x.low), x.high
            lines.append(Line(x=ends, y=(rate, rate), kind="roof", label=f"{name} {rate:.3g}"))
    if limit is not None:
        ends, label = (intensity / 1.3, intensity * 1.3), "" if roofs else "limit"
        lines.append(Line(x=ends, y=(limit, limit), kind="limit", label=label))
    dots = [
        Mark(x=intensity, y=rate, label=name, title=f"{name}: {rate:.3g} TFLOP/s") for name, rate in reached.items()
    ]
    return charts.Plane(dots=dots, lines=lines, x=x, y=y, x_axis="FLOP for each byte that must move", y_axis="TFLOP/s")
