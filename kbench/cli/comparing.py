"""What `kbench compare` does with its flags."""

from dataclasses import replace
from typing import Any

from kbench import compare as verb
from kbench.cli.compare import CompareFlags, Only, Sort
from kbench.cli.output import Format, Output
from kbench.cli.saved import find_run
from kbench.compare import ComparedCase, Comparison
from kbench.core.errors import ExitCode, NothingSelectedError
from kbench.core.levels import UNKNOWN
from kbench.core.model import Time
from kbench.core.verdict import Answer, Thresholds
from kbench.report import comparison as report
from kbench.report import csvout
from kbench.report.document import plain, render_document

DROPPED_IN_JSON = ("timings",)
"""Raw samples are in the runs' own files; a comparison of ten runs would repeat megabytes."""


def compare(flags: CompareFlags) -> int:
    """Compare, and print what was found."""
    output, settings = flags.output(), flags.settings()
    folder = flags.results or settings.results
    found = verb.compare(
        [find_run(name, folder, settings) for name in flags.runs],
        by=flags.by.value if flags.by else None,
        base=flags.base,
        cases=tuple(flags.case or ()),
        thresholds=make_thresholds(flags.slower, flags.confidence),
        any_gpu=flags.any_gpu,
        time=flags.time or Time.DEVICE,
    )
    if all(case.verdict is None for case in found.cases):
        raise NothingSelectedError(
            f"`{found.base}` is all there is: nothing to compare it with",
            "`kbench run PROBLEM A B` makes a run of two solutions, `kbench compare OLD NEW` takes two runs",
        )
    _print(output, replace(found, cases=tuple(_chosen(found, flags))))
    return ExitCode.OK


def make_thresholds(slower: float | None, confidence: float | None) -> Thresholds:
    """Replace the default margin and confidence where others are given."""
    given = {} if slower is None else {"margin": slower}
    sure = {} if confidence is None else {"confidence": confidence}
    return Thresholds(**given, **sure)


def _chosen(found: Comparison, flags: CompareFlags) -> list[ComparedCase]:
    wanted = {
        None: set(Answer),
        Only.CHANGED: set(Answer) - {Answer.SAME},
        Only.SLOWER: {Answer.SLOWER, Answer.NEW_FAIL},
    }[flags.only]
    kept = [case for case in found.cases if case.verdict is None or case.verdict.status in wanted]
    match flags.sort:
        case Sort.NAME:
            return sorted(kept, key=lambda case: (case.problem, case.solution, case.case, case.label))
        case Sort.CHANGE:
            return sorted(kept, key=lambda case: -(case.verdict.ratio or 1.0) if case.verdict else 0.0)
        case Sort.VERDICT:
            return report.worst_first(kept)


def _print(output: Output, found: Comparison) -> None:
    match output.format:
        case Format.JSON:
            output.data(
                render_document(
                    "compare",
                    status="ok",
                    speedup=_speedup(found),
                    by=found.by,
                    base=found.base,
                    time=found.time,
                    labels=found.labels,
                    counts={answer.value: count for answer, count in found.counts.items()},
                    geometric_means={label: found.geometric_mean(label) for label in found.labels},
                    results=[_line(case) for case in found.cases],
                )
            )
        case Format.CSV:
            lines = [_cells(case, found.time) for case in found.cases]
            output.data(csvout.render_cells(list(lines[0]) if lines else [], [list(line.values()) for line in lines]))
        case Format.MD:
            output.data(report.render_markdown(found))
        case Format.TEXT:
            output.data(report.render_text(found, verbosity=output.verbosity, width=output.width))


def _speedup(found: Comparison) -> float | None:
    """Turn the one mean change of two sides into a speed-up; None where there are more sides, or no times."""
    others = [label for label in found.labels if label != found.base]
    mean = found.geometric_mean(others[0]) if len(others) == 1 else None
    return 1 / mean if mean else None


def _line(case: ComparedCase) -> dict[str, Any]:
    line: dict[str, Any] = plain(case)
    for side in ("old", "new"):
        for name in DROPPED_IN_JSON if line[side] else ():
            del line[side][name]
    return line


def _cells(case: ComparedCase, time: Time) -> dict[str, Any]:
    """One line of the CSV: flat, times in nanoseconds, ratios as t_new / t_old."""
    old, new, verdict = case.old, case.new, case.verdict
    standing = new.measurement.standing if new else UNKNOWN
    return {
        "problem": case.problem,
        "solution": case.solution,
        "case": case.case,
        "label": case.label,
        "level": standing.level,
        "lacks": " ".join(standing.lacks),
        "verdict": verdict.status.value if verdict else "base",
        "reason": verdict.message if verdict else "",
        "time": time.value,
        "old_time_ns": old.time_ns if old else None,
        "new_time_ns": new.time_ns if new else None,
        "ratio": verdict.ratio if verdict else None,
        "ratio_low": verdict.low if verdict else None,
        "ratio_high": verdict.high if verdict else None,
        "processes": verdict.processes if verdict else None,
        "percent_of_limit": new.percent_of_limit if new else None,
    }
