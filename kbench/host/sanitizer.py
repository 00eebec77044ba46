"""memcheck of compute-sanitizer on a small case of a problem: find it, run a solution below it, read its report.

No judge, no expected values and no clock take part. The result counts against a solution only: a candidate can behave
while it is watched, so a clean report is a note and no merit.
"""

import dataclasses
import functools
import itertools
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from kbench.build import cache, hints, manifest
from kbench.catalog import case_selection
from kbench.catalog.registry import Entry
from kbench.catalog.small_case import SMALL
from kbench.core.errors import MachineError, UsageError
from kbench.core.events import RunOptions
from kbench.core.model import Case, Failed, Finding, Status
from kbench.core.sanitizer import Log, SourcePlace, findings, parse
from kbench.core.timed import forward_of, timed_of
from kbench.devices import toolkit
from kbench.devices.backend import backend
from kbench.devices.selection import DeviceChoice
from kbench.host.below_tool import BelowTool, head_of
from kbench.host.builder import Builder, built, keep_manifest
from kbench.host.context import RunContext
from kbench.host.judge_process import Evaluated, JudgeProcess, OnStage
from kbench.process.channel import Message
from kbench.storage.settings import cache_dir

NAME = "compute-sanitizer"
FIX = "install the CUDA toolkit's `compute-sanitizer` and put it on PATH, or set CUDA_HOME; else leave `--sanitize` out"
LIMIT_S = 180.0
"""For each step below the tool: code runs 10 to 100 times slower there."""
SMALL_BYTES = 64 << 20
"""Largest case, in bytes moved by a call, that is run below the tool."""
AFTER = frozenset({Status.ILLEGAL_ACCESS, Status.LAUNCH_FAILED})
"""Statuses after which memcheck runs by itself, to find the line."""
REFUSED_LAUNCH = re.compile(
    r"no kernel image|invalid argument|invalid configuration|invalid device function|too many resources|invalid ptx",
    re.I,
)
"""CUDA's words for a launch that never ran: the tool would look for minutes, and find nothing."""
OPTIONS = (
    ("--tool", "memcheck"),
    ("--target-processes", "all"),  # the worker is the third program of its process, which not every version follows
    ("--launch-timeout", "120"),  # the default of 10 s is less than importing torch can take
    ("--report-api-errors", "no"),  # libraries query optional features and handle the error
    ("--check-exit-code", "no"),
    ("--print-limit", "100"),
    ("--show-backtrace", "device"),
    ("--padding", "1024"),  # bytes between allocations, so that a write just beyond one lands in none
)
ENVIRONMENT = {
    # Each tensor is an allocation of its own, whose end the tool knows.
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
    # Local sockets, which the sandbox lets the tool have, rather than TCP.
    "NV_COMPUTE_SANITIZER_LOCAL_CONNECTION_OVERRIDE": "uds",
}


def require(options: RunOptions, device: DeviceChoice) -> None:
    """Refuse `--sanitize` if it is impossible. Raises UsageError on a CPU, MachineError without the tool."""
    if not options.sanitize:
        return
    if not backend(device.kind).names_kernels:
        raise UsageError("`--sanitize` checks CUDA kernels, and the device is a CPU", "leave it out")
    if toolkit.find(NAME) is None:
        raise MachineError(f"`--sanitize` needs {NAME}, which is not installed", FIX)


class Sanitizer:
    """Runs solutions of one problem below the tool; each solution once for all its cases."""

    def __init__(self, problem: Entry, context: RunContext):
        self._problem = problem
        self._context = context
        self._options, self._device = context.options, context.device
        self._known: dict[tuple[str, str], tuple[Finding, ...]] = {}

    def around(
        self, judge: JudgeProcess, request: Message, entry: Entry, case: Case, case_bytes: int, on_stage: OnStage
    ) -> Evaluated:
        """Have the judge evaluate; with `--sanitize`, after memcheck, whose findings may end the solution.

        Without it memcheck looks for the line of an illegal access; that never makes a failure a pass.
        """
        alarms: tuple[Finding, ...] = ()
        if self._options.sanitize and request["assignment"]["process"] == 0:
            alarms = self._stage(entry, case, case_bytes, on_stage)
            if (fatal := next((finding for finding in alarms if finding.fatal), None)) is not None:
                status = fatal.status or Status.ILLEGAL_ACCESS
                return Evaluated(outcome=Failed(status=status, reason=fatal.message, findings=alarms))
        found = judge.evaluate(request, on_stage)
        outcome = found.outcome
        if isinstance(outcome, Failed) and self._is_asked_after(outcome):
            self._stage(entry, case, case_bytes, on_stage)
            outcome = self.explain(outcome, entry, case, case_bytes)
        outcome = dataclasses.replace(outcome, findings=(*outcome.findings, *alarms))
        return dataclasses.replace(found, outcome=outcome)

    def explain(self, failed: Failed, entry: Entry, case: Case, case_bytes: int | None = None) -> Failed:
        """Add memcheck's result on an illegal access or a failed launch to reason and findings."""
        if not self._is_asked_after(failed):
            return failed
        alarms = self._look(entry, case, case_bytes)
        named = [finding.message for finding in alarms if finding.fatal]
        reason = "; ".join([failed.reason, *named])
        return dataclasses.replace(failed, reason=reason, findings=(*failed.findings, *alarms))

    def _is_asked_after(self, failed: Failed) -> bool:
        ran = failed.status in AFTER and not REFUSED_LAUNCH.search(failed.reason)
        return self._options.sanitize is None and backend(self._device.kind).names_kernels and ran

    def _stage(self, entry: Entry, case: Case, case_bytes: int, on_stage: OnStage) -> tuple[Finding, ...]:
        on_stage("sanitize", True, None)
        started = time.monotonic()
        found = self._look(entry, case, case_bytes)
        on_stage("sanitize", not any(finding.fatal for finding in found), time.monotonic() - started)
        return found

    def _look(self, entry: Entry, case: Case, case_bytes: int | None) -> tuple[Finding, ...]:
        small = small_case(self._problem, self._options, case, case_bytes)
        looked_at = entry.name, (small or case).name
        if looked_at not in self._known:
            self._known[looked_at] = self._run(entry, case, small)
        return self._known[looked_at]

    def _run(self, entry: Entry, case: Case, small: Case | None) -> tuple[Finding, ...]:
        note = functools.partial(Finding.note, "memcheck")
        path = toolkit.find(NAME)
        if path is None:
            return (note(f"{NAME} is not installed, so the line is unknown"),)
        if entry.builtin is not None:
            return (note("a built-in solution is not looked at: its kernels are libraries'"),)
        if small is None:
            return (note(f"case {case.name} is too large for {NAME}; add a case `small` to the problem's CASES"),)
        artefacts = self._artefacts(entry, small)
        log, complaint = Watched(self._problem, self._context).run(path, entry, artefacts, small)
        quoted = source_lines(log, [*artefacts.rglob("*"), *manifest.latest(entry.path, entry.variant)])
        found = [*findings(log, quoted)]
        found += [note(f"below memcheck, case {small.name}: {complaint}")] if complaint else []
        return tuple(found or [note(f"memcheck found nothing in case {small.name}")])

    def _artefacts(self, entry: Entry, case: Case) -> Path:
        """Build with line information into a separate cache entry; if that fails, use the usual build."""
        environment = {**self._device.environment, "NVCC_APPEND_FLAGS": "-lineinfo"}
        lined = dataclasses.replace(self._device, environment=environment)
        key = f"{self._device.key} lineinfo"
        wanted = case_selection.rehearsals(self._problem, (case,), (), ())
        usual = built(entry, self._context)
        lined_build = cache.entry_for(entry.path, entry.variant, key, cache_dir())
        if not (usual.is_built or hints.may_compile(entry.path, entry.builtin)):
            return usual.folder
        if wanted.keys() <= lined_build.rehearsed():
            return lined_build.folder
        builder = Builder(self._problem, dataclasses.replace(self._context, device=lined))
        if builder.build(entry, wanted, device_key=key) is None:
            return cache.entry_for(entry.path, entry.variant, key, cache_dir()).folder
        return usual.folder


class Watched(BelowTool):
    """A worker below the tool: it imports the solution and calls it once, and compiles nothing new."""

    def run(self, path: Path, entry: Entry, artefacts: Path, case: Case) -> tuple[Log, str]:
        """Run memcheck; return its findings, and the failure of the solution itself ('' for none)."""
        options = dataclasses.replace(self._context.options, import_timeout_s=LIMIT_S, build_timeout_s=LIMIT_S)
        self._context = dataclasses.replace(self._context, options=options)
        home = self._context.scratch / f"sanitizer-{entry.name[:40]}"
        report = home / "report.txt"
        command = [str(path), "--log-file", str(report), "--kill", *itertools.chain(*OPTIONS)]
        below = home, entry, artefacts, case, (command, ENVIRONMENT, LIMIT_S)
        call = functools.partial(self._rehearse, overrides=case.overrides, timed=timed_of(case.name))
        try:
            with self.called(*below, call) as (child, error, has_ended):
                complaint = f"{error.status.value}: {error.reason}" if error is not None else ""
                keep_manifest(entry.path, entry.variant, child.observed)
                text = head_of(report) or child.log
        except cache.UnfitArtefactsError as unfit:
            return parse(""), str(unfit)
        return parse(text), complaint if has_ended else f"{complaint}; memcheck did not end".lstrip("; ")


def small_case(problem: Entry, options: RunOptions, case: Case, case_bytes: int | None) -> Case | None:
    """Return the case to run below the tool: the judged one if it is known to be small, else `small` or ragged."""
    if case_bytes is not None and case_bytes <= SMALL_BYTES:
        return case
    known, own = case_selection.others(problem, options, case), forward_of(case.name)
    if not known or own == SMALL:
        return case if case_selection.is_covered(own) else None
    name = next(iter(known))
    return case_selection.like(Case(name=name, overrides=known[name]), case)


def source_lines(log: Log, files: Iterable[Path]) -> Mapping[SourcePlace, str]:
    """Return the source line of each place in a log whose file name matches exactly one of the given files."""
    wanted = {spot for report in log.reports for spot in report.places if spot.file is not None}
    names = {Path(spot.file or "").name for spot in wanted}
    here = {file for file in files if file.name in names and file.is_file() and not file.is_symlink()}
    found = {}
    for spot in wanted:
        same = [file for file in here if file.name == Path(spot.file or "").name]
        lines = head_of(same[0]).splitlines() if len(same) == 1 else []
        if spot.line is not None and 0 < spot.line <= len(lines):
            found[spot] = lines[spot.line - 1].strip()[:120]
    return found
