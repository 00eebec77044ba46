"""`CASES` that is no literal: a sandboxed child runs the file once, and the answer is kept by its manifest."""

import contextlib
import json
from pathlib import Path
from typing import Any

from kbench.build import cache, manifest
from kbench.catalog import registry
from kbench.catalog.registry import Entry
from kbench.core.errors import KbenchError, MachineError, PluginError
from kbench.core.events import RunOptions
from kbench.core.model import Status
from kbench.devices import selection
from kbench.host import nursery_process
from kbench.host.builder import Builder
from kbench.host.context import RunContext
from kbench.process.channel import Message, WireError, decode_constants
from kbench.process.child_error import ChildError
from kbench.process.observed import Observed
from kbench.sandbox import rung_probe
from kbench.sandbox.work_folder import work_folder
from kbench.storage.settings import Settings, cache_dir

VARIANT = "CASES"
"""Key of the manifest of what computes the cases, beside the manifest of what a judge reads."""
TIMEOUT_S = 60.0
"""Limit for running the file once, as long as the default limit of an import."""
HINT = "kbench runs the file once to read CASES: correct that line, or write the cases out"
SLOW_HINT = "put what takes long below `if __name__ == '__main__':` or into `get_inputs`, or write the cases out"


def computed(path: Path) -> Any:
    """Return `CASES` as the file computes it, from the cache where everything that it read is as it was.

    Raises PluginError for a file that raises, or does not end in time; MachineError where no process starts.
    """
    kept = _place(manifest.identity(path, VARIANT))
    with contextlib.suppress(OSError, ValueError, WireError, KeyError):
        return decode_constants(json.loads(kept.read_text()))["CASES"]
    with work_folder() as scratch:
        answer, observed = _Listing(registry.find_problem(path, Settings()), scratch).run()
    try:
        table = decode_constants(answer["cases"])["CASES"]
    except (WireError, KeyError, TypeError) as error:
        raise PluginError(f"{path}: CASES is no dictionary of cases: {error}", HINT) from error
    with contextlib.suppress(OSError):
        known = manifest.record(path, VARIANT, observed.files, observed.folders)
        kept = _place(known.digest(path, VARIANT))
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(answer["cases"]))
    return table


def _place(identity: str) -> Path:
    return cache_dir() / manifest.FOLDER / "cases" / f"{identity}.json"


class _Listing(Builder):
    """Runs a problem's file in a worker on the CPU, which may start no program and write nothing of the user's."""

    def __init__(self, problem: Entry, scratch: Path):
        device = selection.choose("cpu")
        rung = int(rung_probe.reached(device.kind, cache_dir()))
        super().__init__(problem, RunContext(options=RunOptions(), device=device, rung=rung, scratch=scratch))

    def run(self) -> tuple[Message, Observed]:
        """Run the file; return the worker's answer, and what the file read."""
        home, problem = self._context.scratch, self._problem
        place = self._confined(problem, home, [home], cache.furnish(home / "cache"))
        try:
            with nursery_process.nursery(), self._running(place, {}) as child:
                self._set_up(child, place, allow_exec=False)
                answer = child.request({"op": "cases", "path": str(problem.path)}, timeout_s=TIMEOUT_S)
                return answer, child.observed
        except ChildError as error:
            raise self._explained(error) from error

    def _explained(self, error: ChildError) -> KbenchError:
        path = self._problem.path
        if error.status is Status.HARNESS_ERROR:
            return MachineError(f"no process could run {path} for its CASES: {error.reason}", "try it again")
        if error.status is Status.CALL_TIMEOUT:
            return PluginError(f"{path}: running it for its CASES took longer than {TIMEOUT_S:.0f} s", SLOW_HINT)
        reason = error.reason.removeprefix("PluginError: ")
        return PluginError(reason if str(path) in reason else f"{path}: {reason}", HINT)
