"""The stages of a unit as events of a run."""

from collections.abc import Generator
from typing import TypeVar

from kbench.core.events import OF_THE_REFERENCE, REFERENCE, Event, StageFinished, StageStarted, Waiting
from kbench.units.evaluator import StageProgress
from kbench.units.unit import Unit

T = TypeVar("T")


def follow(
    stages: Generator[StageProgress, None, T], unit: Unit, device: str, stage_s: dict[str, float]
) -> Generator[Event, None, T]:
    """Yield the stages of a unit as events, and return what comes of it.

    The seconds of the solution's own stages are added to `stage_s`; `device` is the device's name.
    """
    case, process = unit.case.name, unit.process
    while True:
        try:
            news = next(stages)
        except StopIteration as end:
            result: T = end.value
            return result
        name = REFERENCE if news.stage in OF_THE_REFERENCE else unit.solution.name
        if news.elapsed_s is None:
            if news.stage == "wait":
                yield Waiting(device=device, holder=news.holder)
            yield StageStarted(stage=news.stage, solution=name, case=case, process=process)
        elif name == REFERENCE:
            yield finished(news.stage, case, process, news.elapsed_s, ok=news.ok)
        else:
            stage_s[news.stage] = stage_s.get(news.stage, 0.0) + news.elapsed_s
            yield StageFinished(
                stage=news.stage,
                solution=name,
                case=case,
                process=process,
                ok=news.ok,
                elapsed_s=news.elapsed_s,
                detail="",
            )


def finished(stage: str, case: str, process: int | None, elapsed_s: float, *, ok: bool = True) -> StageFinished:
    """Return the end of a stage of the judge's own side."""
    return StageFinished(
        stage=stage, solution=REFERENCE, case=case, process=process, ok=ok, elapsed_s=elapsed_s, detail=""
    )
