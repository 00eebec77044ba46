"""The build step: a separate worker compiles a solution before a device is needed."""

import contextlib
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.build import cache, interpreter, sources
from kbench.children.child import WORKER, Child, Launch
from kbench.children.child_error import ChildError
from kbench.children.worker_start import SETUP_TIMEOUT_S, worker_environment
from kbench.core.model import Failed, Status
from kbench.core.printable import printable
from kbench.devices import admission
from kbench.host import nursery_process
from kbench.host.context import RunContext
from kbench.host.turn import Turn
from kbench.plugins.case_selection import Rehearsal
from kbench.plugins.registry import Entry
from kbench.sandbox import hidden_paths, namespaces, removal, rungs
from kbench.sandbox.namespaces import Surroundings
from kbench.storage.settings import cache_dir
from kbench.wire.channel import Message, encode_constants

MEMORY_LIMIT_BYTES = 64 << 30
LAYOUTS_S = 120.0
"""Time limit in seconds for calls on other layouts of the inputs, which may compile again."""
GIVES_WAY = 19
"""Niceness of builds beside judges. With 5, results of two right kernels seemed up to a millisecond late while 14
builds ran on 16 processors, and were taken for hidden ones (docs/adr/0006-gate-clock.md)."""
CRASHES = {Status.CRASHED, Status.EXITED, Status.LAUNCH_FAILED, Status.ILLEGAL_ACCESS}
"""Ends of a process or of its device context: nothing further is rehearsed in it."""
JUDGES_MATTER = {Status.RAISED, Status.INIT_FAILED, Status.OUT_OF_MEMORY, *CRASHES}
"""Failures at a further case than the first, which a judge finds as well, in a worker that it can replace."""
MAYBE_THE_PROBLEM = frozenset({Status.INIT_FAILED, Status.IMPORT_TIMEOUT})
"""Failures that may be the problem's own: a build imports it for the constructor's arguments."""


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

    def build(self, entry: Entry, cached: cache.CacheEntry, cases: Mapping[str, Rehearsal]) -> Failed | None:
        """Construct the solution for every case, by its key, and compile what it needs.

        A solution is also called once per case if it compiles just in time, or if construction has not compiled its
        extension. Publishes on success and returns the failure otherwise. Failures in a case other than compilation are
        left to the judge; where the problem fails before, nothing is published. Raises MachineError if the cache cannot
        be written.
        """
        try:
            staging = cached.stage()
        except OSError as error:
            return Failed(status=Status.BUILD_FAILED, reason=printable(cache.uncopied(error)))
        home = Path(tempfile.mkdtemp(prefix=f"build-{entry.name[:40]}-", dir=self._context.scratch))
        environment, writable = cache.compiler_environment(staging), [staging, home]
        if entry.builtin is not None and (bytecode := interpreter.bytecode_folder()) is not None:
            environment |= interpreter.bytecode(writes=True)
            writable.append(bytecode)
        closed = self._hidden(entry)
        files = [entry.path, self._problem.path]
        around = hidden_paths.surroundings(staging / cache.TEMPORARY_FOLDER, own=writable, files=files, hidden=closed)
        child = self._start(environment, home, around)
        done = cached.rehearsed()
        turns = contextlib.ExitStack()
        try:
            if self._turn.whole:
                turns.enter_context(self._turn.taken)
                turns.enter_context(self._turn.computing(child))
            self._set_up(child, writable, around.temporary, closed)
            constructed = self._go_through(child, entry, cases, turns, done)
        except ChildError as error:
            return describe(error)
        else:
            child.kill()
            namespaces.clear(around)
            try:
                if constructed:
                    cached.publish(staging, done)
            except (cache.UnfitArtefactsError, OSError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                return Failed(status=Status.BUILD_FAILED, reason=f"its artefacts cannot be cached: {why}")
            return None
        finally:
            with self._starting:
                self._children.remove(child)
            child.kill()
            turns.close()
            removal.remove(staging)
            removal.remove(home)

    def _go_through(
        self, child: Child, entry: Entry, cases: Mapping[str, Rehearsal], turns: contextlib.ExitStack, done: set[str]
    ) -> bool:
        """Construct, and where needed call, it for each case; return whether it was constructed at all."""
        calls = sources.compiler_of(entry.path, entry.builtin) is not sources.Compiler.NONE
        waits = sources.has_extension(entry.path, entry.builtin)
        lives, constructed = True, False
        for number, (key, case) in enumerate(cases.items()):
            try:
                waits &= not self._construct(child, entry, case.overrides)
                constructed = True
                if calls or waits:
                    turns.enter_context(self._turn.taken)
                    with self._turn.computing(child):
                        lives = self._rehearse(child, case.overrides, layouts=case.layouts)
            except ChildError as error:
                if error.status not in (JUDGES_MATTER if number else {Status.RAISED}):
                    raise
                lives = error.status not in CRASHES
            done.add(key)
            if not lives:
                break
        return constructed

    def _start(self, environment: Mapping[str, str], home: Path, around: Surroundings) -> Child:
        launch = self._launch(WORKER, environment, home, around)
        with self._starting:
            child = Child(launch, nursery_process.present())
            self._children.append(child)
        if self._stopped:
            child.kill()
        return child

    def _launch(self, module: str, environment: Mapping[str, str], home: Path, around: Surroundings) -> Launch:
        return Launch(
            module=module,
            environment={**worker_environment(home), **environment, **self._context.device.environment},
            folder=home,
            rung=rungs.Rung(self._context.rung),
            memory_limit_bytes=MEMORY_LIMIT_BYTES,
            surroundings=around,
        )

    def _hidden(self, entry: Entry) -> list[Path]:
        files = [entry.path, self._problem.path]
        others = [cache_dir(), admission.leases(), self._context.scratch]
        return hidden_paths.hidden(results=self._context.options.results_dir, others=others, files=files)

    def _set_up(
        self,
        child: Child,
        writable: Sequence[Path],
        temporary: str,
        closed: Sequence[Path],
        *,
        limit_s: float = SETUP_TIMEOUT_S,
        **other: Any,
    ) -> None:
        """Have the worker lock itself in and open the device, with `other` than the usual fields of its setup."""
        setup = {
            "op": "setup",
            "device": self._context.device.kind,
            "rung": self._context.rung,
            "writable": [str(path) for path in writable],
            "temporary": temporary,
            "hidden": [str(path) for path in closed],
            "allow_exec": True,
            "threads": 2,
            "niceness": self._niceness,
        }
        child.request(setup | other, timeout_s=limit_s)
        child.request({"op": "open", "mode": "cold"}, timeout_s=limit_s)

    def _case(self, overrides: Mapping[str, Any]) -> Message:
        return {"problem": str(self._problem.path), "overrides": encode_constants(overrides)}

    def _construct(self, child: Child, entry: Entry, overrides: Mapping[str, Any], *, built: bool = False) -> bool:
        """Import and construct; return whether an extension was compiled. `built`: one is loaded as it is."""
        limits = self._context.options.limits
        compiling = False

        def extend(_progress: Message) -> float | None:
            """Give the compiler its own time limit, once per request."""
            nonlocal compiling
            first, compiling = not compiling, True
            return limits.build_s if first else None

        request = {
            "op": "build",
            "path": str(entry.path),
            "builtin": entry.builtin or "",
            "entry": entry.attribute,
            **self._case(overrides),
            "allow_tf32": self._context.options.allow_tf32,
            "built": built,
        }
        try:
            child.request(request, timeout_s=limits.import_s, extend=extend)
        except ChildError as error:
            if error.status is not Status.CALL_TIMEOUT:
                raise
            status, verb, limit = Status.IMPORT_TIMEOUT, "import", limits.import_s
            if compiling:
                status, verb, limit = Status.BUILD_TIMEOUT, "compile", limits.build_s
            raise ChildError(status, f"did not {verb} within {limit:.0f} s", error.log) from error
        return compiling

    def _rehearse(self, child: Child, overrides: Mapping[str, Any], *, layouts: bool = False) -> bool:
        """Call the model once; return whether the process survived other layouts too, which are optional."""
        message = {"op": "rehearse", **self._case(overrides), "layouts": layouts}
        limit = self._context.options.limits.build_s
        called = False

        def extend(progress: Message) -> float | None:
            nonlocal called
            if called or progress["progress"] != "layouts":
                return None
            called = True
            return LAYOUTS_S

        try:
            child.request(message, timeout_s=limit, extend=extend)
        except ChildError as error:
            if called:
                return False
            if error.status is not Status.CALL_TIMEOUT:
                raise
            reason = f"did not compile its first call within {limit:.0f} s"
            raise ChildError(Status.BUILD_TIMEOUT, reason, error.log) from error
        return True


def describe(error: ChildError) -> Failed:
    """Turn a builder's error into a failure, with the compiler's first error as reason if there is one."""
    first = cache.first_error(error.log) if error.status is Status.BUILD_FAILED else None
    return Failed(status=error.status, reason=printable(first or error.reason), log=error.log)
