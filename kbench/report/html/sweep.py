"""A sweep or a published table as a page: shares of right and fast solutions, failures, and claims."""

from collections.abc import Sequence

from kbench.report import units
from kbench.report.html import page
from kbench.report.html.charts import Chart, ChartRow, Dot, Line, Mark, Plane, Scale, Span, around, level
from kbench.report.html.speed import speed_scale
from kbench.report.swept_table import SweptLine, SweptTable
from kbench.report.table import table

MOST_ROWS = 60
"""Most speed-ups with a row each; more become sorted points."""
LONGEST_NAME = 90
MOST_CONSTANTS = 3
LOOKS = dict.fromkeys(("constants", "lacks", "warnings"), "text")
LOOKS |= {"problem": "head", "verdict": "verdict", "speed-up": "number strong"}


def render_sweep(swept: SweptTable, source: str) -> str:
    """Write a sweep as one HTML file. Raises MachineError without jinja2."""
    timed = sorted(
        (line for line in swept.lines if line.passed and line.speedup is not None),
        key=lambda line: -(line.speedup or 0.0),
    )
    cases = {line.case for line in swept.lines}
    constants = list(dict.fromkeys((line.case, line.constants) for line in swept.lines if line.constants))
    return page.render(
        "sweep.html",
        title=swept.title,
        stack=swept.stack,
        headline=headline(swept),
        swept=swept,
        fast=_fast(swept),
        speeds=_rows(timed) if 0 < len(timed) <= MOST_ROWS else None,
        ranks=_ranks(timed) if len(timed) > MOST_ROWS else None,
        statuses=_statuses(swept),
        claims=_claims(swept.lines),
        stages=[(stage, units.seconds(spent_s)) for stage, spent_s in swept.stage_s.items()],
        table=table([_cells(line, several=len(cases) > 1) for line in swept.lines], wraps={"reason"}),
        looks=LOOKS,
        constants=constants if len(constants) <= MOST_CONSTANTS else [],
        source=source,
    )


def headline(swept: SweptTable) -> str:
    """Write the result of the sweep in one sentence."""
    passed = sum(line.passed for line in swept.lines)
    text = f"{passed} of {len(swept.lines)} pass"
    if swept.trivial:
        text += f", {swept.trivial} of them a task that wrong answers pass too"
    mean = swept.mean
    if mean is None:
        return f"{text}."
    shown = units.speedup(mean.value, mean.low, mean.high, alone=mean.count == 1)
    interval = "" if mean.low is None else f" (95 % interval {units.interval(mean.low, mean.high)})"
    if mean.count == 1:
        return f"{text}. The {'other ' if swept.trivial else ''}one that was timed has {shown} the reference's speed."
    which = f"{mean.count} others" if swept.trivial else str(mean.count)
    return f"{text}. Over the {which} that were timed the {mean.name} is {shown} the reference's speed{interval}."


def _fast(swept: SweptTable) -> Chart:
    rows = [
        ChartRow(
            label="right" if threshold == 0 else f"right, above {threshold:g}×",
            note=f"p = {threshold:g}",
            value=f"{100 * share.share:.0f} %",
            value_note=f"{share.hits} of {share.of}",
            marks=(Mark(x=100 * share.share),),
            spans=(Span(low=100 * share.low, high=100 * share.high),),
        )
        for threshold, share in swept.fast.items()
    ]
    return Chart(
        rows=rows,
        scale=Scale(low=0.0, high=104.0, unit=" %"),
        axis="share of the judged solutions",
        key=(("point", "share"), ("interval", "95 % band")),
    )


def _rows(timed: Sequence[SweptLine]) -> Chart:
    several = len({line.solution for line in timed}) > 1
    rows = [
        ChartRow(
            label=line.problem if len(line.problem) <= LONGEST_NAME else line.problem[: LONGEST_NAME - 1] + "…",
            note=line.solution if several else "",
            value=line.shown_speedup,
            marks=(Mark(x=line.speedup or 1.0, title=line.name),),
            spans=(Span(low=line.speedup_low, high=line.speedup_high),),
        )
        for line in timed
    ]
    axis = "times as fast as the reference"
    return Chart(rows=rows, scale=speed_scale(timed), axis=axis, rule=(1.0, "reference"))


def _ranks(timed: Sequence[SweptLine]) -> Plane:
    scale = speed_scale(timed)
    ranks = Scale(low=0.0, high=float(len(timed) + 1))
    dots = [
        Dot(x=ranks.at(place), y=scale.down(line.speedup or 1.0), title=f"{line.name}: {line.shown_speedup}")
        for place, line in enumerate(timed, start=1)
    ]
    return Plane(
        dots=dots,
        lines=(level(scale.down(1.0), kind="rule", label="reference"),),
        x=ranks,
        y=scale,
        x_axis="rank",
        y_axis="times as fast as the reference",
    )


def _statuses(swept: SweptTable) -> Chart:
    failed = {status: count for status, count in swept.statuses.items() if status != "passed"}
    scale = Scale(low=0.0, high=1.05 * max(failed.values(), default=1), whole=True)
    rows = [
        ChartRow(label=status, value=str(count), spans=(Span(low=0.0, high=count, kind="bar"),))
        for status, count in failed.items()
    ]
    return Chart(rows=rows, scale=scale, axis="verdicts")


def _claims(lines: Sequence[SweptLine]) -> Plane | None:
    """Draw the measured speed-up over the claimed one; failures are crosses at the bottom."""
    claimed = [line for line in lines if line.claim]
    if not claimed:
        return None
    known = [line for line in claimed if line.passed and line.speedup is not None]
    both = around([1.0, *(line.claim for line in claimed), *(line.speedup for line in known)], log=True, unit="×")

    def dot(line: SweptLine, y: float, kind: str, outcome: str) -> Dot:
        title = f"{line.name}: claimed {line.claim:g}×, {outcome}"
        return Dot(x=both.at(line.claim or 1.0), y=y, kind=kind, title=title)

    dots = [dot(line, both.down(line.speedup or 1.0), "point", f"measured {line.shown_speedup}") for line in known]
    dots += [dot(line, 97.0, "cross", line.status) for line in claimed if line not in known]
    diagonal = Line(x1=0, y1=100, x2=100, y2=0, kind="diagonal", label="as claimed")
    return Plane(
        dots=dots,
        lines=(diagonal, level(both.down(1.0), kind="grid")),
        x=both,
        y=both,
        x_axis="claimed speed-up",
        y_axis="measured speed-up",
        key=(("point", "passes"), ("cross", "does not pass, or was not timed")),
    )


def _cells(line: SweptLine, *, several: bool) -> dict[str, str]:
    return {
        "problem": line.problem,
        "solution": line.solution,
        "case": line.case if several else "",
        "constants": line.constants,
        "verdict": line.status,
        "level": line.level,
        "lacks": ", ".join(line.lacks),
        ">speed-up": line.shown_speedup,
        ">claimed": "" if line.claim is None else f"{line.claim:g}×",
        ">of limit": units.percent(line.percent_of_limit),
        "reason": line.reason,
        "warnings": ", ".join(line.warnings),
    }
