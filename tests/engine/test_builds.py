"""The build stage: what is rehearsed, builds side by side, and builds that are broken off."""

import itertools
import json
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiny_corpus
from waiting import wait_until

from kbench.build import cache, manifest
from kbench.catalog import case_selection, registry
from kbench.catalog.case_selection import Rehearsal
from kbench.catalog.shapes import Derived
from kbench.core.errors import MachineError
from kbench.core.events import Judged, RunOptions, StageEvent
from kbench.core.model import Case, Failed, Passed, Status
from kbench.devices import selection
from kbench.engine import builds
from kbench.engine.builds import Builds
from kbench.engine.derived_shapes import DerivedShapes
from kbench.engine.dispatch import Dispatcher
from kbench.engine.run import run
from kbench.engine.task import Task
from kbench.host.builder import Builder, built, keep_judged
from kbench.host.context import RunContext
from kbench.host.nursery_process import nursery
from kbench.host.turn import Turn
from kbench.process.observed import Observed
from kbench.storage import settings
from kbench.storage.settings import cache_dir

pytestmark = pytest.mark.usefixtures("own_cache")

IMAGES = tiny_corpus.problem(
    given="torch.randn(3, 2, side, side + 1)",
    constants='side = 8\nCASES = {"small": {"side": 4}, "ragged": {"side": 5}}',
)
CALLED = """import json, os, time  # torch.compile

import torch

LOG = os.path.join(os.environ["TORCHINDUCTOR_CACHE_DIR"], "calls.json")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        began = time.monotonic()
        {body}
        os.makedirs(os.path.dirname(LOG), exist_ok=True)
        with open(LOG, "a") as log:
            call = [x.shape[-2], x.stride(), x.data_ptr() % 16 == 0, began, time.monotonic()]
            log.write(json.dumps(call) + "\\n")
        return 2 * x
"""


def written(folder: Path, name: str, text: str) -> Path:
    (folder / f"{name}.py").write_text(text)
    return folder / f"{name}.py"


def entries(folder: Path, **bodies: str) -> tuple[registry.Entry, list[registry.Entry]]:
    problem = registry.find_problem(written(folder, "images", IMAGES), settings.load(None))
    solutions = [written(folder, name, CALLED.format(body=body)) for name, body in bodies.items()]
    return problem, [registry.find_solution(problem, path, settings.load(None)) for path in solutions]


def calls_in_builds(folder: Path) -> list[list[object]]:
    logs = (folder / "cache").glob("builds/*/inductor/calls.json")
    return [json.loads(line) for log in logs for line in log.read_text().splitlines()]


@pytest.mark.parametrize(
    ("others", "derived", "expected"),
    [
        ([], [], [({}, True)]),
        ([{"n": 1}], [], [({}, False), ({"n": 1}, True)]),
        ([{"n": 1}, {"n": 2}], [{"n": 3}], [({}, False), ({"n": 1}, True), ({"n": 2}, False), ({"n": 3}, False)]),
        ([], [{"n": 3}], [({}, True), ({"n": 3}, False)]),
    ],
)
def test_layouts_are_rehearsed_where_verification_tries_them(tmp_path, others, derived, expected) -> None:
    problem, _ = entries(tmp_path)
    wanted = case_selection.rehearsals(problem, [Case(name="default", overrides={})], others, derived)
    assert list(wanted.values()) == [Rehearsal(overrides=given, layouts=layouts) for given, layouts in expected]


def test_a_rehearsal_with_layouts_is_another_one(tmp_path) -> None:
    problem, _ = entries(tmp_path)
    default = [Case(name="default", overrides={})]
    assert not set(case_selection.rehearsals(problem, default, [{"n": 1}], [])) & set(
        case_selection.rehearsals(problem, default, [], [])
    )


def test_a_build_calls_what_compiles_in_its_calls_on_every_case_and_layout(tmp_path) -> None:
    problem, solutions = entries(tmp_path, one="")
    (judged,) = [e for e in run(problem, solutions, RunOptions(verify_only=True, save=False)) if isinstance(e, Judged)]
    assert isinstance(judged.outcome, Passed), judged.outcome
    # Judged is `small`, the rest is rehearsed beside it; layouts are those of the first case beside it.
    assert [(side, stride, aligned) for side, stride, aligned, *_ in calls_in_builds(tmp_path)] == [
        (4, [40, 20, 5, 1], True),
        (5, [60, 30, 6, 1], True),
        (5, [60, 30, 6, 1], False),
        (5, [60, 30, 1, 5], True),
        (5, [60, 1, 12, 2], True),
    ]


def test_a_solution_that_dies_at_a_layout_is_the_judges_matter(tmp_path) -> None:
    problem, solutions = entries(tmp_path, one="if not x.is_contiguous(): os.kill(os.getpid(), 11)")
    (judged,) = [e for e in run(problem, solutions, RunOptions(verify_only=True, save=False)) if isinstance(e, Judged)]
    assert isinstance(judged.outcome, Passed), judged.outcome
    assert judged.outcome.lacks == ("channels_last", "strides")
    (found,) = [finding for finding in judged.outcome.findings if finding.code == "strides"]
    assert found.status is Status.CRASHED
    assert found.message.startswith("on strided inputs: ")


def test_nothing_is_published_of_a_solution_whose_problem_fails_first(tmp_path) -> None:
    """An entry without artefacts would stand for a build: of a selftest that was ended, whose problems were removed."""
    problem, (solution,) = entries(tmp_path, one="pass")
    context = RunContext(options=RunOptions(), device=selection.choose("cpu"), rung=0, scratch=tmp_path)
    cached = cache.entry_for(solution.path, "", "cpu", cache_dir())
    with nursery():
        problem.path.rename(tmp_path / "elsewhere.py")
        assert Builder(problem, context).build(solution, {"default": Rehearsal(overrides={})}) is None
        assert not cached.is_built
        (tmp_path / "elsewhere.py").rename(problem.path)
        assert Builder(problem, context).build(solution, {"default": Rehearsal(overrides={})}) is None
        assert cached.is_built


def test_what_a_judged_solution_reads_besides_makes_its_build_no_less_good(tmp_path) -> None:
    """A second process of a run would build again what the first one was built from."""
    _, (solution,) = entries(tmp_path, one="pass")
    context = RunContext(options=RunOptions(), device=selection.choose("cpu"), rung=0, scratch=tmp_path)
    cached = built(solution, context)
    cached.publish(cached.stage(), {"default"}, "")
    (tmp_path / "table.txt").write_text("1 2 3")
    identity = keep_judged(solution, Observed(files=[str(tmp_path / "table.txt")]), context)
    after = built(solution, context)
    assert identity == manifest.identity(solution.path)
    assert (after.folder != cached.folder, after.is_built, after.rehearsed()) == (True, True, {"default"})
    (tmp_path / "table.txt").write_text("4 5 6")
    assert built(solution, context).folder == cached.folder


class Stage:
    """A stage of builds whose events and tasks a test can look into."""

    def __init__(self, folder: Path, jobs: int = 2, shapes: DerivedShapes | None = None):
        context = RunContext(options=RunOptions(), device=selection.choose("cpu"), rung=0, scratch=folder)
        self.dispatcher = Dispatcher(write=lambda *_: None, lanes=1, batch=99)
        self.news: list[StageEvent | BaseException] = []
        ready = shapes or DerivedShapes()
        self.builds = Builds(context, self.dispatcher, ready, jobs=jobs, report=self.news.append, beside_lanes=False)

    def tasks(self, problem: registry.Entry, solutions: list[registry.Entry]) -> list[Task]:
        case = Case(name="default")
        found = [
            Task(key=one.name, problem=problem, solution=one, case=case, options=RunOptions()) for one in solutions
        ]
        self.dispatcher.add(found)
        return found

    def finish(self, tasks: list[Task]) -> dict[str, Task]:
        """Build, and return the tasks that the lanes get, by name."""
        for build in self.builds.start(tasks):
            build.result(60)
        return {task.solution.name: task for task in self.dispatcher.take("")}


def test_those_that_compile_in_their_calls_take_turns(tmp_path, born_of) -> None:
    problem, solutions = entries(tmp_path, one="time.sleep(0.4)", two="time.sleep(0.5)")
    context = RunContext(options=RunOptions(), device=selection.choose("cpu"), rung=0, scratch=tmp_path)
    cases, turn = {"default": Rehearsal(overrides={}), "small": Rehearsal(overrides={"side": 4})}, Turn()
    with ThreadPoolExecutor(2) as threads:
        built = [threads.submit(Builder(problem, context, turn=turn).build, one, cases) for one in solutions]
    assert [one.result() for one in built] == [None, None]
    spans = sorted((began, ended) for *_, began, ended in calls_in_builds(tmp_path))
    assert len(spans) == 4
    assert all(ended <= began for (_, ended), (began, _) in itertools.pairwise(spans))


class FakeBuilder:
    """Builds that wait for each other, that fail, or that wait for the end."""

    fails: Mapping[str, Failed] = {}
    together = threading.Barrier(1)
    error: Exception | None = None

    def __init__(self, *_: object, **__: object):
        self.stopped = threading.Event()

    def build(self, entry: registry.Entry, _cases: object) -> Failed | None:
        if FakeBuilder.error is not None:
            raise FakeBuilder.error
        FakeBuilder.together.wait(60)
        if entry.name == "forever":
            assert self.stopped.wait(60)
        return FakeBuilder.fails.get(entry.name)

    def stop(self) -> None:
        self.stopped.set()


@pytest.fixture
def faked(monkeypatch) -> None:
    monkeypatch.setattr(builds, "Builder", FakeBuilder)
    for name, usual in {"fails": {}, "together": threading.Barrier(1), "error": None}.items():
        monkeypatch.setattr(FakeBuilder, name, usual)


@pytest.mark.usefixtures("faked")
def test_builds_go_on_side_by_side_and_their_seconds_are_counted_once(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(FakeBuilder, "together", threading.Barrier(3))
    stage = Stage(tmp_path, jobs=3)
    found = stage.finish(stage.tasks(*entries(tmp_path, a="", b="", c="")))
    assert set(found) == {"a", "b", "c"}
    assert all(task.built_s is not None and task.refused is None for task in found.values())
    assert sorted((type(event).__name__, event.solution, event.stage) for event in stage.news) == [
        (kind, name, "build") for kind in ("StageFinished", "StageStarted") for name in "abc"
    ]


@pytest.mark.usefixtures("faked")
def test_a_failed_build_refuses_its_solution_unless_a_lane_knows_more(tmp_path, monkeypatch) -> None:
    failures = {
        "compiler": Failed(status=Status.BUILD_FAILED, reason="no semicolon"),
        "problem": Failed(status=Status.INIT_FAILED, reason="no arguments"),
        "device": Failed(status=Status.ILLEGAL_ACCESS, reason="out of bounds"),
    }
    monkeypatch.setattr(FakeBuilder, "fails", failures)
    stage = Stage(tmp_path)
    found = stage.finish(stage.tasks(*entries(tmp_path, compiler="", problem="", device="", fine="")))
    assert {name: task.refused for name, task in found.items() if task.refused} == {"compiler": failures["compiler"]}
    unbuilt = {name: task.unbuilt for name, task in found.items() if task.unbuilt}
    assert unbuilt == {name: failures[name] for name in ("problem", "device")}


@pytest.mark.parametrize(
    ("reasons", "tries"),
    [
        (["c++: fatal error: Killed signal terminated program cc1plus", None], 2),
        (["Killed", "Killed", None], 2),
        (["exited with code 125", None], 2),
        (["k.cpp:3: error: expected `;`", None], 1),
        ([None], 1),
    ],
)
def test_a_compiler_that_was_killed_is_started_once_more(tmp_path, monkeypatch, reasons, tries) -> None:
    problem, (one,) = entries(tmp_path, one="pass")
    tried = []

    def build(*_: object) -> Failed | None:
        tried.append(reasons[len(tried)])
        status = Status.HARNESS_ERROR if tried[-1] == "exited with code 125" else Status.BUILD_FAILED
        return None if tried[-1] is None else Failed(status=status, reason=tried[-1])

    monkeypatch.setattr(Builder, "_build", build)
    found = Builder(problem, Stage(tmp_path).builds._context).build(one, {})
    assert len(tried) == tries
    assert (None if found is None else found.reason) == tried[-1]


@pytest.mark.usefixtures("faked")
def test_a_cache_that_cannot_be_written_is_raised_where_events_are_read(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(FakeBuilder, "error", MachineError("read-only"))
    stage = Stage(tmp_path)
    for build in stage.builds.start(stage.tasks(*entries(tmp_path, a=""))):
        build.result(60)
    assert str(stage.news[-1]) == "read-only"


@pytest.mark.usefixtures("faked")
def test_builds_that_are_stopped_end_and_pass_nothing_on(tmp_path) -> None:
    stage = Stage(tmp_path, jobs=1)
    started = stage.builds.start(stage.tasks(*entries(tmp_path, forever="", later="")))
    wait_until(lambda: len(stage.news) == 1)
    stage.dispatcher.stop("interrupted")
    stage.builds.stop()
    assert all(build.done() for build in started)
    assert stage.dispatcher.take("") == []
    assert [(type(event).__name__, event.solution) for event in stage.news] == [("StageStarted", "forever")]


class StuckJudge:
    """The judge of a problem that answers late, and is started again where it dies."""

    def __init__(self, deaths: int):
        self.deaths, self.killed = deaths, threading.Semaphore(0)
        self.guard = SimpleNamespace(report=lambda _event: None)

    def turn_to(self, *_: object) -> None: ...

    def start(self, *_: object) -> None: ...

    def derive(self, *_: object) -> Derived:
        for _ in range(self.deaths):
            assert self.killed.acquire(timeout=20), "nobody ends it"
        return Derived()

    def interrupt(self) -> None:
        self.killed.release()

    def close(self) -> None: ...


@pytest.mark.parametrize("deaths", [1, 3], ids=["dies once", "is started again twice"])
def test_builds_that_wait_for_the_shapes_of_a_slow_problem_end_at_once(tmp_path, deaths) -> None:
    stage = Stage(tmp_path, shapes=DerivedShapes(StuckJudge(deaths)))
    problem, solutions = entries(tmp_path, one="pass", two="pass")
    problem.path.write_text(IMAGES.replace('CASES = {"small": {"side": 4}, "ragged": {"side": 5}}', ""))
    problem = registry.find_problem(problem.path, settings.load(None))
    started = stage.builds.start(stage.tasks(problem, solutions))
    time.sleep(0.2)
    stage.dispatcher.stop("interrupted")
    began = time.monotonic()
    stage.builds.stop()
    assert time.monotonic() - began < 10
    assert all(build.done() for build in started)
    assert not [event for event in stage.news if isinstance(event, BaseException)]


def test_a_build_that_is_stopped_leaves_nothing(tmp_path, born_of) -> None:
    problem, solutions = entries(tmp_path, one="time.sleep(60)")
    stage = Stage(tmp_path)
    (build,) = stage.builds.start(stage.tasks(problem, solutions))
    wait_until(lambda: bool(stage.news))
    time.sleep(0.5)
    began = time.monotonic()
    stage.dispatcher.stop("interrupted")
    stage.builds.stop()
    assert build.done()
    assert time.monotonic() - began < 30
    assert not cache.entry_for(solutions[0].path, "", "cpu", cache_dir()).is_built
    assert not list(tmp_path.glob("build-*"))
    assert not list((tmp_path / "cache" / "builds").iterdir())
