"""The parent's handle on a judge: start it, open cases, evaluate solutions, follow the stages."""

import contextlib
import math
import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from kbench.build import cache, interpreter
from kbench.catalog import registry
from kbench.catalog.problem import BOUNDED, OPENING, OwnTime, Step
from kbench.catalog.registry import Entry
from kbench.catalog.shapes import Derived
from kbench.core.forecast import LARGE_BYTES
from kbench.core.kernel_names import OwnShare
from kbench.core.model import Case, Cost, Environment, Failed, Outcome, Passed, Status
from kbench.core.timed import timed_of
from kbench.devices import admission
from kbench.devices.backend import backend
from kbench.host import nursery_process
from kbench.host.builder import built
from kbench.host.context import RunContext
from kbench.process.channel import Message, PeerGoneError, WireError, decode_constants, encode_constants
from kbench.process.child import JUDGE, Child, Launch, tree_rss_bytes
from kbench.process.child_error import KILLED, OUT_OF_MEMORY, ChildError, reported
from kbench.process.observed import Observed
from kbench.process.options import encode_options
from kbench.process.worker_start import STEADY_HOST
from kbench.sandbox import removal, rungs
from kbench.storage.settings import cache_dir

AHEAD = 2
"""Workers that start while one is judged: on the H200 machine a start takes longer than judging."""
OPEN_TIMEOUT_S = 600.0
"""Least seconds for the inputs of a case and the reference's first calls, and for a judge to begin with a request."""
UNFINISHED = {
    Step.IMPORT: "its file was not imported",
    Step.CONSTRUCT: "its `Model` was not constructed",
    Step.CALL: "its inputs were not made and its `Model` not called",
}
DERIVE_TIMEOUT_S = 120.0
PROFILE_TIMEOUT_S = 180.0
BESIDE = 4
"""Chosen. A judge on a CPU that does not queue for it uses one processor in four, because others compute beside it: a
thread of OpenMP spins while it waits for one that has no processor. On 2 cores, 12 fixtures of the selftest, two side
by side, took 25.5 s with two threads each and 16.3 s with one."""
SILENCE_TIMEOUT_S = 900.0
"""A judge that is silent for this many seconds is broken; all its waits are shorter."""
OUTCOME: TypeAdapter[Outcome] = TypeAdapter(Outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedCase:
    """A judge's answer about an opened case."""

    environment: Environment
    cost: Cost
    tensors: str = ""
    eval_mode: bool
    wait_s: float = 0.0
    """Time until the device, or memory on it, was free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """A judge's answer about a solution."""

    outcome: Outcome
    weights: str = ""
    unbuilt: str = ""
    """Words for what the solution tried that only a build may do; empty for nothing."""
    observed: Observed = field(default_factory=Observed)
    """Files that workers of the solution read."""


OnStage = Callable[[str, bool, float | None], None]
"""Called with (stage, ok, None) when a stage begins and (stage, ok, seconds) when it is over."""


class JudgeProcess:
    """A judge child."""

    def __init__(self, context: RunContext, *, problem: Entry, files: Sequence[Path], expected: Sequence[Entry]):
        self._context = context
        self._home = Path(tempfile.mkdtemp(prefix="judge-", dir=context.scratch))
        self.stuck = ""
        """Why the last request had no answer, where the problem's own code took too long with the constants of it."""
        self.is_overdue = False
        self._problem_time = OwnTime()
        self.holder = ""
        launch = Launch(
            module=JUDGE,
            environment={
                **interpreter.child_environment(),
                **cache.compiler_environment(self._home, home=False),
                **context.device.environment,
                **STEADY_HOST,
            },
            folder=Path.cwd(),
            rung=rungs.Rung(0),
        )
        self._child = Child(launch, nursery_process.present())
        config = self._worker_config(files, expected)
        config |= {"home": str(self._home), "reference_artefacts": reference_build(problem, context)["artefacts"]}
        with contextlib.suppress(PeerGoneError):  # the first request says why
            settings = {"environment": dict(launch.environment), "folder": str(launch.folder), "config": config}
            self._child.channel.send(settings)

    @property
    def has_ended(self) -> bool:
        """True once the judge has ended."""
        return self._child.has_ended

    @property
    def host_bytes(self) -> int:
        """Host memory of the judge, its nursery and its workers, in bytes."""
        return tree_rss_bytes(self._child.pid)

    @property
    def problem_s(self) -> float:
        """Seconds of the last evaluation in which the problem's own code ran within time limits of its own."""
        return self._problem_time.seconds

    @property
    def observed(self) -> Observed:
        """Record of the files that the problem's own code read in the judge, and of the programs that it started."""
        return self._child.observed

    def close(self) -> None:
        """Kill the judge and everything below it."""
        self._child.kill()
        removal.remove(self._home)

    def _worker_config(self, files: Sequence[Path], expected: Sequence[Entry]) -> Message:
        """Return how workers are run: the judge starts the first ones while it still imports torch itself."""
        return {
            "device": self._context.device.kind,
            "rung": self._context.rung,
            "scratch": str(self._context.scratch),
            "options": encode_options(self._context.options),
            "threads": self._threads,
            "cache": str(cache_dir()),
            "files": [str(path) for path in files],
            "compilers": self.ahead(expected, 0),
            "uuid": self._context.device.uuid if self._context.options.wait_for_device else "",
            "leases": str(admission.leases()),
            "holder": admission.signature(),
        }

    @property
    def _threads(self) -> int:
        processors = len(os.sched_getaffinity(0))
        beside = not (self._context.options.wait_for_device or backend(self._context.device.kind).has_own_memory)
        return max(1, processors // BESIDE) if beside else processors

    def start(self) -> None:
        """Wait until the judge has started. Raises ChildError."""
        self._within_limits({"op": "start"})

    def admit(self, files: Sequence[Path]) -> None:
        """Have the judge take further solutions of the same problem. Raises ChildError."""
        self._child.request({"op": "admit", "files": [str(path) for path in files]}, timeout_s=OPEN_TIMEOUT_S)

    def open(self, problem: Entry, case: Case) -> OpenedCase:
        """Have the judge load the problem. Raises ChildError if the problem fails or is too large."""
        try:
            answer = self._within_limits(about("open", problem, case.overrides) | {"timed": timed_of(case.name)})
        except ChildError as error:
            if error.status is Status.HARNESS_ERROR or KILLED.search(error.reason):
                raise ChildError(Status.HARNESS_ERROR, f"the judge ended: {error.reason}", error.log) from error
            if error.status is Status.OUT_OF_MEMORY:
                raise ChildError(Status.NOT_VERIFIED, f"the case does not fit: {error.reason}", error.log) from error
            raise ChildError(Status.REFERENCE_FAILED, f"the problem fails: {error.reason}", error.log) from error
        return OpenedCase(
            environment=Environment(**answer["environment"]),
            cost=Cost(**answer["cost"]),
            tensors=answer["tensors"],
            eval_mode=answer["eval_mode"],
            wait_s=answer["wait_s"],
        )

    def derive(self, problem: Entry, overrides: Mapping[str, Any]) -> Derived:
        """Have the judge find shapes that the problem does not list, by the constants that make them from a case's."""
        try:
            answer = self._within_limits(about("derive", problem, overrides), DERIVE_TIMEOUT_S)
        except ChildError as error:
            return Derived(reason=f"the problem could not be examined: {error.reason}")
        return Derived(cases=[*map(decode_constants, answer["cases"])], reason=answer["reason"])

    def call_bytes(self, problem: Entry, case: Case, *, in_full: bool) -> tuple[int | None, int | None]:
        """Return the size of a call at a case, from the shapes, and the device's memory.

        Unless `in_full`, outputs are left out where the rest is far from large.
        """
        small = {"small_bytes": 0 if in_full else LARGE_BYTES[self._context.device.kind] // 4}
        try:
            answer = self._within_limits(about("size", problem, case.overrides) | small, DERIVE_TIMEOUT_S)
        except ChildError:
            return None, None
        return answer["bytes"] or None, answer["memory_bytes"]

    def _within_limits(self, message: Message, total_s: float = math.inf) -> Message:
        """Return the answer to a request that runs the problem's code. Raises ChildError."""
        *_, (_, answer) = self._follow(message, OPEN_TIMEOUT_S, blamed=OPENING, total_s=total_s)
        if "error" in answer:
            raise reported(answer, self._child.log)
        return answer

    def _follow(
        self, message: Message, least_s: float, *, blamed: Collection[Step], total_s: float = math.inf
    ) -> Iterator[tuple[Step | None, Message]]:
        """Send a request; yield the reports of its progress, each with the step of the problem's code, and the answer.

        A judge that is silent for too long is killed; `blamed` are the steps at which that is the problem's fault.
        Waits for the device count against the total only. Raises ChildError: a harness error for a judge that ends
        before the problem's code begins.
        """
        began, limit_s, where = time.monotonic(), min(least_s, total_s), ""
        steps: list[Step | None] = [None]
        self.stuck = ""
        try:
            self._child.post(message)
            while "progress" in (received := self._child.receive(limit_s)):
                steps.append(Step(received["step"]) if "step" in received else None)
                where = received.get("where", "")
                yield steps[-1], received
                limit_s = min(self._limit_s(steps[-1], least_s), began + total_s - time.monotonic())
            yield None, received
        except ChildError as error:
            if error.status is not Status.CALL_TIMEOUT:
                if not any(steps) and self._child.has_ended:
                    raise ChildError(Status.HARNESS_ERROR, error.reason, error.log) from error
                raise
            self.is_overdue = True
            self.close()  # its late answer would be taken for that to the next request
            if time.monotonic() - began >= total_s:
                raise ChildError(error.status, f"no answer within {total_s:g} s", error.log) from error
            step = steps[-1]
            if step is None or step not in blamed:
                raise ChildError(Status.HARNESS_ERROR, error.reason, error.log) from error
            reason = self._overrun(step, where)
            if message["op"] != "derive" or steps.count(Step.IMPORT) == 1:  # else with other constants
                self.stuck = reason
            raise ChildError(error.status, reason, error.log) from error

    def _limit_s(self, step: Step | None, least_s: float = OPEN_TIMEOUT_S) -> float:
        limit_s = OPENING[step] * self._context.options.import_timeout_s if step is not None else 0.0
        return limit_s if step in BOUNDED else max(limit_s, least_s)

    def _overrun(self, step: Step, where: str) -> str:
        """Return why a problem whose step took too long is given up; `where` has constants that it was tried with."""
        limit_s = self._limit_s(step)
        import_s, at = math.ceil(2 * limit_s / OPENING[step]), f" at {where}" if where else ""
        more = f"`--import-timeout {import_s}` gives it {OPENING[step] * import_s} s"
        return f"{UNFINISHED[step]}{at} within {limit_s:g} s; {more}"

    def own_share(self, problem: Entry, entry: Entry, artefacts: Path) -> OwnShare:
        """Have a call of a solution profiled in a worker whose times do not count. Raises ChildError."""
        message = {"op": "profile", "solution": spec_of(problem, entry, cache.CacheEntry(folder=artefacts))}
        # A judge that waits for the device says so now and then.
        answer = self._child.request(message, timeout_s=PROFILE_TIMEOUT_S, extend=lambda _: PROFILE_TIMEOUT_S)
        status = Status(answer["status"]) if answer["status"] else None
        return OwnShare(share=answer["share"], reason=answer["reason"], status=status)

    def ahead(self, expected: Sequence[Entry], busy: int) -> list[str]:
        """Return the compilers of the solutions whose workers may start ahead; on a CPU a start disturbs a timing."""
        count = AHEAD if backend(self._context.device.kind).queues_calls else 1 - busy
        return [built(entry, self._context).compiler for entry in expected[:count]]

    def evaluate(self, message: Message, on_stage: OnStage) -> Evaluated:
        """Evaluate a solution. A judge that breaks is a harness error."""
        self._problem_time = OwnTime()
        stage, started = "", time.monotonic()
        try:
            for step, received in self._follow(message, SILENCE_TIMEOUT_S, blamed=BOUNDED):
                self._problem_time.note(step)
                if "progress" in received and step is None and received["stage"] != stage:
                    now = time.monotonic()
                    if stage:
                        on_stage(stage, True, now - started)
                    stage, started = received["stage"], now
                    self.holder = received.get("holder", "")
                    on_stage(stage, True, None)
            found = evaluated(received, self._child.log)
        except ChildError as error:
            status, reason = Status.HARNESS_ERROR, error.reason
            if self.stuck:
                status, reason = Status.REFERENCE_FAILED, f"the problem fails: {self.stuck}"
            return Evaluated(outcome=Failed(status=status, reason=reason, log=error.log))
        if stage and not found.unbuilt:
            on_stage(stage, isinstance(found.outcome, Passed), time.monotonic() - started)
        return found


def about(op: str, problem: Entry, overrides: Mapping[str, Any]) -> Message:
    """Return a request about a problem with some of its constants changed."""
    return {"op": op, "problem": str(problem.path), "overrides": encode_constants(overrides)}


def spec_of(problem: Entry, entry: Entry, build: cache.CacheEntry, *, rehearsed: bool = True) -> Message:
    """Return a solution for a request; `rehearsed`: its build has just seen all that it needs."""
    return {
        "name": entry.name,
        "path": str(entry.path),
        "builtin": entry.builtin or "",
        "entry": entry.attribute,
        "problem": str(problem.path),
        "artefacts": str(build.folder),
        "compiler": build.compiler,
        "rehearsed": rehearsed,
    }


def reference_build(problem: Entry, context: RunContext) -> Message:
    """Return what was built of a problem's own model, as the solution `eager`; nothing where nothing was."""
    build = built(registry.builtin(problem, "eager"), context)
    return {"artefacts": str(build.folder) if build.is_built else "", "compiler": build.compiler}


def evaluated(answer: Message, log: str) -> Evaluated:
    """Read a judge's answer; an error of the judge is a harness error or a lack of memory. Raises ChildError."""
    observed = Observed()
    try:
        observed.add(answer.get("solution_observed", observed.to_json()))
    except WireError as error:
        raise ChildError(Status.PROTOCOL_ERROR, f"the judge answered nonsense: {error}", log) from error
    if unbuilt := answer.get("unbuilt", ""):
        failed = Failed(status=Status.NOT_VERIFIED, reason=f"not built: it {unbuilt}")
        return Evaluated(outcome=failed, unbuilt=unbuilt, observed=observed)
    if "error" not in answer:
        outcome = OUTCOME.validate_python(answer["outcome"])
        return Evaluated(outcome=outcome, weights=answer["weights"], observed=observed)
    raised = answer["error"]
    reason = f"{raised['type']}: {raised['message']}" if raised["type"] else raised["message"]
    status = Status.HARNESS_ERROR
    if raised["stage"] == "reference":
        status, reason = Status.REFERENCE_FAILED, f"the problem fails: {reason}"
    elif OUT_OF_MEMORY.search(reason):
        status, reason = Status.NOT_VERIFIED, f"the case and the solution do not fit into memory together: {reason}"
    trace = "\n".join(part for part in (log, raised["traceback"]) if part)
    failed = Failed(status=status, reason=reason[:500], log=trace)
    return Evaluated(outcome=failed, observed=observed)
