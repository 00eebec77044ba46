"""A run as one HTML file without scripts or outside resources: the table, intervals and limits drawn as SVG."""

from collections.abc import Sequence
from dataclasses import dataclass

from kbench.core.errors import MachineError
from kbench.core.events import Judged
from kbench.core.version import __version__
from kbench.report import units
from kbench.report.summary import CaseSummary, RunSummary

WIDTH = 320
"""Pixels that a drawn interval or bar takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One solution and case, ready to be shown; places are in pixels from the left of the drawing."""

    case: CaseSummary
    time: str
    reference: str
    speedup: str
    interval: str
    of_limit: str
    low: float | None
    centre: float | None
    high: float | None
    limit: float | None
    points: tuple[float, ...]
    """Where each process's own speed-up lies."""


def render_run(run: RunSummary, judged: Sequence[Judged]) -> str:
    """Write a run. Names, messages and logs are untrusted; the template escapes them.

    Raises:
        MachineError: without jinja2, which the extra `html` installs.
    """
    try:
        import jinja2
    except ImportError:
        raise MachineError("HTML reports need jinja2", "pip install 'kbench[html]'") from None
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kbench.report"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    unit = units.unit_for(time for case in run.cases for time in (case.time_ns, case.reference_ns))
    reach = _reach(run.cases)
    return environment.get_template("run.html").render(
        run=run,
        unit=unit.name,
        width=WIDTH,
        one=_place(1.0, reach),
        reach=reach,
        lines=[_line(case, unit, reach) for case in run.cases],
        logs=[(case, case.log) for case in run.cases if case.log],
        version=__version__,
        processes=sum(len(one.rows) for one in judged),
    )


def _reach(cases: Sequence[CaseSummary]) -> float:
    """Largest speed-up that has to fit, and at least 1, where the reference is."""
    highs = [case.speedup_high or case.speedup or 1.0 for case in cases]
    return 1.05 * max([1.0, *highs])


def _place(speedup: float | None, reach: float) -> float | None:
    return None if speedup is None else round(WIDTH * min(speedup / reach, 1.0), 1)


def _line(case: CaseSummary, unit: units.TimeUnit, reach: float) -> Line:
    share = case.percent_of_limit
    places = (_place(row.speedup, reach) for row in case.rows if row.time_ns_median is not None)
    return Line(
        case=case,
        time=units.both_times(
            units.time_cell(case.time_ns, unit, case.shown_half_width_ns), case.remarked_wall_ns, unit
        ),
        reference=units.time_cell(case.reference_ns, unit, case.shown_half_width_ns),
        speedup=case.shown_speedup,
        interval=case.shown_interval,
        of_limit=units.percent(share),
        low=_place(case.speedup_low, reach),
        centre=_place(case.speedup, reach),
        high=_place(case.speedup_high, reach),
        limit=None if share is None else round(WIDTH * min(share / 100, 1.0), 1),
        points=tuple(place for place in places if place is not None),
    )
