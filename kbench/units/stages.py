"""The stages of a unit as events of a run."""

from kbench.core.events import OF_THE_REFERENCE, REFERENCE, StageFinished, StageStarted
from kbench.units.unit import Unit


def name_of(stage: str, unit: Unit) -> str:
    """Return whose stage it is: the solution's, or the judge's own."""
    return REFERENCE if stage in OF_THE_REFERENCE else unit.solution.name


def started(stage: str, unit: Unit) -> StageStarted:
    """Return the start of a stage of a unit."""
    return StageStarted(stage=stage, solution=name_of(stage, unit), case=unit.case.name, process=unit.process)


def ended(stage: str, unit: Unit, elapsed_s: float, *, ok: bool = True) -> StageFinished:
    """Return the end of a stage of a unit."""
    case, process = unit.case.name, unit.process
    return finished(stage, case, elapsed_s, solution=name_of(stage, unit), process=process, ok=ok)


def finished(
    stage: str,
    case: str,
    elapsed_s: float,
    *,
    solution: str = REFERENCE,
    process: int | None = None,
    ok: bool = True,
    detail: str = "",
) -> StageFinished:
    """Return the end of a stage, by default of the judge's own side."""
    return StageFinished(
        stage=stage, solution=solution, case=case, process=process, ok=ok, elapsed_s=elapsed_s, detail=detail
    )
