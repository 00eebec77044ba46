"""Builds that an evaluation asks for: of a problem's own model, and of a solution that was seen to need one."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from kbench.build import hints
from kbench.core.model import Case, Failed
from kbench.devices.admission import Admission
from kbench.host.builder import Builder, built, job_of
from kbench.host.context import RunContext
from kbench.host.turn import Turn
from kbench.plugins import case_selection, registry
from kbench.plugins.registry import Entry


def problem_may_compile(problem: Entry, context: RunContext) -> bool:
    """Return whether a problem's own model seems to need a build, and has none yet."""
    eager = registry.builtin(problem, "eager")
    return hints.may_compile(problem.path, None) and not built(eager, context).is_built


def build_problem(problem: Entry, context: RunContext) -> None:
    """Build a problem's own model at a small case; a failure is the judge's to find."""
    small = case_selection.small_case(problem, context.options) or Case(name="default")
    eager = registry.builtin(problem, "eager")
    job = job_of(problem, eager, [small], (), context)
    _builder(problem, context).build(eager, dict(itertools.islice(job.rehearsals.items(), 1)))


def rehearse(
    problem: Entry, entry: Entry, case: Case, derived: Sequence[Mapping[str, Any]], context: RunContext
) -> Failed | None:
    """Build a solution that was seen to need it, with all calls that it will be judged by; return its failure."""
    job = job_of(problem, entry, [case], derived, context, anew=True)
    return _builder(problem, context).build(entry, job.rehearsals, calls=True)


def _builder(problem: Entry, context: RunContext) -> Builder:
    timed = context.options.wait_for_device and not context.options.verify_only
    return Builder(problem, context, turn=Turn(Admission(uuid=context.device.uuid) if timed else None))
