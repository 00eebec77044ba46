"""`selftest`: every attack of the shipped corpus must be caught, every honest look-alike must pass."""

import contextlib
import hashlib
import shutil
import sysconfig
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kbench.build import manifest
from kbench.build.interpreter import package_sha256
from kbench.catalog import case_selection, registry
from kbench.core.errors import KbenchError, NothingSelectedError
from kbench.core.events import Judged, RunOptions
from kbench.core.levels import Level
from kbench.core.model import Failed, Status
from kbench.devices import selection
from kbench.devices.backend import backend
from kbench.devices.selection import DeviceChoice
from kbench.engine.builds import default_jobs
from kbench.engine.crew import Crew, SweepOptions, judged
from kbench.engine.journal import Journal
from kbench.engine.options import fit_to
from kbench.engine.plan import tasks_of
from kbench.engine.run import sandbox_rung
from kbench.engine.summary import judged_of
from kbench.engine.task import Finished, Task
from kbench.host import nursery_process, sanitizer
from kbench.sandbox.rungs import Rung
from kbench.sandbox.work_folder import work_folder
from kbench.selftest.canaries import Canaries
from kbench.selftest.checks import Checked, KeptCheck, SelftestReport, still_valid
from kbench.selftest.fixtures import (
    CORPUS,
    TIMED_PROBLEM,
    TOO_FAST,
    Fixture,
    complaint_about,
    evidence,
    problem_path,
    read_corpus,
    select,
)
from kbench.storage.json_values import plain
from kbench.storage.settings import Settings, cache_dir

ANY_PRECISION = 0.99
"""For fixtures that are not about time: their timed calls are verified, how long these take is of no interest."""
FIXTURE_FIELDS = ("name", "honest", "category", "problem", "catalogue")
"""Fields that a check has from its fixture."""


def selftest(
    *,
    devices: str = "all",
    names: Sequence[str] = (),
    jobs: int = 3,
    folder: Path = CORPUS,
    journal: Journal | None = None,
) -> Generator[SelftestReport]:
    """Judge the corpus in `folder`: yield a report of the checks that a journal has, then one with each further check.

    `jobs` fixtures run side by side on each device; those about time alone. So does the second look at those that time
    alone speaks against: such a miss must show twice. With a journal, each is on the disk before it is yielded, and
    those that are still valid are not judged. Raises UsageError, NothingSelectedError, MachineError.
    """
    chosen_devices = selection.choose_devices(devices)
    selection.require_alike(chosen_devices)
    device = chosen_devices[0]
    selected = select(read_corpus(folder), device=device.kind, names=names)
    if not selected:
        raise NothingSelectedError(f"no fixture runs on {device.kind}")
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        stack.enter_context(nursery_process.kept())
        scratch = stack.enter_context(work_folder())
        staged = scratch / "corpus"
        shutil.copytree(folder, staged, ignore=shutil.ignore_patterns("__pycache__"))
        conditions, bases, known = conditions_on(device), dict[str, str](), dict[str, Checked]()
        if journal is not None:
            stack.enter_context(journal)
            bases = {one.name: basis_of(one, staged, conditions) for one in selected}
            known = still_valid(journal.resumed.lines if journal.resumed is not None else (), bases)
            began -= journal.elapsed_s
        report = SelftestReport(
            device=device.kind,
            device_name=device.name,
            isolation=conditions["isolation"],
            torch=conditions["torch"],
            fixtures=len(selected),
            checks=tuple(known[fixture.name] for fixture in selected if fixture.name in known),
            kept=len(known),
            elapsed_s=time.monotonic() - began,
        )
        yield report
        left = [fixture for fixture in selected if fixture.name not in known]
        effects = [effect for fixture in left for effect in fixture.effects]
        canaries = stack.enter_context(Canaries(effects, places(staged)))
        for check in judge_twice(FixtureRunner(staged, canaries, chosen_devices, scratch), left, jobs):
            report = report.with_check(check, time.monotonic() - began)
            if journal is not None:
                journal.write(plain(KeptCheck(check=check, basis=bases[check.name], elapsed_s=report.elapsed_s)))
            yield report


def conditions_on(device: DeviceChoice) -> dict[str, str]:
    """Return what all verdicts on a device depend on here."""
    return {
        "device": device.name,
        "isolation": Rung(sandbox_rung(RunOptions(), device.kind)).name.lower(),
        "torch": metadata.version("torch"),
        "code": package_sha256(left_out=CORPUS),
    }


def basis_of(fixture: Fixture, staged: Path, conditions: Mapping[str, str]) -> str:
    """Return a hash of the conditions and of a fixture's file, its helpers and its problem."""
    file = staged / fixture.source
    paths = [file, *sorted(file.parent.glob("_*.py")), problem_path(staged, fixture.problem)]
    return hashlib.sha256(repr((conditions, [manifest.file_hash(path) for path in paths])).encode()).hexdigest()


def judge_twice(bench: "FixtureRunner", fixtures: Sequence[Fixture], jobs: int) -> Iterator[Checked]:
    """Judge fixtures, side by side where they may be, and have a second look at those in doubt."""
    doubted: set[str] = set()
    for alone in (False, True):
        chosen = [fixture for fixture in fixtures if fixture.is_exclusive is alone]
        for check in bench.judge(chosen, lanes=1 if alone else max(1, jobs), alone=alone):
            if is_doubtful(check):
                doubted.add(check.name)
            else:
                yield check
    yield from bench.judge([fixture for fixture in fixtures if fixture.name in doubted], lanes=1, alone=True)


def places(staged: Path) -> dict[str, str]:
    """Return the folders that effects are written in terms of."""
    torch = find_spec("torch")
    assert torch is not None, "torch is a dependency"
    assert torch.origin is not None, "torch is a package with a file"
    return {
        "corpus": str(staged),
        "results": str(staged / "results"),
        "torch": str(Path(torch.origin).parent),
        "site": sysconfig.get_paths()["purelib"],
        "home": str(Path.home()),
        "tmp": tempfile.gettempdir(),
        "cwd": str(Path.cwd()),
        "cache": str(cache_dir()),
    }


class FixtureRunner:
    """Has a crew judge fixtures, and compares each verdict with the fixture's expectation."""

    def __init__(self, staged: Path, canaries: Canaries, devices: Sequence[DeviceChoice], scratch: Path):
        self._staged, self._canaries, self._devices = staged, canaries, tuple(devices)
        self._scratch = scratch / "run"  # beside the corpus: the sandbox hides nothing that holds a worker's own source
        self._scratch.mkdir(exist_ok=True)

    def judge(self, fixtures: Sequence[Fixture], *, lanes: int, alone: bool) -> Iterator[Checked]:
        """Judge fixtures, `lanes` at a time on each device. Those that kbench leaves unjudged are harness errors."""
        left = {fixture.name: fixture for fixture in fixtures}
        usual = options_for(None, self._scratch, alone=alone)
        rung = sandbox_rung(usual, self._devices[0].kind)
        asked = SweepOptions(run=usual, devices=self._devices, rung=rung, lanes=lanes, jobs=default_jobs())
        crew, broken = Crew(asked, self._scratch, lambda *_: None), "it ended without a verdict"
        tasks: list[Task] = []
        for fixture in fixtures:
            try:
                tasks.append(self._task(fixture, alone=alone))
            except KbenchError as error:
                yield self._unjudged(left.pop(fixture.name), f"{type(error).__name__}: {error.message}")
        try:
            with contextlib.closing(judged(crew, tasks, {})) as events:
                for event in events:
                    if isinstance(event, Finished):
                        found = judged_of(event.verdict)
                        yield self._check(left.pop(found.solution), found)
        except KbenchError as error:
            broken = f"{type(error).__name__}: {error.message}"
        for fixture in left.values():
            yield self._unjudged(fixture, broken)

    def _unjudged(self, fixture: Fixture, reason: str) -> Checked:
        failed = Failed(status=Status.HARNESS_ERROR, reason=reason)
        return self._check(fixture, Judged(solution=fixture.name, case="", outcome=failed, rows=(), stage_s={}))

    def _task(self, fixture: Fixture, *, alone: bool) -> Task:
        device, settings = self._devices[0], Settings()
        options = fit_to(options_for(fixture, self._scratch, alone=alone), device)
        sanitizer.require(options, device)
        problem = registry.find_problem(problem_path(self._staged, fixture.problem), settings)
        found = registry.find_solution(problem, self._staged / fixture.source, settings, entry=fixture.entry)
        cases = case_selection.select(problem, options, backend(device.kind).preferred_cases)
        return tasks_of(problem, [replace(found, name=fixture.name)], cases[options.backward :][:1], options, device)[0]

    def _check(self, fixture: Fixture, judged: Judged) -> Checked:
        escapes, outcome = self._canaries.happened(fixture.effects), judged.outcome
        failed = outcome if isinstance(outcome, Failed) else None
        status = failed.status.value if failed else Status.PASSED.value
        # A weak attestation says in the row that the claim is unproved: nothing was gained by it.
        proved = [row for row in judged.rows if row.attestation == "held"]
        speedups = [row.speedup for row in proved if row.speedup is not None]
        check = Checked(
            **{name: getattr(fixture, name) for name in FIXTURE_FIELDS},
            expected=fixture.expect,
            status=status,
            reason=failed.reason if failed else "",
            findings=evidence(outcome),
            level=outcome.level or "",
            lacks=outcome.lacks,
            speedup=max(speedups, default=None),
            escapes=escapes,
            elapsed_s=sum(judged.stage_s.values()),
            complaint=None,
        )
        return replace(check, complaint=complaint_about(fixture, check))


def is_doubtful(check: Checked) -> bool:
    """Return whether time alone, which the machine may have made, or a failure of kbench speaks against a fixture."""
    complaint = check.complaint or ""
    return complaint.startswith((TOO_FAST, Status.HARNESS_ERROR.value))


def options_for(fixture: Fixture | None, scratch: Path, *, alone: bool) -> RunOptions:
    """Return the options for judging a fixture, or most of them."""
    # Which line a cheat crashes at is not asked: each time would cost a build and a slow run.
    extra: dict[str, Any] = {"sanitize": False, "timeout_s": 3600.0, **(fixture.options if fixture is not None else {})}
    if fixture is not None and fixture.problem != TIMED_PROBLEM:
        extra["precision"] = ANY_PRECISION
    if "level" in extra:
        extra["level"] = Level(extra["level"])
    return RunOptions(
        processes=1,
        max_processes=1,
        # Side by side: what is not about time is judged alike on a busy device.
        wait_for_device=alone,
        save=False,
        results_dir=scratch / "results",
        **extra,
    )
