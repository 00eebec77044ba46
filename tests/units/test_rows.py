"""A row made of a verdict."""

from dataclasses import replace

import pytest
from fakes import CORRECT, timing

from kbench.core.events import RunOptions
from kbench.core.model import Case, Cost, Passed, Peaks
from kbench.plugins import registry
from kbench.storage.settings import Settings
from kbench.units.rows import make_row, provenance_of
from kbench.units.unit import UnitResult

MEMORY = Cost(dram_bytes=10**9, flops=1)
ARITHMETIC = Cost(dram_bytes=1, flops=10**12)


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
    """524 us are faster than 1 GB of copies at 1 TB/s or 10**12 FLOPs at 1 TFLOP/s, both 1 ms or more."""
    passed = Passed(correctness=CORRECT, timings=(replace(timing(), l2=l2),))
    peaks = Peaks(copy_bytes_per_s=1e12, fp32_flops_per_s=1e12)
    result = UnitResult(outcome=passed, cost=cost, peaks=peaks)
    problem = registry.find_problem("group_norm", Settings())
    solution = registry.find_solution(problem, "eager", Settings())
    row = make_row(provenance_of(problem, "run"), solution, Case(name="small"), 0, RunOptions(), result)
    assert ("beats_limit" in row.flags.split()) == flagged
