"""`kbench watch`: which saves are seen, what changed between them, and its lines; the judge follows a script."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import CORRECT, timing

from kbench.api.evaluation import EvaluationResult
from kbench.build import manifest
from kbench.cli.watch import render_save
from kbench.core.events import StageFinished, Waiting
from kbench.core.levels import Level
from kbench.core.model import Failed, Passed, Status
from kbench.watch import saves_of, watch


def passed(*factors: float) -> EvaluationResult:
    """A case that passed in one process for each factor, by which the solution's time is longer."""
    timings = []
    for process, factor in enumerate(factors):
        one = timing(process)
        slower = [
            replace(sample, t_event_ns=round(sample.t_event_ns * (factor if sample.arm == "candidate" else 1)))
            for sample in one.samples
        ]
        timings.append(replace(one, samples=tuple(slower)))
    outcome = Passed(correctness=CORRECT, timings=tuple(timings), level=Level.MODULE)
    return EvaluationResult(problem="p", solution="s", case="small", outcome=outcome, rows=(), stage_s={})


WRONG = EvaluationResult(
    problem="p",
    solution="s",
    case="small",
    outcome=Failed(status=Status.WRONG_VALUE, reason="output [0]: got 0, want 1"),
    rows=(),
    stage_s={},
)


def lines(*answers: EvaluationResult) -> list[str]:
    script = iter(answers)
    watched = watch(lambda: (next(script),), iter([None] * len(answers)))
    return [render_save(number, cases, 3.0) for number, (cases, _) in enumerate(watched, 1)]


def test_a_change_beyond_the_noise_is_told_with_its_interval_and_its_direction():
    first, slower, faster = lines(passed(1, 1.001, 0.999), passed(1.1, 1.101, 1.099), passed(0.88, 0.881, 0.879))
    assert first == "1  small  passed  module  3.0 s", "nothing to compare with"
    assert "  time +10.00 % (+9." in slower
    assert "  time −20.00 % (−20." in faster
    assert faster.endswith("  3.0 s")


def test_a_change_within_the_noise_is_none():
    _, second = lines(passed(1, 1.01, 0.99), passed(1.001, 1.012, 0.99))
    assert "  no change (within " in second


def test_what_failed_says_why_and_the_next_is_compared_with_the_last_that_was_timed():
    _, wrong, mended = lines(passed(1, 1.001, 0.999), WRONG, passed(2, 2.002, 1.998))
    assert wrong == "2  small  WRONG_VALUE  output [0]: got 0, want 1  3.0 s"
    assert "time +100.0 % (" in mended


def test_one_process_or_no_time_is_compared_with_nothing():
    for number, line in enumerate(lines(passed(1), passed(2), passed(), passed()), 1):
        assert line == f"{number}  small  passed  module  3.0 s"


def test_saves_are_seen_once_and_a_file_that_is_away_or_being_written_is_waited_for(tmp_path):
    path = tmp_path / "s.py"
    path.write_text("1")
    steps = iter(
        [
            lambda: None,
            path.unlink,
            lambda: None,
            lambda: path.write_text("22"),
            lambda: path.write_text("333"),
            lambda: None,
            lambda: None,
            lambda: os.utime(path, (9, 9)),
            lambda: None,
            lambda: pytest.fail("no further save"),
        ]
    )
    looked = []

    def sleep(_seconds: float) -> None:
        looked.append(1)
        next(steps)()

    saves = saves_of(path, sleep)
    next(saves)
    assert looked == [], "the file as it is counts as a save"
    next(saves)
    assert path.read_text() == "333", "not while it was written"
    next(saves)
    assert path.stat().st_mtime == 9


@pytest.mark.parametrize("variant", ["", "softmax_a", "mykernels.ops:softmax_a"])
def test_a_file_is_followed_once_it_was_seen_to_be_read(tmp_path, own_cache, variant):
    path, helper, other = tmp_path / "s.py", tmp_path / "helper.py", tmp_path / "other.py"
    for file in (path, helper, other):
        file.write_text("1")
    seen = []

    def change(text: str, file: Path) -> None:
        file.write_text(text)
        seen.append(f"{file.name} {text}")

    steps = [
        lambda: change("22", helper),  # not read yet
        lambda: change("import helper", path),
        lambda: change("333", helper),
        lambda: change("22", other),  # never read
        lambda: change("4444", helper),
    ]
    # A change is seen at one check, and a save at the next.
    script = iter([act for step in steps for act in (step, lambda: None, lambda: None)])
    saves = saves_of(path, lambda _: next(script)(), variant=variant)
    found = []
    for _ in range(4):
        next(saves)
        found.append([*seen][-1:])
        if path.read_text() == "import helper":  # what a judge that imports it records
            manifest.record(path, variant, [str(helper)], [])
    assert found == [[], ["s.py import helper"], ["helper.py 333"], ["helper.py 4444"]]


def test_whoever_is_waited_for_is_told_once_per_save_and_a_failed_stage_not_at_all(capsys):
    from kbench.cli.output import Output
    from kbench.cli.watch import Shown

    shown = Shown(Output())

    def judge() -> tuple[()]:
        shown.show(Waiting(device="cpu", holder="pid 7, for 1 s"))
        shown.show(Waiting(device="cpu", holder="pid 7, for 3 s, and 1 more"))
        shown.show(StageFinished(stage="verify", solution="s", case="c", process=0, ok=False, elapsed_s=1, detail=""))
        return ()

    for _ in range(2):
        shown.during(judge)
    assert capsys.readouterr().err == 2 * "waiting for cpu, in use by pid 7, for 1 s\n"
