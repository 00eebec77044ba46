"""A row made of a verdict."""

from dataclasses import replace

import pytest
from fakes import CORRECT, timing

from kbench.catalog import registry
from kbench.core.events import RunOptions
from kbench.core.model import Case, Cost, Passed, Peaks
from kbench.engine.rows import make_row, provenance_of
from kbench.engine.task import Task, TaskVerdict
from kbench.engine.unit import UnitResult
from kbench.storage.settings import Settings

MEMORY = Cost(dram_bytes=10**9, flops=1)
ARITHMETIC = Cost(dram_bytes=1, flops=10**9)


@pytest.mark.parametrize(
    ("l2", "cost", "flagged"),
    [
        ("flushed", MEMORY, True),
        ("none", MEMORY, False),
        ("warm", MEMORY, False),
        ("none", ARITHMETIC, True),
        ("flushed", replace(MEMORY, dram_bytes=1000), False),
    ],
)
def test_a_limit_of_memory_binds_only_data_that_comes_from_memory(l2: str, cost: Cost, flagged: bool) -> None:
    """524 us are faster than 1 GB of copies at 1.75 TB/s or 10**9 FLOPs at 1.75 TFLOP/s, 571 us or more."""
    assert flags(l2, cost, 1.75e12) == (["beats_limit"] if flagged else [])


def flags(l2: str, cost: Cost, peak: float, ours_us: int = 524) -> list[str]:
    reference, candidate = timing().samples
    samples = (reference, replace(candidate, t_event_ns=1000 * ours_us))
    passed = Passed(correctness=CORRECT, timings=(replace(timing(), l2=l2, samples=samples),))
    result = UnitResult(outcome=passed, cost=cost, peaks=Peaks(copy_bytes_per_s=peak, fp32_flops_per_s=peak))
    problem = registry.find_problem("group_norm", Settings())
    solution = registry.find_solution(problem, "eager", Settings())
    asked = Task(key="k", problem=problem, solution=solution, case=Case(name="small"), options=RunOptions())
    row = make_row(provenance_of(problem, "run"), TaskVerdict(task=asked, results=(result,)))
    return row.flags.split()
