"""`gate`: compare a run with its baseline, case by case, and decide one exit code.

A case is SLOWER only if two independent measurements say so, and unclear only if two say so: a noisy second measurement
does not excuse a slow first one. An unclear case is measured again with as many processes as would decide. A gate with
a missing case, without any case or with unclear cases only does not pass.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase

from kbench.calibrate import Calibration
from kbench.compare import ComparedSide, measured
from kbench.core.errors import ExitCode, UsageError
from kbench.core.model import Time
from kbench.core.verdict import MARGIN, NOT_EVALUATED, Answer, Measurement, Verdict, allowance_between, judge_change
from kbench.history import CREEP, anchors
from kbench.storage.results import CaseKey, Run
from kbench.storage.settings import GateSettings

MOST_TRIALS = 3
"""The run and two measurements more, if the first two were neither SLOWER twice nor unclear twice."""
PROCESSES = 5
"""Processes of a second measurement; at least as many as the run had."""
MOST_PROCESSES = 20
"""Largest number of processes of a second measurement of an unclear case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """A case as measured on both sides. `differences`: log(t_new / t_old) where processes timed both."""

    old: Measurement
    new: Measurement
    differences: tuple[float, ...] | None = None


Remeasure = Callable[[tuple[CaseKey, ...], int], Mapping[CaseKey, Contest]]
"""Measures the named cases again on both sides, in this number of new processes."""

Confirm = Callable[[tuple[CaseKey, ...], int], Mapping[CaseKey, Measurement]]
"""Measures the named cases of the new side again, in this number of new processes."""


class GateOutcome(StrEnum):
    """Effect of one case on the gate."""

    OK = "ok"
    WARNED = "warned"
    FAILED = "failed"
    NO_VERDICT = "no_verdict"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedCase:
    """One case with all its measurements; `verdict` is the one that counts."""

    problem: str
    solution: str
    case: str
    outcome: GateOutcome
    verdict: Verdict
    looks: tuple[Verdict, ...] = ()
    """The first measurement and those that followed it."""
    creep: Verdict | None = None
    """Verdict against the oldest accepted baseline, if there is one."""
    old: ComparedSide | None = None
    new: ComparedSide | None = None

    @property
    def name(self) -> str:
        """`problem/solution/case`."""
        return f"{self.problem}/{self.solution}/{self.case}"

    @property
    def deciding(self) -> Verdict:
        """The verdict that decides: the one on creep if that failed, else its own."""
        crept = self.creep
        return crept if crept is not None and crept.reason_code == "creep" else self.verdict

    @property
    def slowdown(self) -> float:
        """Ratio of its times, for sorting: worst first; a new failure is worse than any slow-down."""
        if self.verdict.status is Answer.NEW_FAIL:
            return float("inf")
        return max(v.ratio or 0.0 for v in (self.verdict, self.creep) if v is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReport:
    """All cases in the order of the run, and the resulting exit code."""

    run: str
    baseline: str
    cases: tuple[GatedCase, ...]
    exit_code: ExitCode
    confirmed: bool
    """True if slow cases could be measured again."""
    notes: tuple[str, ...] = ()
    time: Time = Time.DEVICE

    @property
    def failed(self) -> tuple[GatedCase, ...]:
        """The cases that failed the gate, worst first."""
        found = [case for case in self.cases if case.outcome is GateOutcome.FAILED]
        return tuple(sorted(found, key=lambda case: -case.slowdown))

    @property
    def counts(self) -> dict[Answer, int]:
        """Number of cases by verdict."""
        return dict(Counter(case.verdict.status for case in self.cases))


def gate(
    run: Run,
    baseline: Run,
    policy: GateSettings | None = None,
    *,
    confirm: Confirm | None = None,
    versions: Iterable[Run] = (),
    calibration: Calibration | None = None,
) -> GateReport:
    """Compare a run with a baseline, and for what creeps with the oldest of the baseline's `versions`.

    Raises UsageError for a margin below the device's resolution, ResultsError.
    """
    policy = policy or GateSettings()
    time = Time(policy.time)
    new, old = measured(run, time=time), measured(baseline, time=time)
    oldest = anchors(versions, time)
    notes: list[str] = []
    contests, margins = {}, {}
    for key in new:
        if key in old:
            contests[key] = Contest(old=old[key].measurement, new=new[key].measurement)
            margins[key] = _margin(key, old[key], new[key], policy, calibration, notes)

    def remeasure(keys: tuple[CaseKey, ...], processes: int) -> Mapping[CaseKey, Contest]:
        assert confirm is not None
        fresh = confirm(keys, processes)
        return {key: Contest(old=contests[key].old, new=fresh[key]) for key in keys if key in fresh}

    first = {key: one.measurement for key, one in oldest.items()}
    again = remeasure if confirm is not None else None
    decided = decide(contests, policy, margins=margins, oldest=first, remeasure=again)
    cases = []
    for key in dict.fromkeys((*new, *old)):
        case = decided.get(key) or _unmatched(key, new.get(key), policy)
        if case.creep is not None and case.creep.reason_code == "creep":
            start = oldest[key].commit or "?"
            message = f"slower than the oldest accepted baseline (commit {start}), {case.creep.message}"
            case = replace(case, creep=replace(case.creep, message=message))
        cases.append(replace(case, old=old.get(key), new=new.get(key)))
    return report(run.name, baseline.name, cases, confirmed=confirm is not None, notes=notes, time=time)


def decide(
    contests: Mapping[CaseKey, Contest],
    policy: GateSettings,
    *,
    margins: Mapping[CaseKey, float] | None = None,
    oldest: Mapping[CaseKey, Measurement] | None = None,
    remeasure: Remeasure | None = None,
) -> dict[CaseKey, GatedCase]:
    """Judge every contest by `margins` or the policy, again where needed; the `oldest` measurements bound creep."""
    margins, oldest = margins or {}, oldest or {}
    default = policy.slower or MARGIN
    looks: dict[CaseKey, list[Verdict]] = {key: [] for key in contests}
    creep: dict[CaseKey, list[Verdict]] = {key: [] for key in contests if key in oldest}
    trial: Mapping[CaseKey, Contest] = contests
    for number in range(MOST_TRIALS):
        for key, contest in trial.items():
            if _open(looks[key]):
                margin = margins.get(key, default)
                verdict = judge_change(contest.old, contest.new, margin, differences=contest.differences)
                looks[key].append(verdict)
            if key in creep and _open(creep[key]):
                bar = max(CREEP, margins.get(key, default))  # a case with a wide margin may creep as far
                creep[key].append(judge_change(oldest[key], contest.new, bar))
        again = tuple(key for key in trial if _open(looks[key]) or (key in creep and _open(creep[key])))
        if remeasure is None or not again or number == MOST_TRIALS - 1:
            break
        wanted = [_processes([*looks[key], *creep.get(key, ())], contests[key]) for key in again]
        trial = remeasure(again, max(wanted))
    confirmed = remeasure is not None
    return {key: _settle(key, looks[key], creep.get(key, []), policy, confirmed=confirmed) for key in contests}


def report(
    run: str,
    baseline: str,
    cases: Sequence[GatedCase],
    *,
    confirmed: bool,
    notes: Sequence[str] = (),
    time: Time = Time.DEVICE,
) -> GateReport:
    """Combine the effects of all cases: a failure outranks a missing case, which outranks an unclear one.

    A gate whose judged cases are all unclear is inconclusive, unless unclear cases were asked to pass.
    """
    outcomes = {case.outcome for case in cases}
    judged = [case for case in cases if case.verdict.status is not Answer.NOT_COMPARABLE]
    unclear = [case for case in judged if case.verdict.status is Answer.UNCLEAR and case.outcome is not GateOutcome.OK]
    if GateOutcome.FAILED in outcomes:
        code = ExitCode.NEGATIVE
    elif GateOutcome.NO_VERDICT in outcomes:
        code = ExitCode.ENVIRONMENT
    elif not judged:
        code = ExitCode.NOTHING_SELECTED
    elif GateOutcome.INCONCLUSIVE in outcomes or len(unclear) == len(judged):
        code = ExitCode.INCONCLUSIVE
    else:
        code = ExitCode.OK
    found = tuple(cases)
    return GateReport(
        run=run, baseline=baseline, cases=found, exit_code=code, confirmed=confirmed, notes=tuple(notes), time=time
    )


def _margin(
    key: CaseKey,
    old: ComparedSide,
    new: ComparedSide,
    policy: GateSettings,
    calibration: Calibration | None,
    notes: list[str],
) -> float:
    """Choose the margin of a case, and compare it with the resolution of this device."""
    name = "/".join(key)
    rules = (override.slower for glob, override in policy.override.items() if fnmatchcase(name, glob))
    asked = next(rules, policy.slower)
    margin = asked or MARGIN
    rows = old.measurement.row, new.measurement.row
    known = calibration is not None and calibration.gpu_uuid == rows[1].gpu_uuid
    processes = min(len(old.measurement.log_ratios), len(new.measurement.log_ratios))
    if not known or calibration is None or new.time_ns is None or Time(policy.time) is not Time.DEVICE:
        return margin  # the noise of wall times is not calibrated
    resolution = calibration.detectable(new.time_ns, processes)
    if resolution is None or resolution <= margin + allowance_between(*rows):
        return margin
    limits = f"{name}: {processes} processes on this device cannot resolve less than {100 * resolution:.2g} %"
    if asked is not None:
        needed = f"--slower {100 * resolution:.1f}%, or more --processes"
        raise UsageError(f"{limits}; a margin of {100 * asked:.2g} % is asked for", hint=needed)
    notes.append(f"{limits}; this is its margin")
    return resolution


def _open(looks: Sequence[Verdict]) -> bool:
    """Return whether a case needs another measurement: it had none, or its last one is SLOWER or unclear for once."""
    if not looks:
        return True
    slower = [look.status is Answer.SLOWER for look in looks]
    unclear = [look.status is Answer.UNCLEAR or look.reason_code == "unstable" for look in looks]
    return (slower[-1] or unclear[-1]) and sum(slower) < 2 and sum(unclear) < 2


def _processes(looks: Sequence[Verdict], first: Contest) -> int:
    usual = max(PROCESSES, len(first.new.log_ratios))
    advised = max((look.processes_to_decide or 0 for look in looks), default=0)
    return max(usual, min(advised, MOST_PROCESSES))


def _conclude(looks: Sequence[Verdict], *, confirmed: bool) -> Verdict:
    """Combine all measurements into one verdict: SLOWER needs two of them, if there could be two."""
    last = looks[-1]
    if not confirmed:
        return last
    slow = [look for look in looks if look.status is Answer.SLOWER]
    if last.status is Answer.SLOWER and len(slow) < 2:
        return replace(last, status=Answer.UNCLEAR, reason_code="not_confirmed", message="not measured a second time")
    if slow and last.status in {Answer.SAME, Answer.FASTER, Answer.UNCLEAR}:
        message = f"a fresh measurement did not confirm {slow[0].message}"
        return replace(last, status=Answer.UNCLEAR, reason_code="not_confirmed", message=message)
    return last


def _settle(
    key: CaseKey, looks: Sequence[Verdict], creep: Sequence[Verdict], policy: GateSettings, *, confirmed: bool
) -> GatedCase:
    verdict = _conclude(looks, confirmed=confirmed)
    crept = _conclude(creep, confirmed=confirmed) if creep else None
    outcome = _outcome(verdict, policy)
    if crept is not None and crept.status is Answer.SLOWER:
        outcome = GateOutcome.FAILED
        crept = replace(crept, reason_code="creep")
    return GatedCase(**key._asdict(), outcome=outcome, verdict=verdict, looks=tuple(looks), creep=crept)


def _outcome(verdict: Verdict, policy: GateSettings) -> GateOutcome:
    if verdict.status in {Answer.SLOWER, Answer.NEW_FAIL}:
        return GateOutcome.FAILED
    if verdict.status is Answer.NOT_COMPARABLE:
        return GateOutcome.NO_VERDICT
    if verdict.status is Answer.UNCLEAR:
        return {"pass": GateOutcome.OK, "warn": GateOutcome.WARNED, "fail": GateOutcome.INCONCLUSIVE}[policy.unclear]
    return GateOutcome.OK


def _unmatched(key: CaseKey, new: ComparedSide | None, policy: GateSettings) -> GatedCase:
    """Decide about a case of one side only. A new case that fails is a failure, with or without a baseline."""
    answer, outcome = Answer.NOT_COMPARABLE, GateOutcome.NO_VERDICT
    if new is None:
        code, message = "not_in_new", "in the baseline, but not in the run"
        outcome = GateOutcome.WARNED if policy.missing == "warn" else outcome
    elif new.passed:
        code, message, outcome = "not_in_old", "new: the baseline does not have it", GateOutcome.WARNED
    elif new.measurement.status in NOT_EVALUATED:
        code, why = "not_evaluated", new.measurement.reason or new.measurement.status.value
        message = f"was not judged: {why}"
    else:
        answer, outcome = Answer.NEW_FAIL, GateOutcome.FAILED
        code = new.measurement.status.value
        message = f"{code}: {new.measurement.reason}"
    verdict = Verdict(status=answer, reason_code=code, message=message)
    return GatedCase(**key._asdict(), outcome=outcome, verdict=verdict)
