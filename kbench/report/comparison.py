"""A comparison as text, Markdown, JSON and CSV: the verdict first, then both times, the change and why."""

import math
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from kbench.compare import ComparedCase, ComparedSide, Comparison
from kbench.core.levels import UNKNOWN, level_in_words
from kbench.core.model import Time
from kbench.core.verdict import Answer, Verdict
from kbench.gate.rule import GatedCase
from kbench.report import units
from kbench.report.document import render_document, render_lines
from kbench.report.shown import MOST_CONSTANTS, stack_line
from kbench.report.summary import constants_in
from kbench.report.table import ReportPart, Table, one_line, table
from kbench.storage.json_values import plain

WORDS = {
    Answer.NEW_FAIL: "NEW FAIL",
    Answer.SLOWER: "SLOWER",
    Answer.UNCLEAR: "UNCLEAR",
    Answer.NOT_COMPARABLE: "NOT COMPARABLE",
    Answer.NEWLY_FIXED: "NEWLY FIXED",
    Answer.FASTER: "FASTER",
    Answer.SAME: "same",
}
"""Word for each verdict, worst first."""

APART = 1.1
"""Factor from which two ratios differ visibly (chosen)."""


def blocks(comparison: Comparison, *, verbosity: int = 0) -> list[str | ReportPart]:
    """Write a comparison as blocks; verbosity -1 keeps the summary only."""
    parts = [note_on_times(comparison), summary_line(comparison), *hints(comparison)]
    if verbosity < 0:
        return [summary_line(comparison)]
    shared = shared_reasons([(word_of(case), case.verdict.message) for case in comparison.cases if case.verdict])
    return [heading(comparison), table_of(comparison, shared), "\n".join(shared.values()), *parts]


def render_json(comparison: Comparison) -> str:
    """Write a comparison as one JSON document; the raw samples, megabytes, are in the files of the runs."""
    results = plain(comparison.cases)
    for line in results:
        for side in ("old", "new"):
            (line[side] or {}).pop("timings", None)
    others = _others(comparison)
    mean = comparison.geometric_mean(others[0]) if len(others) == 1 else None
    return render_document(
        "compare",
        status="ok",
        speedup=1 / mean if mean else None,
        by=comparison.by,
        base=comparison.base,
        time=comparison.time,
        labels=comparison.labels,
        counts={answer.value: count for answer, count in comparison.counts.items()},
        geometric_means={label: comparison.geometric_mean(label) for label in comparison.labels},
        results=results,
    )


def render_csv(comparison: Comparison) -> str:
    """Write a comparison as CSV, a line per case."""
    return render_lines([_line(case, comparison.time) for case in comparison.cases])


def shared_reasons(found: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return a line for each verdict and reason that several cases share; their rows leave it out."""
    return {
        (word, reason): f"{word} ({count} cases): {one_line(reason)}"
        for (word, reason), count in Counter(found).items()
        if count > 1 and reason
    }


def hints(comparison: Comparison) -> list[str]:
    """Say how two solutions are compared, where no line has both sides."""
    pairs = [case for case in comparison.cases if case.verdict is not None]
    if not pairs or any(case.old is not None and case.new is not None for case in pairs):
        return []
    return ["hint: `kbench run PROBLEM A B` measures two solutions in one run; `kbench compare RUN` compares these"]


def note_on_times(comparison: Comparison) -> str:
    """Say what a change is of, where the ratio of the two times contradicts it; empty if they agree."""
    names = [case.solution for case in comparison.cases if contradicts(case)]
    if not names:
        return ""
    where = "" if len(names) == len(comparison.cases) else f" of {', '.join(dict.fromkeys(names))}"
    return (
        f"note: the change{where} is that of the time over the reference's, which is timed beside it: the machine was "
        "not equally fast on both sides, so the two times do not show it"
    )


def contradicts(case: ComparedCase) -> bool:
    """Return whether the ratio of the two times lies outside the bounds of the change, and a tenth from it."""
    verdict, old, new = case.verdict, case.old and case.old.time_ns, case.new and case.new.time_ns
    if verdict is None or not (verdict.ratio and verdict.low and verdict.high and old and new):
        return False
    alone = new / old
    return not verdict.low <= alone <= verdict.high and abs(math.log(alone / verdict.ratio)) > math.log(APART)


def summary_line(comparison: Comparison) -> str:
    """Count the verdicts and give the mean change of each side: `5 cases: 1 slower, 4 same`."""
    judged = [case for case in comparison.cases if case.verdict is not None]
    counts = comparison.counts
    parts = [f"{counts[answer]} {word.lower()}" for answer, word in WORDS.items() if counts.get(answer)]
    plural = "case" if len(judged) == 1 else "cases"
    text = f"{len(judged)} {plural}: " + (", ".join(parts) or "nothing to judge")
    for label in comparison.labels:
        mean = comparison.geometric_mean(label)
        if mean is not None:
            named = f" of {label}" if len(_others(comparison)) > 1 else ""
            sides = [side for case in judged if case.label == label for side in (case.old, case.new)]
            weak = any(side is not None and side.measurement.weak for side in sides)
            text += f" · {comparison.mean_name}{named} {in_words(mean, weak=weak)}"
    return text


def in_words(ratio: float, *, weak: bool = False) -> str:
    """Write t_new / t_old with a word instead of a sign: `1.005× slower`; two digits if a clock does not confirm it."""
    if weak:
        return f"{units.speedup(max(ratio, 1 / ratio), weak=True)} {'slower' if ratio > 1 else 'faster'}"
    if abs(math.log(ratio)) < 5e-4:
        return "1.000×, the same"
    return f"{ratio:.3f}× slower" if ratio > 1 else f"{1 / ratio:.3f}× faster"


def change_of(verdict: Verdict | None) -> str:
    """Write the change of the time in percent, with the digits that its bounds support."""
    if verdict is None or verdict.ratio is None:
        return units.ABSENT
    half = None if verdict.low is None or verdict.high is None else (verdict.high - verdict.low) / 2
    return units.change(verdict.ratio - 1, half)


def bounds_of(verdict: Verdict | None) -> str:
    """Write both bounds of the change: `+6.9 … +8.6 %`."""
    if verdict is None or verdict.low is None or verdict.high is None:
        return units.ABSENT
    half = (verdict.high - verdict.low) / 2
    low, high = (units.change(end - 1, half) for end in (verdict.low, verdict.high))
    return f"{low.removesuffix(' %')} … {high}"


def word_of(case: ComparedCase) -> str:
    """Write the verdict; a base has none."""
    return "base" if case.verdict is None else WORDS[case.verdict.status]


def _level(case: ComparedCase) -> str:
    """Write the level of the new side, after the old one if they differ."""
    old, new = (side.measurement.standing if side is not None else UNKNOWN for side in (case.old, case.new))
    words = level_in_words(new.level, new.lacks, new.accepted)
    return words if not words or old.level in {None, new.level} else f"{old.level} → {words}"


def worst_first(comparison: Comparison) -> Comparison:
    """Sort the lines of two runs by verdict, then by change, the largest first; those of one run stay by case."""
    ranks = [*WORDS]
    if comparison.by == "solution":
        return comparison

    def rank(case: ComparedCase) -> tuple[int, float]:
        if case.verdict is None:
            return len(ranks), 0.0
        return ranks.index(case.verdict.status), -abs(math.log(case.verdict.ratio or 1.0))

    return replace(comparison, cases=tuple(sorted(comparison.cases, key=rank)))


def constant_lines(cases: Iterable[ComparedCase | GatedCase]) -> list[str]:
    """Return a line for each case with its constants, including those of `--set`; none for many cases."""
    found = {}
    for case in cases:
        known = case.new or case.old
        if known is not None and (constants := constants_in(known.measurement.row.overrides)):
            found[case.case] = constants
    return [f"case {one_line(case)}: {one_line(text)}" for case, text in found.items() if len(found) <= MOST_CONSTANTS]


def heading(comparison: Comparison) -> str:
    """Write both sides, their stack, which is the same if there are verdicts on speed, and the constants of cases."""
    sides = [side for case in comparison.cases for side in (case.old, case.new) if side is not None]
    if not sides:
        return ""
    here = sides[0].measurement.row
    stack = [stack_line(here), here.mode, "wall time" if comparison.time is Time.WALL else ""]
    named = f"{comparison.base} → {', '.join(_others(comparison))}"
    return "\n".join([named, " · ".join(filter(None, stack)), *constant_lines(comparison.cases)])


def _others(comparison: Comparison) -> list[str]:
    return [label for label in comparison.labels if label != comparison.base]


def table_of(comparison: Comparison, shared: Collection[tuple[str, str]]) -> Table:
    """Return the table of a comparison, a row per verdict; `shared` verdicts and reasons stand elsewhere."""
    cases = [case for case in comparison.cases if case.verdict is not None] or comparison.cases
    unit = units.unit_for(side.time_ns for case in cases for side in (case.old, case.new) if side is not None)
    others = _others(comparison)
    several = len(others) != 1
    new = others[0] if not several else "new" if comparison.base != "new" else "newer"
    problems = {case.problem for case in cases}
    rows = [
        {
            "verdict": word_of(case),
            "problem": case.problem if len(problems) > 1 else "",
            "solution": case.solution,
            "case": case.case,
            "run": case.label if several and comparison.by == "run" else "",
            "level": _level(case),
            f">{comparison.base} {unit.name}": _time(case.old, unit),
            f">{new} {unit.name}": _time(case.new, unit),
            ">change": change_of(case.verdict),
            f">{100 * comparison.confidence:.3g} % bounds": bounds_of(case.verdict),
            ">of limit": units.percent(case.new.percent_of_limit) if case.new else units.ABSENT,
            "": units.bar(case.new.percent_of_limit if case.new else None),
            "reason": unshared_reason(word_of(case), case.verdict, shared),
        }
        for case in cases
    ]
    return table(rows, wraps={"reason"}, spare={"level": 1, "of limit": 1, "": 1})


def unshared_reason(word: str, verdict: Verdict | None, shared: Collection[tuple[str, str]]) -> str:
    """Return the reason of a row, unless it is shared."""
    return "" if verdict is None or (word, verdict.message) in shared else one_line(verdict.message)


def _time(side: ComparedSide | None, unit: units.TimeUnit) -> str:
    if side is None or side.time_ns is None:
        return units.ABSENT
    return units.time_cell(side.time_ns, unit, side.shown_half_width_ns)


def cells(case: ComparedCase | GatedCase, verdict: Verdict | None, time: Time) -> dict[str, Any]:
    """Return the columns of any case that is compared; ratios are t_new / t_old, the level is the new side's."""
    standing = case.new.measurement.standing if case.new else UNKNOWN
    return {
        "problem": case.problem,
        "solution": case.solution,
        "case": case.case,
        "level": standing.level,
        "lacks": " ".join(standing.lacks),
        "verdict": verdict.status.value if verdict else "base",
        "reason": verdict.message if verdict else "",
        "time": time.value,
        "ratio": verdict.ratio if verdict else None,
        "ratio_low": verdict.low if verdict else None,
        "ratio_high": verdict.high if verdict else None,
        "processes": verdict.processes if verdict else None,
    }


def _line(case: ComparedCase, time: Time) -> dict[str, Any]:
    """Return a line of the CSV: flat, times in nanoseconds."""
    known = case.new or case.old
    return {
        **cells(case, case.verdict, time),
        "constants": constants_in(known.measurement.row.overrides) if known else "",
        "label": case.label,
        "old_time_ns": case.old.time_ns if case.old else None,
        "new_time_ns": case.new.time_ns if case.new else None,
        "percent_of_limit": case.new.percent_of_limit if case.new else None,
    }
