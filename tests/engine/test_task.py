"""What the units of a task come to."""

from dataclasses import replace

import pytest
import sweeping
from fakes import CORRECT, timing

from kbench.core.model import Passed, Timing
from kbench.engine.summary import judged_of


def slowed(process: int, factor: float) -> Timing:
    """The times of a process whose candidate takes this many times as long."""
    made = timing(process)
    samples = [
        replace(s, t_event_ns=round(s.t_event_ns * (factor if s.arm == "candidate" else 1))) for s in made.samples
    ]
    return replace(made, samples=tuple(samples))


@pytest.mark.parametrize(("budget_s", "told"), [(5.0, ["imprecise"]), (60.0, []), (None, [])])
def test_where_the_budget_ends_a_measurement_that_is_wide_it_says_what_more_would_bring(budget_s, told):
    options = replace(sweeping.OPTIONS, verify_only=False, processes=2, max_processes=4, budget_s=budget_s)
    results = [
        sweeping.passed(number, outcome=Passed(correctness=CORRECT, timings=(slowed(number, factor),)))
        for number, factor in enumerate((1.0, 1.2))
    ]
    verdict = sweeping.verdict(1, *results)
    verdict = replace(verdict, task=replace(verdict.task, options=options))
    findings = judged_of(verdict).outcome.findings
    assert [found.code for found in findings] == told
