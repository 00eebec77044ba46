"""The command that measures a saved run again, reconstructed from its rows."""

import shlex
from collections.abc import Sequence

from kbench.core.errors import KbenchError
from kbench.core.model import ResultRow
from kbench.core.verdict import Conditions
from kbench.devices.backend import is_timed_by_host
from kbench.plugins import case_selection, registry
from kbench.storage.rows import constants_of, evaluates
from kbench.storage.settings import Settings


def command_of(rows: Sequence[ResultRow], settings: Settings) -> str:
    """Write a `kbench run`; options that rows do not hold, such as numbers of processes, are left out."""
    first = rows[0]
    words = ["kbench", "run", first.problem_path or first.problem]
    words += dict.fromkeys(row.solution_path or row.solution for row in rows)
    for case in dict.fromkeys(row.case for row in rows):
        words += ["--case", case]
    words += set_options(first.problem_path or first.problem, first.case, first.overrides, settings)
    words += ["--level", first.required_level] if first.required_level not in {"", "module"} else []
    for code in first.accepted.split():
        words += ["--accept", code]
    return shlex.join([*words, *condition_options(first, first.entry, evaluates=evaluates(first))])


def condition_options(conditions: ResultRow | Conditions, entry: str, *, evaluates: bool) -> list[str]:
    """Return the options of `kbench run` that measure under the same conditions."""
    return [
        *(["--device", "cpu"] if is_timed_by_host(conditions.device) else []),
        *(["--mode", conditions.mode] if conditions.mode not in {"", "cold"} else []),
        *(["--allow-tf32"] if conditions.tf32 else []),
        *(["--eval"] if evaluates else []),
        *(["--entry", entry] if entry else []),
    ]


def set_options(problem: str, case: str, overrides: str, settings: Settings) -> list[str]:
    """Return `--set NAME=VALUE` for the constants that the case does not set; empty if the problem is not available."""
    try:
        entry = registry.find_problem(problem, settings)
        by_hand = case_selection.set_by_hand(entry, case, constants_of(overrides) or {})
    except (KbenchError, OSError):
        return []
    return [word for name, value in by_hand.items() for word in ("--set", f"{name}={value!r}")]
