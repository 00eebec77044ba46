"""Figures, notes and sentences of a run, which every report prints alike."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kbench.core.explain import CAUSES, explain
from kbench.core.model import Environment, FindingKind, ResultRow
from kbench.core.timed import BACKWARD, FORWARD
from kbench.devices.backend import is_timed_by_host
from kbench.report import units
from kbench.report.summary import HOST_BOUND, ONE_PROCESS, CaseSummary, RunSummary
from kbench.report.table import one_line
from kbench.report.units import TimeUnit

WORST_FIRST = (
    *("beats_limit", "library_time", "trivial_passes", "inputs_repeat", "imprecise"),
    *("interference", "attestation_weak", "throttled", "unstable"),
)
"""Flags by how much they change the use of a result; others come last."""
IMPRECISE = "imprecise"
"""A finding of this code says all that the flag does, and what to type."""
MOST_CONSTANTS = 3
"""Cases whose constants stand above a result; `-v`, `--json` and `kbench list --cases` have all."""
MOST_NAMED = 5
"""Solutions of a case that a line names, unless `-v` asks for all: a sweep has hundreds."""


def stack_line(here: ResultRow | Environment | None) -> str:
    """Write the device and the versions below it in one line, as far as they are known."""
    if here is None:
        return ""
    on_cpu = is_timed_by_host(here.device)
    versions = {} if on_cpu else {"driver": here.driver, "CUDA": here.cuda}
    device = f"CPU {here.gpu_name}".strip() if on_cpu else here.gpu_name
    known = [f"{name} {text}" for name, text in (versions | {"torch": here.torch}).items() if text]
    return " · ".join(filter(None, [device, *known]))


def unit_of(cases: Sequence[CaseSummary]) -> TimeUnit:
    """Choose the unit of a run's times."""
    return units.unit_for(time for case in cases for time in (case.time_ns, case.reference_ns))


def shown(case: CaseSummary, unit: TimeUnit) -> dict[str, str]:
    """Write the figures of a case, each with the digits that are confirmed; times are without their unit."""
    return {
        "verdict": case.status.value if case.passed else case.status.value.upper(),
        "time": units.time_cell(case.time_ns, unit, case.shown_half_width_ns),
        "wall": units.time_cell(case.wall_ns, unit),
        "reference": units.time_cell(case.reference_ns, unit, case.shown_half_width_ns),
        "reference_wall": units.time_cell(case.ref_wall_ns, unit),
        "speedup": case.shown_speedup,
        "percent_of_limit": units.percent(case.percent_of_limit),
        "worst_error": units.error_size(case.correctness.max_abs_err) if case.correctness else units.ABSENT,
    }


def rows_of(run: RunSummary, *, walls_apart: bool) -> list[dict[str, str]]:
    """Return the cells of a run by column, a row per case; with `walls_apart`, wall times have columns of their own."""
    unit = unit_of(run.cases)
    several = len(run.problems) > 1
    rows = []
    for case in run.cases:
        cells = shown(case, unit)
        time, reference = cells["time"], cells["reference"]
        if not walls_apart:
            time += f", wall {cells['wall']}" if HOST_BOUND in case.flags and case.wall_ns is not None else ""
            # most code does not call a reference as a graph
            is_replayed = "replayed" in case.flags and case.ref_wall_ns is not None
            reference += f", wall {cells['reference_wall']}" if is_replayed else ""
        problem = {"problem": case.problem} if several else {}
        rows.append(
            {
                **problem,
                "solution": case.solution,
                "case": case.case,
                "verdict": cells["verdict"],
                "level": case.shown_level,
                f">time {unit.name}": time,
                f">wall {unit.name}": cells["wall"] if walls_apart else units.ABSENT,
                f">reference {unit.name}": reference,
                f">reference wall {unit.name}": cells["reference_wall"] if walls_apart else units.ABSENT,
                ">speed-up": case.shown_speedup,
                ">95 % interval": case.shown_interval,
                ">of limit": cells["percent_of_limit"],
                **(_rates(case) if walls_apart else {}),
            }
        )
    return rows


def _rates(case: CaseSummary) -> dict[str, str]:
    row = next((row for row in case.rows if case.time_ns is not None), None)
    return {
        ">bandwidth": units.rate(row.dram_bytes, case.time_ns, "B") if row else units.ABSENT,
        ">arithmetic": units.rate(row.flops, case.time_ns, "FLOP") if row else units.ABSENT,
        ">peak memory": units.byte_size(row.peak_bytes) if row else units.ABSENT,
        ">in own kernels": units.percent(None if case.own_share is None else 100 * case.own_share),
    }


def headline(run: RunSummary) -> str:
    """Write the result of a run in one sentence."""
    passed = [case for case in run.cases if case.passed]
    timed = [(case, name) for case, name in zip(run.cases, run.names, strict=True) if case.passed and case.speedup]
    if len(run.cases) == 1:
        return sentence(run.cases[0])
    everyone = "Both" if len(passed) == 2 else f"All {len(passed)}"
    counted = f"{everyone if len(passed) == len(run.cases) else f'{len(passed)} of {len(run.cases)}'} pass"
    if not timed:
        return f"{counted}."
    if len(run.problems) < 2 and len(run.solutions) == 1 and run.speedup is not None:
        return f"{counted}: {_means(run, run.solutions[0])}."
    best, name = max(timed, key=lambda each: each[0].speedup or 0.0)
    at = f" on case {best.case}" if len({case.case for case in run.cases}) > 1 else ""
    named = f"The fastest is {name}" if len(timed) > 1 else name
    return f"{counted}. {named}{at}: {_measured(best)}"


def _means(run: RunSummary, solution: str) -> str:
    speed, both = (run.shown_speedup_of(solution, timed) for timed in (FORWARD, BACKWARD))
    passes = f" in {FORWARD}, {both} in {BACKWARD}" if run.counted(solution, BACKWARD) else ""
    mean = f" ({run.mean_name.removesuffix(' (forward)')})" if len(run.counted(solution)) > 1 else ""
    return f"{speed} the reference's speed{passes}{mean}"


def sentence(case: CaseSummary) -> str:
    """Write the result of one solution and case, as in the headline."""
    if not case.passed:
        return f"{case.solution} does not pass: {case.status.value}."
    if case.speedup is None:
        return f"{case.solution} is right; it was not timed."
    return f"{case.solution} is right: {_measured(case)}"


def _measured(case: CaseSummary) -> str:
    interval = f" (95 % interval {case.shown_interval})" if case.shown_interval != units.ABSENT else ""
    text = f"{case.shown_speedup} the reference's speed{interval}"
    if case.percent_of_limit is None:
        return f"{text}."
    device = (case.rows[0].gpu_name if case.rows else "") or "device"
    what = f"what this {device} can do"
    if case.percent_of_limit > 100 and "beats_limit" in case.flags:
        what = f"the limit by the peaks that were measured on this {device}"
    elif case.percent_of_limit > 100:
        what += " with data from memory: here caches are not flushed"
    return f"{text}, {units.percent(case.percent_of_limit)} of {what}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One line for a reader; `kind` is `warning`, `hint` or a finding's."""

    kind: str
    text: str
    code: str = ""

    @property
    def line(self) -> str:
        """The note as a line of text."""
        return f"{self.kind}: {self.text}"


def notes_of_run(run: RunSummary, verbosity: int = 0) -> list[Note]:
    """Return one line of warnings for each solution, and one hint at most; with `-v` a line for each code."""
    if verbosity > 0:
        found: dict[Note, list[tuple[str, str]]] = {}
        for case, name in zip(run.cases, run.names, strict=True):
            for note in _notes_of_case(case):
                found.setdefault(note, []).append((name, case.case))
        lines = [replace(one, text=f"{_where(cases, None)}: {one.text} [{one.code}]") for one, cases in found.items()]
        return lines + _hints(run)
    return _warnings(run) + ([] if run.failing else _hints(run)[:1])


def _notes_of_case(case: CaseSummary) -> list[Note]:
    """Return the findings and flags of a case, but for the finding that is the failure itself."""
    findings = [
        Note(kind=finding.kind.value, code=finding.code, text=one_line(finding.message))
        for finding in case.findings
        if case.passed or not finding.fatal or finding.kind is FindingKind.LEVEL
    ]
    elsewhere = {HOST_BOUND, ONE_PROCESS, *(IMPRECISE for finding in case.findings if finding.code == IMPRECISE)}
    flags = sorted((flag for flag in case.flags if flag not in elsewhere), key=_rank)
    return findings + [Note(kind="warning", code=flag, text=one.meaning) for flag in flags if (one := explain(flag))]


def warnings_of(case: CaseSummary) -> dict[str, Note]:
    """Return by code what changes the use of a result: neither a note, nor what its level's column names."""
    return {one.code: one for one in _notes_of_case(case) if one.kind != "note" and one.code not in case.lacks}


def _warnings(run: RunSummary) -> list[Note]:
    """Say the worst of each solution in words and the rest by code; solutions with the same worst share a line."""
    found: dict[str, list[Note]] = {}
    for case, name in zip(run.cases, run.names, strict=True):
        found.setdefault(name, []).extend(warnings_of(case).values())
    alike: dict[Note, list[str]] = {}
    for name, warned in found.items():
        if warned:
            alike.setdefault(min(warned, key=lambda one: _rank(one.code)), []).append(name)
    lines = []
    for worst, names in alike.items():
        counts = Counter(other.code for name in names for other in found[name])
        of = sum(name in names for name in run.names)
        count = counts.pop(worst.code)
        first = f"{worst.code}, {count} of {of} results" if of > 1 else worst.code
        more = [f"{other} ({count})" if of > 1 else other for other, count in counts.most_common()]
        also = f"; also {', '.join(more)}" if more else ""
        text = f"{_joined(names, MOST_NAMED)}: {worst.text} [{first}]{also}"
        lines.append(Note(kind="warning", text=text))
    return lines


def _rank(code: str) -> int:
    return WORST_FIRST.index(code) if code in WORST_FIRST else len(WORST_FIRST)


def _hints(run: RunSummary) -> list[Note]:
    """Say once what to do about the warnings, with their codes; a finding `imprecise` says it itself."""
    advised: dict[str, dict[str, None]] = {}
    for case in run.cases:
        found = warnings_of(case)
        for code, one in found.items():
            known = explain(code)
            is_said = one.kind != "warning" and code == IMPRECISE
            if known is not None and not is_said and CAUSES.get(code, frozenset()).isdisjoint(found):
                advised.setdefault(known.fix, {})[code] = None
    return [Note(kind="hint", text=f"{', '.join(codes)}: {fix}") for fix, codes in advised.items()]


def _where(cases: Sequence[tuple[str, str]], most: int | None) -> str:
    """Name solutions and cases: `eager and mine, case small; mine, case full`; not more than `most` of a case."""
    solutions: dict[str, list[str]] = {}
    for solution, case in cases:
        solutions.setdefault(case, []).append(solution)
    return "; ".join(f"{_joined(names, most)}, case {case}" for case, names in solutions.items())


def where(failed: Sequence[CaseSummary], names: Sequence[str], run: RunSummary) -> str:
    """Name the solutions and cases of failures that are alike: `a and b, all 12 cases`, `a (3 cases), b (1 case)`."""
    if len(failed) <= 2:
        return _where([(name, case.case) for name, case in zip(names, failed, strict=True)], MOST_NAMED)
    counts, totals = Counter(names), Counter(run.names)
    if all(counts[name] == totals[name] for name in counts) and len({*counts.values()}) == 1:
        n = max(counts.values())
        return f"{_joined([*counts], MOST_NAMED)}, {f'all {n} cases' if n > 1 else 'the case'}"
    named = [f"{name} ({n} case{'s' * (n > 1)})" for name, n in counts.items()]
    return _joined(named, MOST_NAMED)


def _joined(names: Sequence[str], most: int | None) -> str:
    names = [*names]
    if most is not None and len(names) > most:
        names[most - 1 :] = [f"{len(names) - most + 1} more"]
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
