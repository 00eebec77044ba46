"""A run as a page: the verdict in words, speed, distance from the limit, correctness, and the evidence."""

import re
from collections.abc import Sequence

from kbench.core.events import Judged
from kbench.core.explain import explain
from kbench.core.levels import PROPERTIES
from kbench.core.model import ResultRow
from kbench.devices.backend import is_timed_by_host
from kbench.report import units
from kbench.report.html import page, samples, speed
from kbench.report.html.charts import Chart, ChartRow, Mark, Span, around
from kbench.report.pivot import pivot_of
from kbench.report.shown import Remark, headline, remarks, sentence, shown, unit_of
from kbench.report.summary import CaseSummary, RunSummary
from kbench.report.table import table
from kbench.report.terminal import stack_line

MOST_SENTENCES = 3
LOOKS = {"solution": "head", "verdict": "verdict", "speed-up": "number strong"}


def render_run(
    run: RunSummary,
    judged: Sequence[Judged],
    *,
    repeat: str = "",
    notes: Sequence[Remark] = (),
    source: str = "",
) -> str:
    """Write a run as one HTML file; `repeat` is the command, `notes` are on the file `source`. Raises MachineError."""
    unit = unit_of(run.cases)
    rows = run.rows
    pivot = pivot_of(run)
    several_cases = len({case.case for case in run.cases}) > 1
    lacking = dict.fromkeys(code for case in run.cases for code in case.lacks)
    return page.render(
        "run.html",
        title=run.problem,
        stack=stack_line(rows[0]),
        on_cpu=is_timed_by_host(rows[0].device),
        headline=pivot.sentence() if pivot is not None and pivot.wins else headline(run),
        pivot=pivot,
        grid=pivot.table(pivot.solutions) if pivot is not None else None,
        over_cases=speed.over_cases(pivot) if pivot is not None and pivot.wins else None,
        run=run,
        sentence=sentence,
        explain=explain,
        table=table([_cells(case, unit, speed.where(case, run.cases)) for case in run.cases]),
        looks=LOOKS,
        cases=list(dict.fromkeys(case.case for case in run.cases)),
        sentences=1 < len(run.cases) <= MOST_SENTENCES,
        means=[(name, run.shown_speedup_of(name)) for name in run.solutions] if several_cases else [],
        speeds=speed.speedups(run.timed),
        times=speed.times(run.timed),
        roofs=speed.rooflines(run.timed, run.peaks),
        rates=speed.rates(run.timed),
        knows_peaks=run.peaks is not None,
        panels=samples.panels(judged),
        errors=_errors(run.cases),
        properties=[(code, PROPERTIES[code].meaning) for code in lacking if code in PROPERTIES],
        environment=_environment(rows),
        # A run of its name exists, and another one would be refused.
        repeat=re.sub(r" --name[ =](?:'[^']*'|\S+)", "", run.command) or repeat,
        typed=bool(run.command),
        remarks=[*notes, *remarks(run, 1)],
        source=source,
    )


def _cells(case: CaseSummary, unit: units.TimeUnit, where: str) -> dict[str, str]:
    cells = shown(case, unit)
    return {
        "solution": case.solution,
        "case": where,
        "verdict": cells["verdict"],
        f">time, {unit.name}": cells["time"],
        f">wall, {unit.name}": cells["wall"],
        f">reference, {unit.name}": cells["reference"],
        ">speed-up": case.shown_speedup,
        ">95 % interval": case.shown_interval,
        ">of limit": cells["percent_of_limit"],
        ">in own kernels": cells["own_kernels"],
        ">worst error": cells["worst_error"],
    }


def _errors(cases: Sequence[CaseSummary]) -> Chart:
    known = [(case, case.correctness.tolerance_ratio) for case in cases if case.correctness is not None]
    rows = [
        ChartRow(
            label=case.solution,
            note=speed.where(case, cases),
            value=f"{ratio:.2g}" if ratio else "0",
            value_note=f"worst error {units.error_size(case.correctness.max_abs_err)}" if case.correctness else "",
            marks=(Mark(x=ratio, kind="point" if ratio <= 1 else "failed", title=f"{ratio:.3g} allowed"),),
            spans=(Span(low=0.0, high=ratio, kind="stem"),),
        )
        for case, ratio in known
    ]
    scale = around([*(ratio for _, ratio in known), 1.0], log=True, least_span=4)
    return Chart(rows=rows, scale=scale, axis="worst error over the allowed one; at 1 it fails", rule=(1.0, "allowed"))


def _environment(rows: Sequence[ResultRow]) -> list[tuple[str, str]]:
    row = rows[0]
    clocks = sorted({one.sm_clock_mhz for one in rows if one.sm_clock_mhz is not None})
    told = {
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
    return [(name, text) for name, text in told.items() if text]
