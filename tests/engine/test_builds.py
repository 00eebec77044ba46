"""What a sweep finds out about a problem before it builds: whose shapes are whose."""

from dataclasses import replace
from pathlib import Path

from sweeping import FakeJudge, entry, task

from kbench.core.events import StageEvent, StageFinished, StageStarted
from kbench.core.model import Case
from kbench.devices.selection import cpu
from kbench.engine.builds import DerivedShapes
from kbench.host.health import Watch


def test_shapes_that_were_derived_for_one_case_are_not_anothers(tmp_path: Path) -> None:
    first = replace(task(0, tmp_path), solution=entry(tmp_path / "p.py"))
    second = replace(first, case=Case(name="default", overrides={"n": 7}))
    judge = FakeJudge({}, Watch(cpu(), tmp_path))
    told: list[StageEvent] = []
    shapes = DerivedShapes(judge, told.append)
    assert [shapes.of(one).cases for one in (first, second, first)] == [[{"n": 5}], [{"n": 7}], [{"n": 5}]]
    assert judge.turned == ["p", "p"], "each is found once"
    assert [(type(event), event.stage, event.case) for event in told] == [
        (kind, "shapes", case) for case in (first.case.name, "default") for kind in (StageStarted, StageFinished)
    ]


def test_the_judge_of_a_lane_finds_the_shapes_of_its_problem(tmp_path: Path) -> None:
    first = replace(task(0, tmp_path), solution=entry(tmp_path / "p.py"))
    nobody, lane = (FakeJudge({}, Watch(cpu(), tmp_path)) for _ in range(2))
    lane.turn_to(first.problem, [first.solution], first.options)
    shapes = DerivedShapes(nobody, [].append)
    assert shapes.of(first, lane).cases == shapes.of(first).cases == [{"n": 5}]
    assert (nobody.turned, lane.turned) == ([], ["p"])
