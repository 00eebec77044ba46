"""The selftest's own rules: what counts as a miss, what is judged again, and that attacks are caught."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from records import make_check

from kbench.core.errors import ExitCode, MachineError, UsageError
from kbench.core.events import RunOptions
from kbench.core.levels import Level
from kbench.devices import selection
from kbench.engine.crew import Crew
from kbench.engine.task import Task
from kbench.report.selftest import blocks, line, verdict
from kbench.report.table import as_text
from kbench.selftest.canaries import Canaries
from kbench.selftest.checks import Checked, SelftestReport
from kbench.selftest.fixtures import CORPUS, TIMED_PROBLEM, Fixture, complaint_about, read_corpus, select
from kbench.selftest.session import ANY_PRECISION, FixtureRunner, is_doubtful, options_for, selftest

SHIPPED = read_corpus()


fixture = partial(
    Fixture,
    name="one",
    source=Path("cheats/one.py"),
    honest=False,
    category="clock",
    problem="gelu",
    summary="",
    devices=("cpu",),
    expect=("unfinished_output", "passed"),
    speedup_below=1.5,
)


def report(*checks: Checked, fixtures: int | None = None, kept: int = 0) -> SelftestReport:
    return SelftestReport(
        device="cpu",
        device_name="a CPU",
        isolation="5",
        torch="2",
        fixtures=len(checks) if fixtures is None else fixtures,
        checks=tuple(checks),
        kept=kept,
        elapsed_s=10.0,
    )


@pytest.mark.parametrize(
    ("changes", "status", "seen", "speedup", "escapes", "wrong"),
    [
        ({}, "unfinished_output", (), None, (), None),
        ({}, "passed", (), 1.1, (), None),
        ({}, "passed", (), None, (), None),
        ({}, "passed", (), 1.6, (), "speed-up"),
        ({}, "wrong_value", (), None, (), "expected"),
        ({}, "harness_error", (), None, (), "expected"),
        ({"findings": ("mean_offset*",)}, "passed", ("mean_offset_30",), 1.0, (), None),
        ({"findings": ("mean_offset*",)}, "passed", ("denormals",), 1.0, (), "no finding"),
        ({}, "passed", (), 1.0, ("tcp 1",), "not contained"),
    ],
)
def test_what_counts_as_a_miss(changes, status, seen, speedup, escapes, wrong):
    check = make_check(status=status, findings=seen, speedup=speedup, escapes=escapes)
    found = complaint_about(fixture(**changes), check)
    assert found is None if wrong is None else wrong in (found or "")


def test_rates_count_misses_of_each_kind() -> None:
    caught, missed = make_check(), make_check(complaint="passed")
    passed, refused = make_check(honest=True), make_check(honest=True, complaint="wrong_value", category="plain")
    proof = report(caught, caught, missed, passed, refused)
    assert proof.detection_rate == pytest.approx(2 / 3)
    assert proof.false_positive_rate == pytest.approx(1 / 2)
    assert "FAILED" in verdict(proof)
    text = as_text(blocks(proof))
    assert [line.split() for line in text.splitlines() if line.startswith("  all")] == [
        ["all", "2", "3"],
        ["all", "1", "2"],
    ]
    assert "MISS  one  passed" in text
    assert "66.7% of attacks caught" in text


def test_a_part_is_no_proof_and_kept_verdicts_are_counted() -> None:
    part = report(make_check(), fixtures=3)
    assert (part.exit_code, report(make_check()).exit_code) == (ExitCode.INTERRUPTED, ExitCode.OK)
    assert verdict(part).startswith("selftest ended early: 1 of 3 fixtures judged, 100.0% of attacks")
    assert verdict(report(make_check(), kept=1)).endswith("in 10.0 s, 1 kept from earlier commands")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": "passed"}, "ok    attack  one  contained"),
        ({"status": "passed", "complaint": "not contained: tcp 1"}, "MISS  attack  one  passed"),
        ({"status": "wrong_value"}, "ok    attack  one  wrong_value"),
        ({"status": "passed", "honest": True}, "ok    honest  one  passed"),
    ],
)
def test_an_attack_that_reached_nothing_is_not_said_to_pass(changes, words):
    assert line(make_check(**changes)).startswith(words)


def test_no_attacks_give_no_rate() -> None:
    assert report(make_check(honest=True)).detection_rate is None
    assert "attacks" not in verdict(report(make_check(honest=True)))


@pytest.mark.parametrize(
    ("changes", "status", "level", "lacks", "wrong"),
    [
        ({}, "passed", Level.MODULE, ("alignment",), None),
        ({"level": "module"}, "passed", Level.MODULE, ("alignment",), None),
        ({"level": "module"}, "passed", Level.GENERAL, (), "holds the level `general`, expected `module`"),
        ({"level": "task", "lacks": ("*_weights",)}, "below_level", Level.TASK, ("frozen_weights",), None),
        ({"level": "task", "lacks": ("values",)}, "below_level", Level.TASK, ("cases",), "does not lack `values`"),
        ({"level": "task"}, "wrong_value", None, (), None),
    ],
)
def test_a_fixture_is_held_to_its_level(changes, status, level, lacks, wrong) -> None:
    check = make_check(status=status, level=level or "", lacks=lacks)
    assert complaint_about(fixture(expect=(status,), **changes), check) == wrong


def test_fixtures_that_are_judged_alone_queue_for_the_device(tmp_path: Path) -> None:
    one = fixture(problem=TIMED_PROBLEM)
    assert [options_for(one, tmp_path, alone=alone).wait_for_device for alone in (False, True)] == [False, True]
    assert [each.is_exclusive for each in (one, fixture(), fixture(alone=True))] == [True, False, True]


def test_fixtures_about_time_are_timed_as_a_quick_run_times_them(tmp_path: Path) -> None:
    about_time, other = (
        options_for(fixture(**told), tmp_path, alone=True) for told in ({"problem": TIMED_PROBLEM}, {})
    )
    usual = RunOptions()
    assert (about_time.pairs, about_time.precision) == (usual.pairs, usual.precision)
    assert (other.pairs, other.precision) == (usual.pairs, ANY_PRECISION)


@pytest.mark.parametrize(
    ("status", "speedup", "escapes", "doubtful"),
    [
        ("passed", 1.6, (), True),
        ("passed", 1.6, ("tcp 1",), False),
        ("passed", 1.1, (), False),
        ("wrong_value", None, (), False),
        ("unfinished_output", None, (), False),
        ("harness_error", None, (), True),
    ],
)
def test_what_gets_a_second_look(status: str, speedup: float | None, escapes: tuple[str, ...], doubtful: bool) -> None:
    check = make_check(status=status, speedup=speedup, escapes=escapes)
    assert is_doubtful(replace(check, complaint=complaint_about(fixture(), check))) is doubtful


@pytest.mark.parametrize("second", [None, "passed with a speed-up of 1.61, must stay below 1.5"])
def test_a_miss_by_time_must_show_twice(monkeypatch: pytest.MonkeyPatch, second: str | None) -> None:
    """The first look misses by its time; the second decides, with nothing beside it."""
    looks: list[tuple[int, bool]] = []

    def judge(_bench: object, fixtures: Sequence[Fixture], *, lanes: int, alone: bool) -> Iterator[Checked]:
        for one in fixtures:
            looks.append((lanes, alone))
            first = "passed with a speed-up of 1.60, must stay below 1.5"
            yield make_check(name=one.name, honest=True, complaint=first if len(looks) == 1 else second)

    monkeypatch.setattr("kbench.selftest.session.FixtureRunner.judge", judge)
    *_, proof = selftest(devices="cpu", names=["gelu_by_erf"])
    assert isinstance(proof, SelftestReport)
    assert [one.complaint for one in proof.checks] == [second]
    assert looks == [(3, False), (1, True)]


@pytest.mark.parametrize("ends", ["a defect of the machine", ""])
def test_fixtures_that_are_not_judged_are_failures_of_kbench(tmp_path, monkeypatch, ends):
    class Ends(Crew):
        """Has no lanes that judge."""

        def start(self) -> None:
            """Start nothing."""
            if ends:
                raise MachineError(ends)

        def add(self, tasks: Sequence[Task], known: object = None) -> None:
            """Forget the tasks."""

    monkeypatch.setattr("kbench.selftest.session.Crew", Ends)
    (one,) = select(SHIPPED, device="cpu", names=["gelu_by_erf"])
    runner = FixtureRunner(CORPUS, Canaries((), {}), [selection.cpu()], tmp_path)
    (found,) = runner.judge([one], lanes=2, alone=False)
    assert found.status == "harness_error"
    assert (ends or "without a verdict") in found.reason
    assert is_doubtful(found)


def test_selection() -> None:
    one, other = fixture(name="one"), fixture(name="other")
    every = (one, other, fixture(name="elsewhere", devices=("cuda",)))
    assert select(every, device="cpu") == (one, other)
    assert select(every, device="cpu", names=("one", "elsewhere")) == (one,)
    with pytest.raises(UsageError, match="no fixture named `oen`"):
        select(every, device="cpu", names=("oen",))


def share_of(one: Fixture) -> str:
    """Return the part of the test that a fixture is run with: by problem, so that each is opened once.

    Effects watch the same ports and files.
    """
    if one.effects:
        return "effects"
    if one.is_exclusive:
        return "time"
    return "a to k" if one.problem < "l" else "l to z"


SAMPLE = """
cache_by_address closes_descriptors connects_tcp float64_output forges_its_manifest fp16_gelu hangs_at_import
hard_coded_shape leaves_daemon nan_everywhere narrowly_wrong_after_forty_calls patches_comparisons predicts_next_input
searches_gc_for_answer zeroes_input no_parameters background_thread lazy_subclass empty_output zeros_softmax bf16_dot
gelu_by_erf waits_for_its_worker_thread
""".split()  # noqa: SIM905 - as lines they can be read
"""A quick attack of each kind, and few honest solutions: each is timed and takes as long as ten attacks.

None is caught by its time alone, which a busy machine may change. `kbench selftest` runs all.
"""


def at(seconds: int, share: str):
    return pytest.param(share, marks=pytest.mark.slow(seconds=seconds))


@pytest.mark.parametrize("share", [at(20, "a to k"), at(10, "l to z"), at(10, "time"), at(10, "effects")])
def test_attacks_are_caught_and_honest_solutions_pass(share: str) -> None:
    """In parts, so that they run beside one another."""
    names = [one.name for one in select(SHIPPED, device="cpu", names=SAMPLE) if share_of(one) == share]
    *_, proof = selftest(devices="cpu", names=names, jobs=1)
    assert isinstance(proof, SelftestReport)
    assert sorted(one.name for one in proof.checks) == sorted(names)
    assert [(one.name, one.complaint, one.reason) for one in proof.misses] == []


TWO_CHEATS = """import torch
from torch import nn

CLASS = "trivial"
EXPECT = ("passed",)


class is_right(nn.Module):
    PROBLEM = "gelu"
    EXPECT = ("wrong_value",)

    def forward(self, x):
        return torch.nn.functional.gelu(x)


class is_wrong(nn.Module):
    PROBLEM = "gelu"
    EXPECT = ("wrong_value",)

    def forward(self, x):
        return torch.nn.functional.gelu(x) + 1
"""


@pytest.mark.slow
def test_a_miss_is_reported(tmp_path: Path) -> None:
    """An honest solution among the cheats is a miss: the proof can fail. The other class of its file is caught."""
    for folder in ("cheats", "honest", "problems"):
        (tmp_path / folder).mkdir()
    (tmp_path / "cheats" / "trivial.py").write_text(TWO_CHEATS)
    (tmp_path / "problems" / "gelu.py").write_text((CORPUS / "problems" / "gelu.py").read_text())
    *_, proof = selftest(devices="cpu", folder=tmp_path)
    assert isinstance(proof, SelftestReport)
    assert [(one.name, one.status) for one in proof.checks] == [("is_right", "passed"), ("is_wrong", "wrong_value")]
    assert [one.name for one in proof.misses] == ["is_right"]
    assert proof.detection_rate == 0.5
