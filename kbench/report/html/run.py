"""A run or a sweep as a page: the verdict in words, speed, distance from the limit, correctness, and the evidence."""

import re
from collections.abc import Sequence

from kbench.core.levels import PROPERTIES
from kbench.core.model import ResultRow
from kbench.core.verdict import NOT_EVALUATED
from kbench.devices.backend import is_timed_by_host
from kbench.engine.journal import Record
from kbench.engine.summary import TRIVIAL, Score, fast_p, mean_speedup
from kbench.report import units
from kbench.report.html import page, speed
from kbench.report.pivot import pivot_of
from kbench.report.run import failures
from kbench.report.shown import MOST_CONSTANTS, Note, headline, notes_of_run, rows_of, stack_line, unit_of
from kbench.report.summary import CaseSummary, RunSummary
from kbench.report.swept import fast_in_words, mean_in_words
from kbench.report.table import Table, table


def render_run(
    run: RunSummary, *, sweep: str = "", record: Record | None = None, notes: Sequence[Note] = (), source: str = ""
) -> str:
    """Write a run, or a `sweep` of that name, as one HTML file; claimed speed-ups are in the journal of a sweep.

    `notes` are on the file `source`. Raises MachineError.
    """
    pivot = pivot_of(run)
    constants = list(dict.fromkeys(f"case {case.case}: {case.constants}" for case in run.cases if case.constants))
    few = len(constants) <= MOST_CONSTANTS
    answer = pivot.sentence() if pivot is not None else ""
    return page.render(
        "run",
        title=sweep or run.problem,
        headline=sweep_headline(run) if sweep else answer or headline(run),
        lead=[
            stack_line(run.environment),
            "Timed by the host's clock." if is_timed_by_host(run.rows[0].device) else "",
            f"{record.units_per_hour:.0f} processes an hour" if record is not None and record.units_per_hour else "",
            f"fast_p: {fast}" if (fast := fast_in_words(fast_p(_scores(run)) if sweep else {})) else "",
            *(constants if few else ()),
        ],
        source=source,
        pivot=pivot,
        grid=[speed.over_cases(pivot, rate) for rate in dict.fromkeys(("", pivot.rate))] if pivot and answer else [],
        results=_results(run, record),
        failures=failures(run, 0),
        speedups=speed.speedups(run),
        timed=len(run.timed),
        most_rows=speed.MOST_ROWS,
        right=_correctness(run),
        lacks=_lacks(run.cases),
        notes=[*notes, *notes_of_run(run, 0 if sweep else 1)],
        cases=run.cases,
        constants=[] if few else [*run.constants.items()],
        repeat=re.sub(r" --name[ =](?:'[^']*'|\S+)", "", run.command),  # a run of its name exists
        environment=_environment(run.rows),
    )


def sweep_headline(run: RunSummary) -> str:
    """Write the result of a sweep in one sentence."""
    scores = _scores(run)
    mean, trivial = mean_speedup(scores), sum(one.trivial for one in scores)
    text = f"{sum(case.passed for case in run.cases)} of {len(run.cases)} pass"
    if trivial:
        text += f", {trivial} of them a task that wrong answers pass too"
    return f"{text}." if mean is None else f"{text}. Speed-up: {mean_in_words(mean)}."


def _scores(run: RunSummary) -> list[Score]:
    return [
        Score(
            passed=case.passed,
            speedup=case.speedup if case.passed and not case.weak else None,
            trivial=case.passed and TRIVIAL in {*case.flags, *(finding.code for finding in case.findings)},
            weight=case.weight,
        )
        for case in run.cases
        if case.status not in NOT_EVALUATED
    ]


def _results(run: RunSummary, record: Record | None) -> Table:
    """Return the figures of each result, and what the author of a solution claims."""
    claims = {(line.problem, line.solution, line.case): line.claim for line in record.lines} if record else {}
    elsewhere = {"level", f">reference wall {unit_of(run.cases).name}"}
    cells = [
        {name: text for name, text in row.items() if name not in elsewhere}
        | {">claimed": "" if (claim := claims.get(case.key)) is None else f"{claim:g}×"}
        for row, case in zip(rows_of(run, walls_apart=True), run.cases, strict=True)
    ]
    return table(cells)


def _correctness(run: RunSummary) -> Table:
    """Return level, lacks and errors of each result; 1 is the largest allowed error."""
    return table(
        [
            {
                "solution": name,
                "case": speed.where(case, run.cases),
                "verdict": case.status.value,
                "level": case.level.value if case.level else "",
                "lacks": ", ".join(case.lacks),
                ">worst error": units.error_size(case.correctness.max_abs_err) if case.correctness else "",
                ">of the allowed error": f"{case.correctness.tolerance_ratio:.2g}" if case.correctness else "",
            }
            for case, name in zip(run.cases, run.names, strict=True)
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
