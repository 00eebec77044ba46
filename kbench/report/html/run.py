"""A run as a page: the verdict in words, speed, distance from the limit, correctness, and the evidence."""

import re
from collections.abc import Sequence

from kbench.core.levels import PROPERTIES
from kbench.core.model import ResultRow
from kbench.devices.backend import is_timed_by_host
from kbench.report import units
from kbench.report.html import page, samples, speed
from kbench.report.html.page import Part, Section
from kbench.report.pivot import pivot_of
from kbench.report.run import failures
from kbench.report.shown import MOST_CONSTANTS, Note, headline, notes_of_run, rows_of, stack_line
from kbench.report.summary import CaseSummary, RunSummary
from kbench.report.table import Table, table

TWO_TIMES = (
    "Device time is the GPU's alone; wall time includes the host's work.",
    "On a CPU both are times of a call: device time from the samples, wall time from a plain loop.",
)
SAMPLES = (
    "Every timed call, process by process, as its distance from the median of all calls; at the right edge the "
    "distribution of the solution's calls. No call is dropped."
)
KEY = (("point", "solution"), ("reference", "reference"), ("point outlier", "outlier"))
MARKED = ("marked", "marked: throttled or disturbed")


def render_run(run: RunSummary, *, notes: Sequence[Note] = (), source: str = "") -> str:
    """Write a run as one HTML file; `notes` are on the file `source`. Raises MachineError."""
    first, pivot = run.rows[0], pivot_of(run)
    on_cpu = is_timed_by_host(first.device)
    constants = [f"case {case}: {text}" for case, text in run.constants.items()]
    few = len(constants) <= MOST_CONSTANTS
    panels: list[Part] = [("panels", one) for one in samples.panels(run.cases)]
    grid: list[Part] = []
    if pivot is not None:
        grid = [("table", pivot.table(pivot.run.solutions))]
        rates = ["", pivot.rate] if pivot.rate else [""]
        grid += [("plane", speed.over_cases(pivot, rate)) for rate in rates if pivot.wins]
    rows = [{name: text for name, text in row.items() if "wall" not in name} for row in rows_of(run, walls_apart=True)]
    sections = [
        Section(heading="Cases and solutions", about=pivot.title if pivot is not None else "", parts=grid),
        Section(heading="Results", parts=[("table", table(rows)), ("small", _means(run))]),
        Section(heading="What does not pass", parts=[("lines", text) for text in failures(run, 0)]),
        Section(
            heading="Speed-up",
            about="Reference time over the solution's time; right of the dashed line is faster.",
            parts=[("chart", speed.speedups(run.timed))],
        ),
        Section(
            heading="Device time and wall time", about=TWO_TIMES[on_cpu], parts=[("chart", speed.times(run.timed))]
        ),
        Section(
            heading="How far from the limit",
            about="The limit is the least time for the problem's bytes and operations at the peaks measured on this "
            "device.",
            parts=_rooflines(run),
        ),
        Section(heading="Samples", about=SAMPLES, parts=[("key", (*KEY, MARKED)), *panels] if panels else []),
        Section(heading="What is right", parts=[("table", _correctness(run)), ("pairs", _lacks(run.cases))]),
        Section(heading="Warnings and notes", parts=[("notes", [*notes, *notes_of_run(run, 1)])]),
        Section(heading="What solutions printed", parts=_logs(run.cases)),
        Section(heading="Constants", parts=[] if few else [("pairs", [*run.constants.items()])]),
        Section(heading="To repeat it", parts=[("command", _command(run)), ("pairs", _environment(run.rows))]),
    ]
    return page.render(
        "run",
        title=run.problem,
        headline=pivot.sentence() if pivot is not None and pivot.wins else headline(run),
        lead=[stack_line(first), "Timed by the host's clock." if on_cpu else "", *(constants if few else ())],
        sections=sections,
        source=source,
    )


def _means(run: RunSummary) -> str:
    if all(len(run.counted(name)) < 2 for name in run.solutions):
        return ""
    means = ", ".join(f"{name} {run.shown_speedup_of(name)}" for name in run.solutions)
    return f"{run.mean_name.capitalize()} over cases: {means}"


def _rooflines(run: RunSummary) -> list[Part]:
    planes = speed.rooflines(run.timed, run.peaks)
    parts: list[Part] = []
    if planes and run.peaks is None:
        parts.append(
            ("small", "This file does not hold the device's peaks: only the limit at this intensity is drawn.")
        )
    for case, plane in planes:
        parts += [("heading", f"Roofline, case {case}" if len(planes) > 1 else "Roofline"), ("plane", plane)]
    return parts


def _correctness(run: RunSummary) -> Table:
    """Return level, lacks and errors of each result; 1 is the largest allowed error."""
    return table(
        [
            {
                "solution": case.solution,
                "case": speed.where(case, run.cases),
                "verdict": case.status.value,
                "level": case.level.value if case.level else "",
                "lacks": ", ".join(case.lacks),
                ">worst error": units.error_size(case.correctness.max_abs_err) if case.correctness else "",
                ">of the allowed error": f"{case.correctness.tolerance_ratio:.2g}" if case.correctness else "",
            }
            for case in run.cases
        ]
    )


def _lacks(cases: Sequence[CaseSummary]) -> list[tuple[str, str]]:
    codes = dict.fromkeys(code for case in cases for code in case.lacks)
    return [(code, PROPERTIES[code].meaning) for code in codes if code in PROPERTIES]


def _logs(cases: Sequence[CaseSummary]) -> list[Part]:
    return [("folded", (f"{case.solution}, case {case.case}", case.log)) for case in cases if case.log]


def _command(run: RunSummary) -> str:
    """Return the command without its name: a run of that name exists, and another one would be refused."""
    return re.sub(r" --name[ =](?:'[^']*'|\S+)", "", run.command)


def _environment(rows: Sequence[ResultRow]) -> list[tuple[str, str]]:
    row = rows[0]
    clocks = sorted({one.sm_clock_mhz for one in rows if one.sm_clock_mhz is not None})
    found = {
        "device": row.gpu_name,
        "driver": row.driver,
        "CUDA": row.cuda,
        "torch": row.torch,
        "SM clock": f"{clocks[0]} MHz" if len(clocks) == 1 else f"{clocks[0]} … {clocks[-1]} MHz" if clocks else "",
        "timer": ", ".join(dict.fromkeys(one.timer for one in rows if one.time_ns_median is not None)),
        "mode": row.mode,
        "L2 cache": "" if row.l2 == "none" else row.l2,
        "TF32": "allowed" if row.tf32 else "off",
        "weights": ", ".join(dict.fromkeys(one.weights for one in rows if one.weights)),
        "required level": row.required_level,
        "isolation": row.isolation,
        "started": row.started_utc,
        "commit": row.git_commit[:12] + (" with changes" if row.git_dirty else "") if row.git_commit else "",
        "kbench": row.kbench_version,
    }
    return [(name, text) for name, text in found.items() if text]
