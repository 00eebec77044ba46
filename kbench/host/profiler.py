"""Calls of a solution under a profiler, in a sandboxed worker. Only the sizes and types of its answer are checked."""

import json
import os
import re
import shutil
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from kbench.build import cache
from kbench.catalog.registry import Entry
from kbench.core.model import Case, Failed, Status
from kbench.core.printable import printable
from kbench.core.trace import CallTrace
from kbench.host.below_tool import BelowTool, head_of
from kbench.host.builder import describe
from kbench.process.channel import Message
from kbench.process.child_error import ChildError

NCU = "ncu"
NCU_FIX = "install Nsight Compute and put `ncu` on PATH, or set CUDA_HOME, or leave out `--ncu`"
PERMISSION_FIX = (
    "an administrator types `echo options nvidia NVreg_RestrictProfilingToAdminUsers=0 | sudo tee "
    "/etc/modprobe.d/kbench-profile.conf` and reboots"
)
"""https://developer.nvidia.com/ERR_NVGPUCTRPERM. The sandbox drops the privileges of root."""
TRACE_LIMIT_S = 300.0
NCU_LIMIT_S = 600.0
"""Chosen: each kernel runs about forty times, and its memory is saved and restored in between."""
MOST_REPORT_BYTES = 256 << 20
REFUSED = "ERR_NVGPUCTRPERM"
NCU_ENVIRONMENT = {
    # Local sockets, which the sandbox lets the tool have, instead of TCP.
    "NV_COMPUTE_PROFILER_LOCAL_CONNECTION_OVERRIDE": "uds",
    # Its section files come from the installation, not from a home folder that is empty here.
    "NV_COMPUTE_PROFILER_DISABLE_STOCK_FILE_DEPLOYMENT": "1",
}


class Profiler(BelowTool):
    """Profiles solutions that were built."""

    def trace(self, entry: Entry, artefacts: Path, case: Case) -> CallTrace | Failed:
        """Call a solution under torch's profiler; return the trace from its process, or how it failed."""
        home = self._context.scratch / f"profile-{entry.name[:40]}"
        try:
            with (
                self.furnished(home, entry, artefacts) as place,
                self._running(place, cache.compiler_environment(home / "cache")) as child,
            ):
                self._set_up(child, place, threads=len(os.sched_getaffinity(0)))  # a timed worker has as many
                self._construct(child, entry, case.overrides, built=True)
                answer = child.request(self._message(case, counted=False), timeout_s=TRACE_LIMIT_S)
                return validated(answer.get("trace"))
        except cache.UnfitArtefactsError as error:
            return Failed(status=Status.BUILD_FAILED, reason=str(error))
        except ChildError as error:
            return describe(error)

    def save_counters(self, tool: Path, entry: Entry, artefacts: Path, case: Case, target: Path) -> str:
        """Call a solution below `ncu` and save its report; return a note on what it shows, or why there is none."""
        home = self._context.scratch / f"counters-{entry.name[:40]}"
        log, report = home / "counters.log", home / "counters.ncu-rep"
        message = self._message(case, counted=True)
        try:
            below = home, entry, artefacts, case, (ncu_command(tool, log, report), NCU_ENVIRONMENT, NCU_LIMIT_S)
            with self.called(*below, lambda child: child.request(message, timeout_s=NCU_LIMIT_S)) as (child, error, _):
                if report.exists():
                    shown = f"`{NCU} --import {target}` prints hardware counters, and advice of Nsight Compute"
                    return kept(report, target) or shown
                return why_none(f"{head_of(log)}\n{child.log}", error.reason if error is not None else "")
        except cache.UnfitArtefactsError as error:
            return str(error)

    def _message(self, case: Case, *, counted: bool) -> Message:
        return {"op": "trace", **self._case(case.overrides), "counters": counted}


def ncu_command(tool: Path, log: Path, report: Path) -> list[str]:
    """Return the command line: options of the Nsight Compute CLI; the program follows them."""
    return [
        str(tool),
        *("--target-processes", "all"),  # the worker is the third program of its process
        *("--profile-from-start", "off"),  # until the worker says so: neither inputs nor warm-up
        *("--launch-count", "64"),
        *("--set", "full"),
        *("--log-file", str(log), "--export", str(report), "--force-overwrite"),
    ]


def why_none(text: str, complaint: str) -> str:
    """Return why there is no report, and what to type if known."""
    if REFUSED in text:
        return f"the driver lets only administrators read hardware counters ({REFUSED}): {PERMISSION_FIX}"
    found = re.search(r"==ERROR== (.+)", text)
    return f"`{NCU}` read no counters: {found[1].strip()[:300] if found else complaint or 'no output'}"


def kept(report: Path, target: Path) -> str:
    """Copy a report to `target`; return why that failed, empty if it did not."""
    if report.is_symlink() or not report.is_file():
        return "`ncu` wrote no report to keep"
    if report.stat().st_size > MOST_REPORT_BYTES:
        return f"the report is larger than {MOST_REPORT_BYTES >> 20} MiB and is not saved"
    try:
        shutil.copyfile(report, target)
    except OSError as error:
        return f"the report cannot be saved at {target}: {error.strerror}"
    return ""


def validated(answer: object) -> CallTrace | Failed:
    """Check sizes and types of a trace; an invalid one is a failure of the process that sent it."""
    try:
        return TypeAdapter(CallTrace).validate_json(json.dumps(answer), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"its profile is malformed: {'.'.join(map(str, first['loc'])) or 'a field'}: {first['msg']}"
        return Failed(status=Status.PROTOCOL_ERROR, reason=printable(reason))
