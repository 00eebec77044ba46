"""Judges units, one after the other, on one device: holds the judge, the open case and the device's health."""

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kbench.build import manifest
from kbench.catalog import case_selection, registry, source
from kbench.catalog.registry import Entry
from kbench.catalog.shapes import Derived
from kbench.core.events import RunOptions, Waiting
from kbench.core.forecast import LARGE_BYTES
from kbench.core.kernel_names import OwnShare, share_source
from kbench.core.model import Case, Failed, Finding, FindingKind, Outcome, Status
from kbench.core.verdict import EVAL_MODE
from kbench.devices import peaks
from kbench.devices.backend import backend
from kbench.devices.selection import DeviceChoice
from kbench.engine.guard import Guard
from kbench.engine.ladder import MOST_ATTEMPTS
from kbench.engine.unit import Stages, TimeLeft, Unit, UnitResult, key_of
from kbench.host import builder, listing, sanitizer
from kbench.host.builder import built, keep_manifest
from kbench.host.context import RunContext
from kbench.host.judge_process import Evaluated, JudgeProcess, OpenedCase, reference_build, spec_of
from kbench.process.channel import Message, encode_constants
from kbench.process.child_error import ChildError
from kbench.process.options import encode_options
from kbench.storage.settings import cache_dir

MOST_UNITS = 64
"""Chosen. Units of one problem that a judge serves before a fresh one replaces it."""
MOST_GROWTH_BYTES = 4 << 30
"""Chosen. Bytes of host memory by which a judge may grow after its first unit."""

source.COMPUTE[:] = [listing.computed]  # in every process that judges, also on another host


def is_worn(units: int, first_bytes: int, now_bytes: int) -> bool:
    """Return whether a judge is replaced before its next unit, from its units and its host memory after the first."""
    return units >= MOST_UNITS or now_bytes - first_bytes > MOST_GROWTH_BYTES


@dataclass(slots=True, kw_only=True)
class Bench:
    """A problem under a set of options, and its judge."""

    problem: Entry
    problem_sha256: str
    """Its identity when it was opened last: an edited file, or one that it reads, is another problem."""
    context: RunContext
    sanitizer: sanitizer.Sanitizer
    files: list[Path]
    judge: JudgeProcess | None = None
    opened: tuple[Case, OpenedCase] | None = None
    stuck: dict[str, Failed] = field(default_factory=dict)
    """By constants, why the problem cannot be opened with them: it took too long, and would again."""
    is_tried: bool = False
    """A build of the problem's own model was tried."""
    verified: dict[Entry, str] = field(default_factory=dict)
    """Identity of each solution that the judge verified, by all that it read then."""
    units: int = 0
    first_bytes: int = 0

    def close(self) -> None:
        """End the judge and all below it."""
        if self.judge is not None:
            self.judge.close()
        self.judge = self.opened = None
        self.verified.clear()
        self.units = self.first_bytes = 0

    @property
    def judges(self) -> tuple[Entry, str, RunOptions]:
        """The problem, its identity and the options that it is for."""
        return self.problem, self.problem_sha256, self.context.options


class Evaluator:
    """One lane of a device: one judge, for one problem under equal options.

    Judges are forks of the present nursery. To be used within `nursery_process.nursery`, by one thread.
    """

    def __init__(self, device: DeviceChoice, rung: int, scratch: Path, guard: Guard):
        self._device, self._rung, self._scratch, self.guard = device, rung, scratch, guard
        self._peaks = peaks.load_peaks(device, cache_dir())
        self._bench: Bench | None = None

    def turn_to(self, problem: Entry, solutions: Sequence[Entry], options: RunOptions) -> None:
        """Judge units of this problem and these solutions from now on, with the judge that it has, or a new one."""
        files = [problem.path, *(entry.path for entry in solutions)]
        asked = problem, manifest.identity(problem.path), options
        if self._bench is None or self._bench.judges != asked:
            self.close()
            context = RunContext(options=options, device=self._device, rung=self._rung, scratch=self._scratch)
            looking = sanitizer.Sanitizer(problem, context)
            self._bench = Bench(problem=problem, problem_sha256=asked[1], context=context, sanitizer=looking, files=[])
        bench = self._bench
        known, bench.files = bench.files, files
        if bench.judge is not None and not bench.judge.has_ended:
            if set(files) <= set(known):
                bench.files = known
                return
            with contextlib.suppress(ChildError):
                bench.judge.admit(files)
                return
        bench.close()
        if not builder.problem_may_compile(bench.problem, bench.context):
            self._ready(solutions)

    @property
    def problem_path(self) -> str:
        """Path of the problem that has the judge; empty before the first one."""
        return "" if self._bench is None else str(self._bench.problem.path)

    @property
    def _present(self) -> Bench:
        assert self._bench is not None, "turned to a problem"
        return self._bench

    def start(self, expected: Sequence[Entry]) -> None:
        """Wait until the judge has started, so that its start counts as none of what it is asked first."""
        with contextlib.suppress(ChildError):  # the first request says why
            self._ready(expected).start()

    def derive(self, expected: Sequence[Entry], case: Case) -> Derived:
        """Have the judge find shapes that the problem does not list, no larger than a case; retry if it dies."""
        for _ in range(MOST_ATTEMPTS):
            judge = self._ready(expected)
            derived = judge.derive(self._present.problem, case.overrides)
            self._note_stuck(judge, case)
            if not judge.has_ended or judge.is_overdue:
                break
        return derived

    def call_bytes(self, cases: Sequence[Case], expected: Sequence[Entry] = ()) -> tuple[list[int | None], int | None]:
        """Return the size of a call at each case, from the shapes, and the device's memory.

        Once one is large, the others are sized in full: they are a way out.
        """
        sizes: list[int | None] = []
        memory_bytes = None
        for case in cases:
            size = None
            if key_of(case) not in self._present.stuck:
                judge = self._ready(expected)
                is_one_large = max((size or 0 for size in sizes), default=0) >= LARGE_BYTES[self._device.kind]
                size, memory_bytes = judge.call_bytes(self._present.problem, case, in_full=is_one_large)
                self._note_stuck(judge, case)
            sizes.append(size)
        return sizes, memory_bytes

    def why_not(self, case: Case, expected: Sequence[Entry]) -> Failed | None:
        """Return why the problem itself cannot be judged at a case; None if it can."""
        found = self._opened(case, expected)
        return found if isinstance(found, Failed) else None

    def explain(self, failed: Failed, solution: Entry, case: Case) -> Failed:
        """Add the sanitizer's findings on an illegal access at build time."""
        return self._present.sanitizer.explain(failed, solution, case)

    def evaluate(self, unit: Unit, following: Sequence[Entry] = (), left: TimeLeft | None = None) -> UnitResult:
        """Judge a unit of a built solution. A judge that breaks is a harness error.

        Workers get ready for `following` solutions; the seconds of this unit are spent of the time `left`.
        """
        if self._is_worn(self._present):
            self._present.close()
        stages = Stages(unit, self.guard.report)
        found = self._open([unit.solution, *following], stages)
        if isinstance(found, Failed):
            self.guard.look(found.status)
            return self._result(found, None, stages)
        judge = self._ready([unit.solution])
        failed = self._build_reference(judge, stages)
        if failed is not None:
            return self._result(failed, None, stages)
        answer = self._judged(judge, stages, following, left, found, rehearsed=False)
        if answer.unbuilt:
            failed = self._build(unit.solution, stages)
            if failed is None:
                answer = self._judged(judge, stages, following, left, found, rehearsed=True)
            else:
                answer = replace(answer, outcome=self.explain(failed, unit.solution, unit.case))
        identity = builder.keep_judged(unit.solution, answer.observed, self._present.context)
        if unit.process == 0:
            self._present.verified[unit.solution] = identity
        if left is not None:
            left.spend(stages.seconds, of_problem_s=judge.problem_s)
        outcome = answer.outcome
        self._look_after(outcome)
        self._present.units += 1
        if not isinstance(outcome, Failed):
            modes = []
            if found.eval_mode:
                why = "`--eval` asks for it" if unit.options.eval_mode else "the reference is random in training mode"
                modes = [Finding.note(EVAL_MODE, f"both sides ran in eval mode: {why}")]
            outcome = replace(outcome, findings=(*outcome.findings, *modes))
        result = self._result(outcome, found, stages, answer.weights)
        return replace(result, source_sha256=identity)

    def _judged(
        self,
        judge: JudgeProcess,
        stages: Stages,
        following: Sequence[Entry],
        left: TimeLeft | None,
        found: OpenedCase,
        *,
        rehearsed: bool,
    ) -> Evaluated:
        """Have the judge evaluate a solution."""

        def on_stage(stage: str, ok: bool, elapsed_s: float | None) -> None:
            if stage == "wait" and elapsed_s is None:
                self.guard.report(Waiting(device=self._device.name, holder=judge.holder))
            stages.changed(stage, ok, elapsed_s)

        unit = stages.unit
        request = self._request(judge, unit, following, left, rehearsed=rehearsed)
        return self._present.sanitizer.around(judge, request, unit.solution, unit.case, found.cost.dram_bytes, on_stage)

    def _build_reference(self, judge: JudgeProcess, stages: Stages) -> Failed | None:
        """Build what the problem's own model compiles, if it was seen to, for the worker in which it is timed."""
        eager = registry.builtin(stages.unit.problem, "eager")
        is_timed = not stages.unit.options.verify_only
        if not judge.observed.needs or not is_timed or built(eager, self._present.context).is_built:
            return None
        return self._build(eager, stages)

    def _build(self, entry: Entry, stages: Stages) -> Failed | None:
        """Rehearse a solution that was seen to need it, while no worker computes here; return its failure."""
        stages.changed("build", True, None)
        unit, began = stages.unit, time.monotonic()
        failed = builder.rehearse(unit.problem, entry, unit.case, unit.derived.cases, self._present.context)
        stages.changed("build", failed is None, time.monotonic() - began)
        return failed

    def own_share(self, stages: Stages) -> OwnShare | None:
        """Have one more worker name whose kernels a call of a timed solution launches; None if there is nothing to add.

        Whatever fails there is the reason why it is not known. A judge that fails is replaced.
        """
        unit = stages.unit
        source = share_source(
            names_kernels=backend(self._device.kind).names_kernels,
            is_asked=unit.options.require_custom,
            is_builtin=unit.solution.builtin is not None,
            processes=unit.options.max_processes,
        )
        if source == "builtin":
            return OwnShare(share=0.0)
        if source != "worker" or self.guard.gone:
            return None
        opened = self._open([unit.solution], Stages(unit, self.guard.report))
        bench = self._present
        if isinstance(opened, Failed) or bench.judge is None:
            return OwnShare(share=None, reason=opened.reason if isinstance(opened, Failed) else "the judge has ended")
        stages.changed("profile", True, None)
        began = time.monotonic()
        try:
            found = bench.judge.own_share(unit.problem, unit.solution, built(unit.solution, bench.context).folder)
        except ChildError as error:
            bench.close()
            found = OwnShare(share=None, reason=error.reason, status=error.status)
        if found.status is not None:
            self.guard.look(found.status)
        stages.changed("profile", True, time.monotonic() - began)
        return found

    def interrupt(self) -> None:
        """Kill the judge; from another thread than the one that evaluates, which gets a harness error."""
        if (bench := self._bench) is not None and (judge := bench.judge) is not None:
            judge.close()

    def close(self) -> None:
        """End the judge and all below it."""
        if self._bench is not None:
            self._bench.close()

    def _request(
        self, judge: JudgeProcess, unit: Unit, following: Sequence[Entry], left: TimeLeft | None, *, rehearsed: bool
    ) -> Message:
        """Return the request to evaluate one solution; the first process verifies everything, all processes time."""
        precision = unit.options.precision if unit.precision is None else unit.precision
        is_first, context = unit.process == 0, self._present.context
        others = case_selection.others(unit.problem, unit.options, unit.case) if is_first else {}
        return {
            "op": "evaluate",
            "left_s": None if left is None else left.seconds,
            "solution": spec_of(unit.problem, unit.solution, built(unit.solution, context), rehearsed=rehearsed),
            "reference": reference_build(unit.problem, context),
            "assignment": {
                "process": unit.process,
                "verify": is_first,
                "options": encode_options(replace(unit.options, precision=precision)),
                "follows": unit.follows,
                "other_cases": [encode_constants(overrides) for overrides in others.values()],
                "derived_cases": [encode_constants(overrides) for overrides in unit.derived.cases],
                "underived": unit.derived.reason,
                "next_compilers": judge.ahead(following, 1),
                "is_unchanged": self._is_unchanged(unit.solution),
            },
        }

    def _is_unchanged(self, solution: Entry) -> bool:
        """Return whether the files of a solution are those that the judge verified last."""
        verified = self._present.verified.get(solution)
        return bool(verified) and verified == manifest.identity(solution.path, solution.variant)

    def _open(self, expected: Sequence[Entry], stages: Stages) -> OpenedCase | Failed:
        self._ready(expected)
        bench, case = self._present, stages.unit.case
        if bench.opened is not None and bench.opened[0] == case:
            return bench.opened[1]
        stages.changed("open", True, None)
        began = time.monotonic()
        found = self._opened(case, expected)
        wait_s = found.wait_s if isinstance(found, OpenedCase) else 0.0
        if wait_s:
            stages.seconds["wait"] = wait_s
        stages.changed("open", isinstance(found, OpenedCase), time.monotonic() - began - wait_s)
        return found

    def _opened(self, case: Case, expected: Sequence[Entry]) -> OpenedCase | Failed:
        bench = self._present
        if (stuck := bench.stuck.get(key_of(case))) is not None:
            return stuck
        judge = self._ready(expected)
        try:
            found = judge.open(bench.problem, case)
        except ChildError as error:
            bench.opened = None
            self._note_stuck(judge, case, error.log)
            return Failed(status=error.status, reason=error.reason, log=error.log)
        bench.opened = (case, found)
        bench.problem_sha256 = keep_manifest(bench.problem.path, "", judge.observed)
        return found

    def _note_stuck(self, judge: JudgeProcess, case: Case, log: str = "") -> None:
        """Remember a case that took too long to open: what is asked of it next is answered at once."""
        if judge.stuck:
            failed = Failed(status=Status.REFERENCE_FAILED, reason=f"the problem fails: {judge.stuck}", log=log)
            self._present.stuck[key_of(case)] = failed

    def _ready(self, expected: Sequence[Entry]) -> JudgeProcess:
        """Return the judge: another one where it has died, with workers for the solutions that are expected first."""
        bench = self._present
        if bench.judge is None or bench.judge.has_ended:
            bench.close()
            if not bench.is_tried and builder.problem_may_compile(bench.problem, bench.context):
                bench.is_tried = True
                builder.build_problem(bench.problem, bench.context)
            bench.judge = JudgeProcess(bench.context, problem=bench.problem, files=bench.files, expected=expected)
        return bench.judge

    @staticmethod
    def _is_worn(bench: Bench) -> bool:
        if bench.judge is None or not bench.units:
            return False
        with contextlib.suppress(ChildError):
            bench.judge.start()  # it answers once the worker of the last unit has ended, whose memory is no growth
        now_bytes = bench.judge.host_bytes
        bench.first_bytes = bench.first_bytes or now_bytes
        return is_worn(bench.units, bench.first_bytes, now_bytes)

    def _look_after(self, outcome: Outcome) -> None:
        for finding in outcome.findings:
            if finding.kind is FindingKind.LEVEL and finding.status is not None:
                self.guard.look(finding.status)
        if isinstance(outcome, Failed):
            self.guard.look(outcome.status)

    def _result(self, outcome: Outcome, opened: OpenedCase | None, stages: Stages, weights: str = "") -> UnitResult:
        return UnitResult(
            outcome=outcome,
            stage_s=stages.seconds,
            environment=opened.environment if opened is not None else None,
            cost=opened.cost if opened is not None else None,
            peaks=self._peaks,
            tensors=opened.tensors if opened is not None else "",
            weights=weights,
            problem_sha256=self._present.problem_sha256,
        )
