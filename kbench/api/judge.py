"""A pool of judges that stay warm."""

import asyncio
import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, Unpack

from kbench.api.evaluation import EvaluationResult, evaluation_of
from kbench.api.options import POOL_OPTIONS, Options, make_options
from kbench.catalog import registry
from kbench.core.errors import KbenchError, MachineError, UsageError
from kbench.core.events import RunOptions, StageEvent, StageFinished, StageStarted, Waiting
from kbench.core.model import Passed
from kbench.devices import selection
from kbench.engine.builds import default_jobs
from kbench.engine.crew import Crew, MakeEvaluator, SweepOptions, default_lanes
from kbench.engine.options import fit_to
from kbench.engine.plan import make_tasks
from kbench.engine.run import sandbox_rung
from kbench.engine.selection import SolutionPair, keep_text
from kbench.engine.task import Finished, Task, TaskVerdict
from kbench.host import sanitizer
from kbench.sandbox.work_folder import work_folder
from kbench.storage import settings
from kbench.storage.results import RunWriter

SourceLike = str | Path
"""Text of a Python file (a string with a line break), a path, or a name as on the command line."""
ProgressCallback = Callable[[int, EvaluationResult], None]
"""Called with the number of verdicts so far, and the last one."""
AHEAD = 16
"""Chosen. Solutions for each lane that `evaluate_many` takes from its iterable before they are judged."""


@dataclass(slots=True)
class _Waiting:
    task: Task
    started_utc: str
    futures: "list[Future[EvaluationResult]]" = field(default_factory=list)


class Judge:
    """A pool of judges on one device or several, warm from the first call to the end of the `with` block.

    Options are those of `kbench.evaluate`; a call can override them. Threads may share a Judge.

    >>> with kbench.Judge(device="cpu", verify_only=True) as judge:
    ...     (first,) = judge.evaluate("group_norm", "eager", cases="small")
    ...     (second,) = judge.evaluate("group_norm", "eager", cases="small", level="task")

    Args:
        devices: `all`, or indices such as `0,1`; by default the one that `device` names, as for `kbench run`.
        lanes: judges per device; by default as in `kbench sweep`.
        jobs: parallel builds; by default one per processor.
        config: settings file instead of the nearest pyproject.toml.
        on_stage: called, from another thread, when a stage begins or ends and when the pool waits for a device that
            others use; it must not raise.
        make: replacement for Evaluator in tests.

    Raises:
        UsageError: an option that does not exist or has a wrong value, devices of several models.
        MachineError: a missing device.
    """

    def __init__(
        self,
        *,
        devices: str | None = None,
        lanes: int | None = None,
        jobs: int | None = None,
        config: Path | None = None,
        on_stage: Callable[[StageEvent], None] | None = None,
        make: MakeEvaluator | None = None,
        **options: Unpack[Options],
    ):
        self._settings = settings.load(config)
        self._given: Mapping[str, Any] = options
        asked = make_options(self._settings, options)
        found = selection.choose_devices(devices) if devices is not None else (selection.choose(asked.device),)
        selection.require_alike(found)
        self.device = found[0]
        run = self._fitted(asked)
        self._pool = SweepOptions(
            run=run,
            devices=found,
            rung=sandbox_rung(run, self.device.kind),
            lanes=lanes or default_lanes(self.device.kind, timed=not run.verify_only),
            jobs=jobs or default_jobs(),
        )
        self.lanes = self._pool.lanes * len(found)
        self._make = make
        self._on_stage = on_stage
        self._lock = threading.RLock()
        self._waiting: dict[str, _Waiting] = {}
        self._crew: Crew | None = None
        self._listener: threading.Thread | None = None
        self._folder: Path | None = None
        self._closing = contextlib.ExitStack()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all judges; waiting calls raise MachineError."""
        with self._lock:
            self._closed = True
            crew, listener = self._crew, self._listener
        if crew is not None:
            crew.stop()
        if listener is not None:
            listener.join()
        self._closing.close()

    def evaluate(
        self, problem: SourceLike, solution: SourceLike, *, entry: str | None = None, **options: Unpack[Options]
    ) -> tuple[EvaluationResult, ...]:
        """Judge one solution of a problem; returns one EvaluationResult for each case, like `kbench.evaluate`."""
        asked = self._options(options)
        futures = self._ask(problem, solution, entry, asked)
        found = tuple(future.result() for future in futures)
        return _save(found, asked) if asked.save else found

    def evaluate_many(
        self,
        candidates: Iterable[tuple[SourceLike, SourceLike]],
        *,
        entry: str | None = None,
        progress: ProgressCallback | None = None,
        **options: Unpack[Options],
    ) -> Iterator[EvaluationResult]:
        """Judge pairs of a problem and a solution; yields each result as it comes, in any order.

        `EvaluationResult.number` is the index in `candidates`, which is read when the pool has room; `progress` is
        called first. An invalid file gives a failed result; a name or path that does not exist raises at its turn.
        """
        asked = self._options(options)
        if asked.save:
            raise UsageError("`evaluate_many` saves no results", "leave out `save`, or use `kbench sweep`")
        return self._many(candidates, entry, progress, asked)

    async def evaluate_async(
        self, problem: SourceLike, solution: SourceLike, *, entry: str | None = None, **options: Unpack[Options]
    ) -> tuple[EvaluationResult, ...]:
        """Judge one solution without blocking the event loop; returns one EvaluationResult for each case."""
        asked = self._options(options)
        futures = await asyncio.to_thread(self._ask, problem, solution, entry, asked)
        found = tuple(await asyncio.gather(*map(asyncio.wrap_future, futures)))
        return await asyncio.to_thread(_save, found, asked) if asked.save else found

    def submit(
        self, problem: SourceLike, solution: SourceLike, *, entry: str | None = None, **options: Unpack[Options]
    ) -> "list[Future[EvaluationResult]]":
        """Start judging one solution; returns a future for each case at once."""
        return self._ask(problem, solution, entry, self._options(options))

    def check(self, **options: Unpack[Options]) -> None:
        """Raise UsageError for options that a call of this pool cannot have."""
        self._options(options)

    def _many(
        self,
        candidates: Iterable[tuple[SourceLike, SourceLike]],
        entry: str | None,
        progress: ProgressCallback | None,
        asked: RunOptions,
    ) -> Iterator[EvaluationResult]:
        numbers: dict[Future[EvaluationResult], int] = {}
        done = itertools.count(1)

        def ready() -> Iterator[EvaluationResult]:
            for future in wait(numbers, return_when=FIRST_COMPLETED).done:
                found = replace(future.result(), number=numbers.pop(future))
                if progress is not None:
                    progress(next(done), found)
                yield found

        for number, pair in enumerate(candidates):
            numbers |= dict.fromkeys(self._ask(*pair, entry, asked, alone=False), number)
            while len(numbers) >= self.lanes * AHEAD:
                yield from ready()
        while numbers:
            yield from ready()

    def _options(self, given: Mapping[str, Any]) -> RunOptions:
        options = self._fitted(make_options(self._settings, {**self._given, **given}))
        base = self._pool.run
        for name in POOL_OPTIONS:
            if name in given and getattr(options, name) != getattr(base, name):
                raise UsageError(f"`{name}` is fixed for a `Judge`", f"`kbench.Judge({name}=...)`")
        if base.verify_only and not options.verify_only:
            raise UsageError("this `Judge` verifies only", "`kbench.Judge(...)` without `verify_only` times as well")
        return options

    def _fitted(self, options: RunOptions) -> RunOptions:
        sanitizer.require(options, self.device)
        return fit_to(options, self.device)

    def _ask(
        self, problem: SourceLike, solution: SourceLike, entry: str | None, options: RunOptions, *, alone: bool = True
    ) -> "list[Future[EvaluationResult]]":
        """Start judging one solution; with `alone`, an unusable problem raises."""
        with self._lock:
            crew = self._ready()
            reference, candidate = self._place(problem, "problem"), self._place(solution, "solution")
            if alone:
                try:
                    registry.find_problem(reference, self._settings)
                except KbenchError as error:
                    raise type(error)(error.message.replace(self._sources, ""), error.hint) from error
            pair = SolutionPair(problem=reference, solution=candidate, entry=entry)
            tasks, _ = make_tasks([pair], options, self.device, self._settings)
            new = [task for task in tasks if task.key not in self._waiting]
            started_utc = datetime.now(UTC).isoformat(timespec="seconds")
            self._waiting |= {task.key: _Waiting(task, started_utc) for task in new}
            futures = [self._future(task.key) for task in tasks]
            if new:
                crew.add(new)
        return futures

    def _future(self, key: str) -> "Future[EvaluationResult]":
        future: Future[EvaluationResult] = Future()
        future.set_running_or_notify_cancel()
        self._waiting[key].futures.append(future)
        return future

    def _place(self, source: SourceLike, kind: str) -> str:
        if isinstance(source, Path):
            return str(source.absolute())
        if not isinstance(source, str):
            raise UsageError(
                f"the {kind} is a `{type(source).__name__}`", "pass its source as text, the path of its file, or a name"
            )
        return keep_text(source, kind, self._home / "sources") if "\n" in source else source

    @property
    def _sources(self) -> str:
        return f"{self._home / 'sources'}{os.sep}"

    @property
    def _home(self) -> Path:
        if self._folder is None:
            self._folder = self._closing.enter_context(work_folder())
        return self._folder

    def _ready(self) -> Crew:
        """Return the crew; start a new one first if there is none or a defect ended it."""
        if self._closed:
            raise UsageError("this `Judge` is closed", "call it within its `with` block")
        if self._crew is None:
            scratch = self._home / "run"
            scratch.mkdir(exist_ok=True)  # beside the sources: the sandbox hides nothing that holds a worker's own
            self._crew = Crew(self._pool, scratch, lambda *_: None, self._make)
            self._crew.start()
            self._listener = threading.Thread(target=self._listen, args=(self._crew,), daemon=True)
            self._listener.start()
        return self._crew

    def _listen(self, crew: Crew) -> None:
        try:
            for event in crew.events():
                if isinstance(event, Finished):
                    self._resolve(event.verdict)
                elif isinstance(event, Waiting | StageStarted | StageFinished) and self._on_stage is not None:
                    self._on_stage(event)
            why: BaseException = MachineError(f"the judges have ended: {crew.reason or 'interrupted'}")
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting threads
            why = error
        with self._lock:
            lost, self._waiting, self._crew = self._waiting, {}, None
            is_closing = self._closed
        if not is_closing:
            crew.stop()
        for waiting in lost.values():
            for future in waiting.futures:
                future.set_exception(why)

    def _resolve(self, verdict: TaskVerdict) -> None:
        with self._lock:
            waiting = self._waiting.pop(verdict.task.key)
            found: EvaluationResult | MachineError
            try:
                found = evaluation_of(verdict, waiting.started_utc, self._sources)
            except OSError as error:
                found = MachineError(f"a source no longer exists: {error}", "keep files until they are judged")
            path = verdict.task.solution.path
            used = (other.task.solution.path == path for other in self._waiting.values())
            if self._folder is not None and path.is_relative_to(self._folder) and not any(used):
                path.unlink(missing_ok=True)
        for future in waiting.futures:
            if isinstance(found, MachineError):
                future.set_exception(found)
            else:
                future.set_result(found)


def _save(found: Sequence[EvaluationResult], options: RunOptions) -> tuple[EvaluationResult, ...]:
    first = found[0]
    written = []
    with RunWriter(options.results_dir, options.name, problem=first.problem, solutions=[first.solution]) as writer:
        for one in found:
            timings = one.outcome.timings if isinstance(one.outcome, Passed) else ()
            samples = {timing.samples[0].process: timing.samples for timing in timings if timing.samples}
            named = [replace(row, run_id=writer.csv_path.stem) for row in one.rows]
            rows = [writer.append(row, samples.get(row.process, ())) for row in named]
            written.append(replace(one, rows=tuple(rows)))
    return tuple(written)


def evaluate(
    problem: SourceLike, solution: SourceLike, *, entry: str | None = None, **options: Unpack[Options]
) -> tuple[EvaluationResult, ...]:
    """Judge one solution of a problem; returns one EvaluationResult for each case.

    `problem` and `solution` are the text of a Python file (a string with a line break), a path, or a name as on the
    command line; `entry` is the class or function of the solution to judge instead of `ModelNew`. `options` are fields
    of `kbench.core.events.RunOptions` (`device`, `cases`, `overrides`, `verify_only`, `processes`, `save`),
    with the defaults of `[tool.kbench]` in pyproject.toml. Nothing is written unless `save=True`. A wrong or crashing
    solution raises nothing: its `outcome` is a `Failed` with a status. Judges end with the call; a `kbench.Judge` keeps
    them.

    >>> import kbench
    >>> (found,) = kbench.evaluate("group_norm", "eager", device="cpu", cases="small", verify_only=True)
    >>> found.outcome.correctness.contract_ratio <= 1
    True

    Raises KbenchError: an unknown option or name, a problem that cannot be used, or a missing device.
    """
    with Judge(lanes=1, **options) as judge:
        return judge.evaluate(problem, solution, entry=entry)


def evaluate_many(
    candidates: Iterable[tuple[SourceLike, SourceLike]],
    *,
    entry: str | None = None,
    progress: ProgressCallback | None = None,
    **options: Unpack[Options],
) -> Iterator[EvaluationResult]:
    """Do as `Judge.evaluate_many` in a pool that ends with the iterator; options are checked before it returns."""
    judge = Judge(**options)

    def judged() -> Iterator[EvaluationResult]:
        with contextlib.closing(judge):
            yield from judge.evaluate_many(candidates, entry=entry, progress=progress)

    return judged()
