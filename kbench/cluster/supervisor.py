"""Runs on each device of a cluster: starts judges as child processes, as a sweep does, and never opens the device."""

import contextlib
import os
import platform
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kbench.cluster.membership import Member, here
from kbench.cluster.parcels import Parcel, settle, unpack
from kbench.core.errors import KbenchError
from kbench.devices import nvml, selection
from kbench.engine.builds import default_jobs
from kbench.engine.crew import Crew, SweepOptions
from kbench.engine.run import sandbox_rung
from kbench.engine.task import DeviceState, Retried, Task, TaskVerdict
from kbench.engine.unit import UnitResult
from kbench.host import sanitizer
from kbench.sandbox.work_folder import work_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitDone:
    """A unit of a task has a result."""

    key: str
    result: UnitResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """The supervisor judges nothing more; `reason` is empty if the driver ended it."""

    reason: str


News = UnitDone | Retried | DeviceState | Over


class Supervisor:
    """Judges on one device of this host for a sweep that another host drives."""

    def __init__(self, kind: str):
        # Ray limits the threads of its workers and lowers their priority; judges must run as without Ray.
        os.environ.pop("OMP_NUM_THREADS", None)
        with contextlib.suppress(OSError):  # not as root: start Ray with RAY_worker_niceness=0
            os.setpriority(os.PRIO_PROCESS, 0, 0)
        self._device = selection.choose(kind)
        self._news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self._closing = contextlib.ExitStack()
        self._crew: Crew | None = None
        self._sources = Path()

    def join(self) -> Member:
        """Return the description of this supervisor."""
        return Member(host=platform.node(), device=self._device, versions=here(nvml.driver_version()))

    def start(self, options: SweepOptions, peers: int) -> str:
        """Start judges and builders, which share this host with `peers` other supervisors; return why that failed."""
        try:
            sanitizer.require(options.run, self._device)
            rung = sandbox_rung(options.run, self._device.kind)
        except KbenchError as error:
            return error.message
        jobs = min(options.jobs, max(1, default_jobs() // (1 + peers)))
        options = replace(options, devices=(self._device,), rung=rung, jobs=jobs)
        folder = self._closing.enter_context(work_folder())
        self._sources, scratch = folder / "sources", folder / "run"
        scratch.mkdir()  # beside the sources: the sandbox hides it, and hides nothing that holds a worker's own source
        self._crew = crew = Crew(options, scratch, self._write)
        crew.start()
        threading.Thread(target=self._follow, args=(crew,), daemon=True).start()
        return ""

    def add(
        self,
        tasks: Sequence[Task],
        parcels: Mapping[Path, Parcel],
        known: Mapping[str, tuple[UnitResult, ...]],
    ) -> None:
        """Queue tasks, with their sources by their paths there."""
        assert self._crew is not None, "start comes first"
        try:
            places = {path: unpack(parcel, self._sources) for path, parcel in parcels.items()}
            self._crew.add([settle(task, places) for task in tasks], known)
        except Exception as error:  # noqa: BLE001 - otherwise its tasks would wait forever
            self._news.put(Over(reason=str(error)))

    def events(self) -> Iterator[News]:
        """Yield events; the last one is Over."""
        while not isinstance(news := self._news.get(), Over):
            yield news
        yield news

    def stop(self) -> None:
        """End all judges and builders."""
        if self._crew is not None:
            self._crew.stop()
        self._closing.close()

    def _write(self, verdict: TaskVerdict) -> None:
        self._news.put(UnitDone(key=verdict.task.key, result=verdict.last))

    def _follow(self, crew: Crew) -> None:
        reason = ""
        try:
            for event in crew.events():
                if isinstance(event, Retried | DeviceState):
                    self._news.put(event)
            reason = crew.reason
        except BaseException as error:  # noqa: BLE001 - the driver must learn of any error
            reason = f"{type(error).__name__}: {error}"
        self._news.put(Over(reason=reason))
