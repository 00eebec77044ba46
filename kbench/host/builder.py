"""The build step: a separate worker compiles a solution before a device is needed."""

import contextlib
import dataclasses
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from kbench.build import cache, hints, interpreter, manifest
from kbench.catalog import case_selection, registry
from kbench.catalog.case_selection import Rehearsal
from kbench.catalog.registry import Entry
from kbench.core import traces
from kbench.core.model import Case, Failed, Status
from kbench.core.printable import printable
from kbench.core.timed import FORWARD
from kbench.devices import admission
from kbench.devices.backend import backend
from kbench.host import cache_bounds, nursery_process
from kbench.host.context import RunContext
from kbench.host.turn import Turn
from kbench.process.channel import Message, WireError, encode_constants, field
from kbench.process.child import WORKER, Child
from kbench.process.child_error import KILLED, ChildError
from kbench.process.observed import Observed
from kbench.process.worker_start import SETUP_TIMEOUT_S, Confinement, at_most_available
from kbench.sandbox import hidden_paths, namespaces, removal
from kbench.storage.settings import cache_dir

MEMORY_LIMIT_BYTES = 64 << 30
LAYOUTS_S = 120.0
"""Time limit in seconds for calls on other layouts of the inputs, which may compile again."""
GIVES_WAY = 19
"""Niceness of builds beside judges. With 5, results of two right kernels seemed up to a millisecond late while 14
builds ran on 16 processors, and were taken for hidden ones (docs/adr/0006-gate-clock.md)."""
CRASHES = {Status.CRASHED, Status.EXITED, Status.LAUNCH_FAILED, Status.ILLEGAL_ACCESS}
"""Ends of a process or of its device context: nothing further is rehearsed in it."""
JUDGES_MATTER = {Status.RAISED, Status.INIT_FAILED, Status.OUT_OF_MEMORY, *CRASHES}
"""Failures that a judge finds as well, in a worker that it can replace."""
COMPILATION = {Status.BUILD_FAILED, Status.BUILD_TIMEOUT}
MAYBE_THE_PROBLEM = frozenset({Status.INIT_FAILED, Status.IMPORT_TIMEOUT})
"""Failures that may be the problem's own: a build imports it for the constructor's arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A report of a builder's process about what it compiled so far."""

    extensions: int
    compiler: str
    """With what it compiles beside extensions (`observation.compiler_of`); empty for nothing."""
    lives: bool = True

    @classmethod
    def read(cls, answer: Message) -> Self:
        """Read it from an answer. Raises ChildError for nonsense."""
        try:
            return cls(extensions=field(answer, "extensions", int, 0), compiler=field(answer, "compiler", str)[:20])
        except WireError as error:
            raise ChildError(Status.PROTOCOL_ERROR, f"the process answered nonsense: {error}", "") from error


class Builder:
    """Builds solutions into the cache, each in a sandboxed process that may compile and write one staging folder.

    Threads may build in parallel. Builders that share a device share a `turn`: only one may put inputs on it.
    """

    def __init__(self, problem: Entry, context: RunContext, *, turn: Turn | None = None):
        self._problem = problem
        self._context = context
        self._turn = turn or Turn()
        self._niceness = 0 if turn is None else GIVES_WAY
        self._starting = threading.Lock()
        self._children: list[Child] = []
        self._stopped = False

    def stop(self) -> None:
        """Kill all builds and start no more."""
        with self._starting:
            self._stopped, children = True, [*self._children]
        for child in children:
            child.kill()

    def build(
        self, entry: Entry, cases: Mapping[str, Rehearsal], *, calls: bool = False, device_key: str = ""
    ) -> Failed | None:
        """Rehearse the solution for every case, by its key: it may start programs, and what it compiles is kept.

        It is constructed, and called unless its construction compiled all that it seems to need; with `calls` in any
        case. The files that it read become its manifest. Publishes on success and returns the failure otherwise. Only
        failures to compile or to end in time are failures of a build: a judge finds the others. Where the problem fails
        before, nothing is published. The machine may kill a compiler once. Raises MachineError for an unusable cache.
        """
        failed = self._build(entry, cases, calls, device_key or self._context.device.key)
        is_kbenchs = failed is not None and failed.status is Status.HARNESS_ERROR
        if failed is not None and (is_kbenchs or KILLED.search(f"{failed.reason}\n{failed.log}")) and not self._stopped:
            return self._build(entry, cases, calls, device_key or self._context.device.key)
        return failed

    def _build(self, entry: Entry, cases: Mapping[str, Rehearsal], calls: bool, device_key: str) -> Failed | None:
        cached = cache.entry_for(entry.path, entry.variant, device_key, cache_dir())
        try:
            staging = cached.stage()
        except OSError as error:
            return Failed(status=Status.BUILD_FAILED, reason=printable(cache.uncopied(error)))
        home = Path(tempfile.mkdtemp(prefix=f"build-{entry.name[:40]}-", dir=self._context.scratch))
        environment, writable = cache.compiler_environment(staging), [staging, home]
        if entry.builtin is not None and (bytecode := interpreter.bytecode_folder()) is not None:
            environment |= interpreter.bytecode(writes=True)
            writable.append(bytecode)
        place = self._confined(entry, home, writable, staging / cache.TEMPORARY_FOLDER)
        done = cached.rehearsed()
        try:
            with contextlib.ExitStack() as turns, self._running(place, environment) as child:
                if self._turn.whole:
                    turns.enter_context(self._turn.taken)
                    turns.enter_context(self._turn.computing(child))
                try:
                    self._set_up(child, place)
                    compiler = self._go_through(child, entry, cases, turns, done, calls=calls)
                except ChildError as error:
                    return describe(error)
                finally:
                    keep_manifest(entry.path, entry.variant, child.observed)
                child.kill()
                namespaces.clear(place.surroundings)
                if compiler is None:
                    return None
                compiler = compiler or cached.compiler
                try:
                    cache.entry_for(entry.path, entry.variant, device_key, cache_dir()).publish(staging, done, compiler)
                except (cache.UnfitArtefactsError, OSError) as error:
                    why = error.strerror if isinstance(error, OSError) else error
                    return Failed(status=Status.BUILD_FAILED, reason=f"its artefacts cannot be cached: {why}")
                cache_bounds.trim_now_and_then(cache_dir())
                return None
        finally:
            removal.remove(staging)
            removal.remove(home)

    def _go_through(
        self,
        child: Child,
        entry: Entry,
        cases: Mapping[str, Rehearsal],
        turns: contextlib.ExitStack,
        done: set[str],
        *,
        calls: bool,
    ) -> str | None:
        """Construct, and where needed call, it for each case; return what it compiles with, None if it never began."""
        calls = calls or hints.may_compile_in_calls(entry.path, entry.builtin)
        compiler: str | None = None
        for number, (key, case) in enumerate(cases.items()):
            optional = not calls
            try:
                found = self._construct(child, entry, case.overrides, timed=case.timed)
                compiler = compiler or found.compiler
                if calls or (number == 0 and not found.extensions):
                    turns.enter_context(self._turn.taken)
                    with self._turn.computing(child):
                        called = self._rehearse(child, case.overrides, timed=case.timed, layouts=case.layouts)
                    calls = calls or bool(called.compiler) or called.extensions > found.extensions
                    compiler = compiler or called.compiler
                    if not called.lives:
                        done.add(key)
                        break
            except ChildError as error:
                if optional and compiler is not None and error.status not in COMPILATION:
                    break
                if self._stopped or error.status not in JUDGES_MATTER:
                    raise
                if error.status in CRASHES:
                    done.add(key)
                    if child.announced:
                        compiler = compiler or ("programs" if "program" in child.announced else "")
                    break
            done.add(key)
        return compiler

    def _confined(self, entry: Entry, home: Path, writable: Sequence[Path], tmp: Path, *tools: Path) -> Confinement:
        """Return what a worker of a solution may use and see: no results, caches, locks or folders of other runs."""
        files = [entry.path, self._problem.path]
        others = [cache_dir(), admission.leases(), self._context.scratch]
        return Confinement(
            device=self._context.device.kind,
            rung=self._context.rung,
            home=home,
            writable=writable,
            temporary=tmp,
            files=[*files, *tools],
            hidden=hidden_paths.hidden(results=self._context.options.results_dir, others=others, files=files),
        )

    @contextlib.contextmanager
    def _running(self, place: Confinement, environment: Mapping[str, str], module: str = WORKER) -> Iterator[Child]:
        """Run a worker for a `with` block: a fork of the nursery, unless it is another program that becomes one."""
        environment = {**environment, **self._context.device.environment}
        launch = place.launch(environment, module, at_most_available(MEMORY_LIMIT_BYTES))
        with self._starting:
            child = Child(launch, nursery_process.present() if module == WORKER else None)
            self._children.append(child)
        try:
            if self._stopped:
                child.kill()
            yield child
        finally:
            with self._starting:
                self._children.remove(child)
            child.kill()

    def _set_up(self, child: Child, place: Confinement, *, limit_s: float = SETUP_TIMEOUT_S, **other: Any) -> None:
        """Have the worker lock itself in and open the device, with `other` than the usual fields of its setup."""
        setup = place.setup(**{"allow_exec": True, "threads": 2, "niceness": self._niceness, **other})
        child.request(setup, timeout_s=limit_s)
        child.request({"op": "open", "mode": "cold"}, timeout_s=limit_s)

    def _case(self, overrides: Mapping[str, Any], timed: str = FORWARD) -> Message:
        return {"problem": str(self._problem.path), "overrides": encode_constants(overrides), "timed": timed}

    def _construct(
        self, child: Child, entry: Entry, overrides: Mapping[str, Any], *, timed: str = FORWARD, built: bool = False
    ) -> Compiled:
        """Import and construct; return what was compiled. `built`: extensions are loaded as they are."""
        options = self._context.options
        compiling = False

        def extend(_progress: Message) -> float | None:
            """Give the compiler its own time limit, once per request."""
            nonlocal compiling
            first, compiling = not compiling, True
            return options.build_timeout_s if first else None

        request = {
            "op": "build",
            "path": str(entry.path),
            "builtin": entry.builtin or "",
            "entry": entry.attribute,
            **self._case(overrides, timed),
            "allow_tf32": options.allow_tf32,
            "built": built,
        }
        try:
            return Compiled.read(child.request(request, timeout_s=options.import_timeout_s, extend=extend))
        except ChildError as error:
            if error.status is not Status.CALL_TIMEOUT:
                raise
            status, verb, limit = Status.IMPORT_TIMEOUT, "import", options.import_timeout_s
            if compiling:
                status, verb, limit = Status.BUILD_TIMEOUT, "compile", options.build_timeout_s
            raise ChildError(status, f"did not {verb} within {limit:.0f} s", error.log) from error

    def _rehearse(
        self, child: Child, overrides: Mapping[str, Any], *, timed: str = FORWARD, layouts: bool = False
    ) -> Compiled:
        """Call the model once; return what was compiled. The process need not survive other layouts."""
        message = {"op": "rehearse", **self._case(overrides, timed), "layouts": layouts}
        limit = self._context.options.build_timeout_s
        called: Compiled | None = None

        def extend(progress: Message) -> float | None:
            nonlocal called
            if called is not None or progress["progress"] != "layouts":
                return None
            called = Compiled.read(progress)
            return LAYOUTS_S

        try:
            return Compiled.read(child.request(message, timeout_s=limit, extend=extend))
        except ChildError as error:
            if called is not None:
                return dataclasses.replace(called, lives=False)
            if error.status is not Status.CALL_TIMEOUT:
                raise
            reason = f"did not compile its first call within {limit:.0f} s"
            raise ChildError(Status.BUILD_TIMEOUT, reason, error.log) from error


def describe(error: ChildError) -> Failed:
    """Turn a builder's error into a failure, with the compiler's first error as reason if there is one."""
    first = traces.first_error(error.log) if error.status is Status.BUILD_FAILED else None
    return Failed(status=error.status, reason=printable(first or error.reason), log=error.log)


def keep_manifest(path: Path, variant: str, observed: Observed) -> str:
    """Keep what processes of a file read; return its identity, empty where the file is gone."""
    try:
        return manifest.record(path, variant, observed.files, observed.folders).digest(path, variant)
    except OSError:
        return ""


def keep_judged(entry: Entry, observed: Observed, context: RunContext) -> str:
    """Keep what a judged solution read; return its identity. Earlier builds serve that one, too."""
    before = built(entry, context)
    identity = keep_manifest(entry.path, entry.variant, observed)
    if before.is_built:
        before.share_with(built(entry, context))
    return identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A solution to build, and the calls to rehearse."""

    entry: Entry
    cached: cache.CacheEntry
    rehearsals: Mapping[str, Rehearsal]

    @property
    def is_done(self) -> bool:
        """True if nothing is left to build, as far as its words suggest that it has anything to build."""
        if not self.cached.is_built:
            return not hints.may_compile(self.entry.path, self.entry.builtin)
        return not self.rehearsals


def job_of(
    problem: Entry,
    entry: Entry,
    cases: Sequence[Case],
    derived: Iterable[Mapping[str, Any]],
    context: RunContext,
    *,
    anew: bool = False,
) -> Job:
    """Return what the cache lacks of a solution for these cases, or all of it `anew`; `derived`: further shapes."""
    cached = built(entry, context)
    others = [made for case in cases for made in case_selection.others(problem, context.options, case).values()]
    wanted = case_selection.rehearsals(problem, cases, others, derived)
    seen = set[str]() if anew else cached.rehearsed()
    return Job(entry=entry, cached=cached, rehearsals={key: one for key, one in wanted.items() if key not in seen})


def turn_of(context: RunContext) -> Turn:
    """Return the turn of builders beside judges: nobody times while a build computes, or compiles on a CPU."""
    options = context.options
    timed = options.wait_for_device and not options.verify_only
    whole = timed and not backend(context.device.kind).queues_calls
    return Turn(admission.Admission(uuid=context.device.uuid) if timed else None, whole=whole)


def problem_may_compile(problem: Entry, context: RunContext) -> bool:
    """Return whether a problem's own model seems to need a build, and has none yet."""
    eager = registry.builtin(problem, "eager")
    return hints.may_compile(problem.path, None) and not built(eager, context).is_built


def build_problem(problem: Entry, context: RunContext) -> None:
    """Build a problem's own model at a small case; a failure is the judge's to find."""
    small = case_selection.small_case(problem, context.options) or Case(name="default")
    eager = registry.builtin(problem, "eager")
    job = job_of(problem, eager, [small], (), context)
    Builder(problem, context, turn=turn_of(context)).build(eager, dict([*job.rehearsals.items()][:1]))


def rehearse(
    problem: Entry, entry: Entry, case: Case, derived: Sequence[Mapping[str, Any]], context: RunContext
) -> Failed | None:
    """Build a solution that was seen to need it, with all calls that it will be judged by; return its failure."""
    job = job_of(problem, entry, [case], derived, context, anew=True)
    return Builder(problem, context, turn=turn_of(context)).build(entry, job.rehearsals, calls=True)


def built(entry: Entry, context: RunContext) -> cache.CacheEntry:
    """Return the cache's entry of a solution as it lies there."""
    return cache.entry_for(entry.path, entry.variant, context.device.key, cache_dir())
