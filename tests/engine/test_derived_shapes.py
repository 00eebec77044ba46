"""What a sweep finds out about a problem before it builds: whose shapes are whose."""

from dataclasses import replace
from pathlib import Path

from sweeping import FakeJudge, entry, task

from kbench.core.events import StageEvent, StageFinished, StageStarted
from kbench.core.model import Case
from kbench.devices.selection import cpu
from kbench.engine.derived_shapes import DerivedShapes
from kbench.engine.guard import Guard


def test_shapes_that_were_derived_for_one_case_are_not_anothers(tmp_path: Path) -> None:
    first = replace(task(0, tmp_path), solution=entry(tmp_path / "p.py"))
    second = replace(first, case=Case(name="default", overrides={"n": 7}))
    told: list[StageEvent] = []
    judge = FakeJudge({}, Guard(cpu(), told.append))
    shapes = DerivedShapes(judge)
    found = [shapes.of(one).cases for one in (first, second, first)]
    assert found == [[{"n": 5}], [{"n": 6}], [{"n": 5}]]
    assert judge.turned == ["p", "p"], "each is found once"
    assert [(type(event), event.stage, event.case) for event in told] == [
        (kind, "shapes", case) for case in (first.case.name, "default") for kind in (StageStarted, StageFinished)
    ]


def test_cases_of_one_problem_share_the_sizes_of_the_first_and_keep_their_other_constants(tmp_path: Path) -> None:
    cases = tuple(Case(name=dtype, overrides={"n": 9, "dtype": dtype}) for dtype in ("bfloat16", "float32"))
    first = replace(task(0, tmp_path), solution=entry(tmp_path / "p.py"), case=cases[0], cases=cases)
    judge = FakeJudge({}, Guard(cpu()))
    shapes = DerivedShapes(judge)
    found = [shapes.of(one).cases for one in (first, replace(first, case=cases[1]))]
    assert found == [[{"n": 7, "dtype": "bfloat16"}], [{"n": 7, "dtype": "float32"}]]
    assert judge.turned == ["p"]


def test_the_judge_of_a_lane_finds_the_shapes_of_its_problem(tmp_path: Path) -> None:
    first = replace(task(0, tmp_path), solution=entry(tmp_path / "p.py"))
    nobody, lane = (FakeJudge({}, Guard(cpu())) for _ in range(2))
    lane.turn_to(first.problem, [first.solution], first.options)
    shapes = DerivedShapes(nobody)
    assert shapes.of(first, lane).cases == shapes.of(first).cases == [{"n": 5}]
    assert (nobody.turned, lane.turned) == ([], ["p"])
