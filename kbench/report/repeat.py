"""The command that measures a saved run again, reconstructed from its rows."""

import shlex
from collections.abc import Sequence

from kbench.core.errors import KbenchError
from kbench.core.model import ResultRow
from kbench.devices.backend import is_timed_by_host
from kbench.plugins import case_selection, registry
from kbench.report.summary import recorded_constants
from kbench.storage.rows import evaluates
from kbench.storage.settings import Settings


def command_of(rows: Sequence[ResultRow], settings: Settings) -> str:
    """Write a `kbench run`; options that rows do not hold, such as numbers of processes, are left out."""
    first = rows[0]
    words = ["kbench", "run", first.problem_path or first.problem]
    words += dict.fromkeys(row.solution_path or row.solution for row in rows)
    for case in dict.fromkeys(row.case for row in rows):
        words += ["--case", case]
    for name, value in _set_by_hand(first, settings).items():
        words += ["--set", f"{name}={value!r}"]
    words += ["--device", "cpu"] if is_timed_by_host(first.device) else []
    words += ["--mode", first.mode] if first.mode not in {"", "cold"} else []
    words += ["--level", first.required_level] if first.required_level not in {"", "module"} else []
    for code in first.accepted.split():
        words += ["--accept", code]
    words += ["--allow-tf32"] if first.tf32 else []
    words += ["--eval"] if evaluates(first) else []
    words += ["--entry", first.entry] if first.entry else []
    return shlex.join(words)


def _set_by_hand(row: ResultRow, settings: Settings) -> dict[str, object]:
    """Return the constants that the case does not set itself; empty if the problem is not available."""
    try:
        problem = registry.find_problem(row.problem_path or row.problem, settings)
        return case_selection.set_by_hand(problem, row.case, recorded_constants(row.overrides))
    except (KbenchError, OSError):
        return {}
