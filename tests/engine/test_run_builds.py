"""The build stage: what is rehearsed, builds side by side, and builds that are broken off."""

import itertools
import json
import threading
import time
from pathlib import Path

import pytest
import tiny_corpus

from kbench.build import cache
from kbench.build.cache import CacheEntry
from kbench.core.errors import MachineError
from kbench.core.events import Judged, RunOptions
from kbench.core.model import Case, Failed, Passed, Status
from kbench.devices import selection
from kbench.engine.run import run
from kbench.engine.run_builds import Built, Job, at_once, build_all
from kbench.host.builder import Builder
from kbench.host.context import RunContext
from kbench.host.nursery_process import nursery
from kbench.plugins import case_selection, registry
from kbench.plugins.case_selection import Rehearsal
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


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("if not x.is_contiguous(): raise TypeError('contiguous inputs only')", None),
        ("if not x.is_contiguous(): os.kill(os.getpid(), 11)", Status.CRASHED),
    ],
)
def test_a_solution_that_ends_at_a_layout_is_the_judges_matter(tmp_path, body, status) -> None:
    problem, solutions = entries(tmp_path, one=body)
    (judged,) = [e for e in run(problem, solutions, RunOptions(verify_only=True, save=False)) if isinstance(e, Judged)]
    if status is None:
        assert isinstance(judged.outcome, Passed), judged.outcome
        assert judged.outcome.lacks == ("channels_last_refused", "strided_refused")
    else:
        assert isinstance(judged.outcome, Passed), judged.outcome
        assert judged.outcome.lacks == ("channels_last", "strided")
        (found,) = [finding for finding in judged.outcome.findings if finding.code == "strided"]
        assert found.status is status
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


def test_those_that_compile_in_their_calls_take_turns(tmp_path, monkeypatch, born_of) -> None:
    monkeypatch.setattr("kbench.engine.run_builds.at_once", lambda _: 2)
    problem, solutions = entries(tmp_path, one="time.sleep(0.4)", two="time.sleep(0.5)")
    cases = {"default": Rehearsal(overrides={}), "small": Rehearsal(overrides={"side": 4})}
    device = selection.choose("cpu")
    builder = Builder(problem, RunContext(options=RunOptions(), device=device, rung=0, scratch=tmp_path))
    folder = tmp_path / "cache"
    jobs = [
        Job(entry=entry, cached=cache.entry_for(entry.path, "", "cpu", folder), rehearsals=cases) for entry in solutions
    ]
    built = [news for news in build_all(jobs, builder) if isinstance(news, Built)]
    assert [news.failure for news in built] == [None, None]
    spans = sorted((began, ended) for *_, began, ended in calls_in_builds(tmp_path))
    assert len(spans) == 4
    assert all(ended <= began for (_, ended), (began, _) in itertools.pairwise(spans))


@pytest.mark.parametrize(("processors", "expected"), [(1, 1), (2, 1), (3, 1), (4, 2), (16, 8)])
def test_as_many_at_a_time_as_there_are_processors_for(processors, expected) -> None:
    assert at_once(processors) == expected


class FakeBuilder:
    """Builds that wait for each other, or for the end."""

    def __init__(self, *, together: int = 1, error: Exception | None = None, forever: bool = False):
        self.barrier = threading.Barrier(together)
        self.error = error
        self.forever = forever
        self.stopped = threading.Event()

    def build(self, _entry: object, _cases: object) -> Failed | None:
        if self.error is not None:
            raise self.error
        self.barrier.wait(10)
        if self.forever:
            assert self.stopped.wait(10)
        return None

    def stop(self) -> None:
        self.stopped.set()


def jobs(tmp_path: Path, count: int) -> list[Job]:
    problem, _ = entries(tmp_path)
    return [Job(entry=problem, cached=CacheEntry(folder=tmp_path / str(n)), rehearsals={}) for n in range(count)]


def test_builds_go_on_side_by_side(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("kbench.engine.run_builds.at_once", lambda _: 3)
    news = list(build_all(jobs(tmp_path, 3), FakeBuilder(together=3)))
    assert [isinstance(item, Built) for item in news] == [False] * 3 + [True] * 3


def test_one_at_a_time_begins_when_the_last_one_has_ended(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("kbench.engine.run_builds.at_once", lambda _: 1)
    news = list(build_all(jobs(tmp_path, 2), FakeBuilder()))
    assert sorted(isinstance(item, Built) for item in news) == [False, False, True, True]
    assert isinstance(news[0], Job)
    assert isinstance(news[-1], Built)


def test_a_cache_that_cannot_be_written_ends_the_stage(tmp_path) -> None:
    with pytest.raises(MachineError, match="read-only"):
        list(build_all(jobs(tmp_path, 2), FakeBuilder(error=MachineError("read-only"))))


def test_whoever_stops_listening_stops_the_builds(tmp_path) -> None:
    builder = FakeBuilder(forever=True)
    news = build_all(jobs(tmp_path, 1), builder)
    assert isinstance(next(news), Job)
    news.close()
    assert builder.stopped.is_set()


def test_a_build_that_is_stopped_leaves_nothing(tmp_path, born_of) -> None:
    problem, (entry,) = entries(tmp_path, one="time.sleep(60)")
    builder = Builder(
        problem, RunContext(options=RunOptions(), device=selection.choose("cpu"), rung=0, scratch=tmp_path)
    )
    cached = cache.entry_for(entry.path, "", "cpu", tmp_path / "cache")
    news = build_all([Job(entry=entry, cached=cached, rehearsals={"a": Rehearsal(overrides={})})], builder)
    next(news)
    time.sleep(0.5)
    began = time.monotonic()
    news.close()
    assert time.monotonic() - began < 30
    assert not cached.is_built
    assert not list(tmp_path.glob("build-*"))
    assert not list((tmp_path / "cache" / "builds").iterdir())
