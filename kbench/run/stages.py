"""The stages of a unit as events of a run."""

from collections.abc import Generator, Iterator
from typing import TypeVar

from kbench.core.events import OF_THE_REFERENCE, REFERENCE, Event, StageEvent, StageFinished, StageStarted, Waiting
from kbench.units.evaluator import StageProgress
from kbench.units.unit import Unit

T = TypeVar("T")


def follow(
    stages: Generator[StageProgress, None, T], unit: Unit, device: str, stage_s: dict[str, float]
) -> Generator[Event, None, T]:
    """Yield the stages of a unit as events, and return what comes of it.

    The seconds of the solution's own stages are added to `stage_s`; `device` is the device's name.
    """
    while True:
        try:
            news = next(stages)
        except StopIteration as end:
            result: T = end.value
            return result
        if news.elapsed_s is not None and news.stage not in OF_THE_REFERENCE:
            stage_s[news.stage] = stage_s.get(news.stage, 0.0) + news.elapsed_s
        yield from events_of(news, unit, device)


def events_of(news: StageProgress, unit: Unit, device: str) -> Iterator[StageEvent]:
    """Yield the events of a stage of a unit that begins or has ended."""
    name = REFERENCE if news.stage in OF_THE_REFERENCE else unit.solution.name
    case, process = unit.case.name, unit.process
    if news.elapsed_s is not None:
        yield finished(news.stage, case, process, news.elapsed_s, solution=name, ok=news.ok)
        return
    if news.stage == "wait":
        yield Waiting(device=device, holder=news.holder)
    yield StageStarted(stage=news.stage, solution=name, case=case, process=process)


def finished(
    stage: str, case: str, process: int | None, elapsed_s: float, *, solution: str = REFERENCE, ok: bool = True
) -> StageFinished:
    """Return the end of a stage, of the judge's own side if no solution is named."""
    return StageFinished(
        stage=stage, solution=solution, case=case, process=process, ok=ok, elapsed_s=elapsed_s, detail=""
    )
