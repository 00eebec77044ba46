"""Judges units, one after the other, on one device: holds the judge, the open case and the device's health."""

import contextlib
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kbench.build import cache
from kbench.children.child import ChildError
from kbench.core.events import RunOptions
from kbench.core.model import Case, Failed, Finding, FindingKind, Outcome, Status
from kbench.devices import peaks
from kbench.devices.selection import DeviceChoice
from kbench.host import health, sanitizer
from kbench.host.judge_process import JudgeProcess, OpenedCase
from kbench.plugins import case_selection
from kbench.plugins.registry import Entry
from kbench.plugins.shapes import Derived
from kbench.sandbox import rungs
from kbench.storage import rows as rowmaker
from kbench.storage.settings import cache_dir
from kbench.units.unit import Unit, UnitResult
from kbench.wire.channel import Message
from kbench.wire.options import encode_options

EVAL_MODE = Finding.note("eval_mode", "the reference is random in training mode; both sides ran in eval mode")
MOST_ATTEMPTS = 3
MOST_UNITS = 64
"""Chosen. Units of one problem that a judge serves before a fresh one takes over."""
MOST_GROWTH_BYTES = 4 << 30
"""Chosen. What a judge may hold of the host's memory beyond what it held after its first unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageProgress:
    """A stage of a unit begins, or ended after `elapsed_s`."""

    stage: str
    """`open` is the judge's own; `wait` ends when the device is free."""
    ok: bool = True
    elapsed_s: float | None = None
    holder: str = ""
    """Of the device that is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wear:
    """What a judge has been through."""

    units: int
    first_bytes: int
    """Of the host's memory, after its first unit."""
    now_bytes: int


def is_worn(wear: Wear, most_units: int) -> bool:
    """Return whether a judge is to be replaced before its next unit."""
    return wear.units >= most_units or wear.now_bytes - wear.first_bytes > MOST_GROWTH_BYTES


class Evaluator:
    """One lane of a device: at most one judge at a time, which serves units of one problem and equal options.

    The judge is a fork of the present nursery, so that another problem costs a fork and no start. To be used within
    `nursery_process.nursery`, by one thread.
    """

    def __init__(self, device: DeviceChoice, rung: int, scratch: Path, watch: health.Watch):
        self._device = device
        self._rung = rung
        self._scratch = scratch
        self.watch = watch
        self.peaks = peaks.load_peaks(device, cache_dir())
        self._problem: Entry | None = None
        self._options: RunOptions | None = None
        self._files: list[Path] = []
        self._judge: JudgeProcess | None = None
        self._opened: tuple[Case, OpenedCase] | None = None
        self._units = self._first_bytes = 0
        self._sanitizer: sanitizer.Sanitizer | None = None

    def turn_to(self, problem: Entry, solutions: Sequence[Entry], options: RunOptions) -> None:
        """Judge units of this problem and these solutions from now on: end what judged others, start a judge.

        A judge of the same problem and options stays, and keeps the case that it has opened.
        """
        files = [problem.path, *(entry.path for entry in solutions)]
        judge, same = self._judge, (problem, options) == (self._problem, self._options)
        self._problem, self._options, self._files = problem, options, files
        if same and judge is not None and not judge.has_ended:
            with contextlib.suppress(ChildError):
                judge.admit(files)
                return
        self.close()
        self._sanitizer = sanitizer.Sanitizer(problem, options, self._device, self._rung, self._scratch)
        self._start(solutions)

    def derive(self, expected: Sequence[Entry] = ()) -> Derived:
        """Have the judge look for shapes that the problem does not list; where it dies meanwhile, another one."""
        assert self._problem is not None, "turned to a problem"
        for _ in range(MOST_ATTEMPTS):
            judge = self._ready(expected)
            derived = judge.derive(self._problem)
            if not judge.has_ended:
                break
        return derived

    def call_bytes(self, cases: Sequence[Case], expected: Sequence[Entry] = ()) -> tuple[list[int | None], int | None]:
        """Return what a call takes at each case, as far as shapes tell, and the device's memory."""
        assert self._problem is not None, "turned to a problem"
        return self._ready(expected).call_bytes(self._problem, cases)

    def why_not(self, case: Case, expected: Sequence[Entry]) -> Failed | None:
        """Return why the problem itself cannot be judged at a case; None where it can."""
        assert self._problem is not None, "turned to a problem"
        try:
            self._ready(expected).open(self._problem, case)
        except ChildError as error:
            self._opened = None
            return Failed(status=error.status, reason=error.reason, log=error.log)
        return None

    def explain(self, failed: Failed, solution: Entry, case: Case) -> Failed:
        """Add what a sanitizer says of an illegal access at build time."""
        assert self._sanitizer is not None, "turned to a problem"
        return self._sanitizer.explain(failed, solution, case)

    def evaluate(
        self, unit: Unit, following: Sequence[Entry] = (), deadline_s: float | None = None
    ) -> Generator[StageProgress, None, UnitResult]:
        """Judge a unit; yields what goes on, returns what came of it. A judge that breaks is a harness error.

        The solution must have been built. `following` are the solutions that come next, for which workers get ready;
        `deadline_s` is the monotonic time at which everything about this solution must be over.
        """
        if self._judge is not None and self._is_worn(self._judge):
            self.close()
        stage_s: dict[str, float] = {}
        found = yield from self._open(unit, [unit.solution, *following], stage_s)
        if isinstance(found, Failed):
            self.watch.look(found.status)
            return self._result(found, None, stage_s)
        request = self._request(unit, following, deadline_s)
        judge = self._ready([unit.solution])
        assert self._sanitizer is not None, "turned to a problem"
        stages = self._sanitizer.around(judge, request, unit.solution, unit.case, found.cost.dram_bytes)
        for stage, ok, elapsed_s in stages:
            if elapsed_s is not None:
                stage_s[stage] = stage_s.get(stage, 0.0) + elapsed_s
            yield StageProgress(stage=stage, ok=ok, elapsed_s=elapsed_s, holder=judge.holder)
        outcome = judge.outcome
        self._look_after(outcome)
        self._units += 1
        if not isinstance(outcome, Failed):
            modes = [rowmaker.EVAL_ASKED] if unit.options.eval_mode else [EVAL_MODE] if found.eval_mode else []
            outcome = replace(outcome, findings=(*outcome.findings, *modes))
        return self._result(outcome, found, stage_s, judge.weights)

    def interrupt(self) -> None:
        """Kill the judge; from another thread than the one that evaluates, which gets a harness error."""
        judge = self._judge
        if judge is not None:
            judge.close()

    def close(self) -> None:
        """End the judge and all below it."""
        if self._judge is not None:
            self._judge.close()
        self._judge = self._opened = None

    def _request(self, unit: Unit, following: Sequence[Entry], deadline_s: float | None) -> Message:
        problem, options = unit.problem, unit.options
        cached = cache.entry_for(unit.solution.path, unit.solution.variant, self._device.key, cache_dir())
        judge = self._ready([unit.solution])
        request = judge.request(
            problem,
            unit.solution,
            artefacts=cached.folder,
            process=unit.process,
            other_cases=case_selection.others(problem, options, (unit.case,)) if unit.process == 0 else {},
            derived=unit.derived,
            following=following,
            deadline_s=deadline_s,
        )
        request["assignment"]["follows"] = unit.follows
        if unit.precision is not None:
            request["assignment"]["options"] = encode_options(replace(options, precision=unit.precision))
        return request

    def _open(
        self, unit: Unit, expected: Sequence[Entry], stage_s: dict[str, float]
    ) -> Generator[StageProgress, None, OpenedCase | Failed]:
        """Open the case in the judge, unless it is already."""
        judge = self._ready(expected)
        if self._opened is not None and self._opened[0] == unit.case:
            return self._opened[1]
        yield StageProgress(stage="open")
        began = time.monotonic()
        found: OpenedCase | Failed
        try:
            found = judge.open(unit.problem, unit.case)
            self._opened = (unit.case, found)
        except ChildError as error:
            self._opened = None
            found = Failed(status=error.status, reason=error.reason, log=error.log)
        stage_s["open"] = time.monotonic() - began
        yield StageProgress(stage="open", ok=isinstance(found, OpenedCase), elapsed_s=stage_s["open"])
        return found

    def _ready(self, expected: Sequence[Entry]) -> JudgeProcess:
        """Return the judge: another one where it has died."""
        judge = self._judge
        if judge is None or judge.has_ended:
            self.close()
            judge = self._start(expected)
        return judge

    def _is_worn(self, judge: JudgeProcess) -> bool:
        if not self._units:
            return False
        now_bytes = judge.host_bytes
        self._first_bytes = self._first_bytes or now_bytes
        return is_worn(Wear(units=self._units, first_bytes=self._first_bytes, now_bytes=now_bytes), MOST_UNITS)

    def _start(self, expected: Sequence[Entry]) -> JudgeProcess:
        """Start a judge and, below it, workers that will do for the solutions that are expected first."""
        assert self._options is not None, "turned to a problem"
        self._units = self._first_bytes = 0
        self._judge = JudgeProcess(
            self._options,
            self._device,
            self._rung,
            self._scratch,
            files=self._files,
            expected=expected,
        )
        return self._judge

    def _look_after(self, outcome: Outcome) -> None:
        """Probe the device after an end that can have hurt it."""
        for finding in outcome.findings:
            if finding.kind is FindingKind.LEVEL and finding.status is not None:
                self.watch.look(finding.status)
        if isinstance(outcome, Failed):
            self.watch.look(outcome.status)

    def _result(
        self, outcome: Outcome, opened: OpenedCase | None, stage_s: dict[str, float], weights: str = ""
    ) -> UnitResult:
        return UnitResult(
            outcome=outcome,
            stage_s=stage_s,
            environment=opened.environment if opened is not None else None,
            cost=opened.cost if opened is not None else None,
            peaks=self.peaks,
            weights=weights,
            isolation=rungs.Rung(self._rung).name.lower(),
            eval_mode=opened is not None and opened.eval_mode,
        )


def unverified(reason: str) -> UnitResult:
    """Return what is said of a unit that nobody could judge."""
    return UnitResult(outcome=Failed(status=Status.NOT_VERIFIED, reason=reason))
