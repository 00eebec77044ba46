"""A second measurement of flagged cases: the same solutions, measured again under the conditions of a saved run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from kbench.catalog import case_selection, registry
from kbench.compare import measurements
from kbench.core.errors import MachineError
from kbench.core.events import Event
from kbench.core.levels import Level
from kbench.core.model import ResultRow, Time
from kbench.core.verdict import Measurement, evaluates
from kbench.engine import run as session
from kbench.engine.options import options_from
from kbench.gate.rule import Confirm
from kbench.storage.results import CaseKey, Run, case_key, constants_of
from kbench.storage.settings import Settings


def by_running(run: Run, settings: Settings, watch: Callable[[Event], None], time: Time = Time.DEVICE) -> Confirm:
    """Make a `confirm` that measures cases of `run` again, from the solutions as they are now; `watch` sees events.

    It raises MachineError if this machine has another device than the run was measured on.
    """
    rows = {case_key(row): row for row in run.rows}

    def confirm(keys: tuple[CaseKey, ...], processes: int) -> Mapping[CaseKey, Measurement]:
        found: dict[CaseKey, Measurement] = {}
        for problem, case in dict.fromkeys((key[0], key[2]) for key in keys):
            chosen = [rows[key] for key in keys if (key[0], key[2]) == (problem, case)]
            found |= _measure(chosen, processes, settings, watch, time)
        return found

    return confirm


def _measure(
    rows: Sequence[ResultRow], processes: int, settings: Settings, watch: Callable[[Event], None], time: Time
) -> dict[CaseKey, Measurement]:
    first = rows[0]
    problem = registry.find_problem(first.problem_path or first.problem, settings)
    solutions = []
    for row in rows:
        found = registry.find_solution(problem, row.solution_path or row.solution, settings, entry=row.entry or None)
        solutions.append(replace(found, name=row.solution))
    options = options_from(
        settings,
        device=first.device,
        cases=(first.case,),
        overrides=case_selection.set_by_hand(problem, first.case, constants_of(first.overrides)),
        processes=processes,
        max_processes=processes,
        mode=first.mode,
        trusted=first.isolation == "none",
        level=Level(first.required_level or Level.MODULE),
        accept=tuple(first.accepted.split()),
        allow_tf32=first.tf32,
        eval_mode=evaluates(first),
    )
    fresh = session.saved_run(problem, solutions, options, watch)
    if fresh.rows[0].gpu_name != first.gpu_name:
        raise MachineError(
            f"the run was measured on {first.gpu_name}, this machine has {fresh.rows[0].gpu_name}",
            "confirm where the run was measured, or gate without `--confirm`",
        )
    return measurements(fresh, time)
