"""A run as a page: the verdict in words, speed, distance from the limit, correctness, and the evidence."""

import re
from collections.abc import Sequence

from kbench.core.levels import PROPERTIES
from kbench.core.model import ResultRow
from kbench.devices.backend import is_timed_by_host
from kbench.report import units
from kbench.report.html import page, speed
from kbench.report.pivot import pivot_of
from kbench.report.run import failures
from kbench.report.shown import MOST_CONSTANTS, Note, headline, notes_of_run, rows_of, stack_line, unit_of
from kbench.report.summary import CaseSummary, RunSummary
from kbench.report.table import Table, table


def render_run(run: RunSummary, *, notes: Sequence[Note] = (), source: str = "") -> str:
    """Write a run as one HTML file; `notes` are on the file `source`. Raises MachineError."""
    first, pivot = run.rows[0], pivot_of(run)
    constants = [f"case {case}: {text}" for case, text in run.constants.items()]
    few = len(constants) <= MOST_CONSTANTS
    rows, elsewhere = rows_of(run, walls_apart=True), {"level", f">reference wall {unit_of(run.cases).name}"}
    answer = pivot.sentence() if pivot is not None else ""
    return page.render(
        "run",
        title=run.problem,
        headline=answer or headline(run),
        lead=[
            stack_line(first),
            "Timed by the host's clock." if is_timed_by_host(first.device) else "",
            *(constants if few else ()),
        ],
        source=source,
        pivot=pivot,
        grid=[speed.over_cases(pivot, rate) for rate in dict.fromkeys(("", pivot.rate))] if pivot and answer else [],
        results=table([{name: row[name] for name in row if name not in elsewhere} for row in rows]),
        means=_means(run),
        failures=failures(run, 0),
        speedups=speed.speedups(run.timed),
        right=_correctness(run),
        lacks=_lacks(run.cases),
        notes=[*notes, *notes_of_run(run, 1)],
        cases=run.cases,
        constants=[] if few else [*run.constants.items()],
        repeat=re.sub(r" --name[ =](?:'[^']*'|\S+)", "", run.command),  # a run of its name exists
        environment=_environment(run.rows),
    )


def _means(run: RunSummary) -> str:
    if all(len(run.counted(name)) < 2 for name in run.solutions):
        return ""
    means = ", ".join(f"{name} {run.shown_speedup_of(name)}" for name in run.solutions)
    return f"{run.mean_name.capitalize()} over cases: {means}"


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
