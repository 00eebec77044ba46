"""The Python interface over judges that follow their sources: no processes."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import fields

import pytest
import tiny_corpus
from pooling import CASES, Pool, solution

import kbench
from kbench import EvaluationResult, Failed, KbenchError, Passed
from kbench.api.options import Options, make_options
from kbench.core.errors import MachineError, UsageError
from kbench.core.events import RunOptions
from kbench.core.model import Status
from kbench.host import nursery_process
from kbench.storage.results import read_run
from kbench.storage.settings import Settings

REAL = tiny_corpus.problem(
    "x.tanh()", given="torch.rand(8, n)", constants='n = 64\nCASES = {"default": {}, "ragged": {"n": 33}}'
)
RIGHT = tiny_corpus.solution("return x.tanh()")


pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture
def pool() -> Pool:
    return Pool()


def test_stages_are_told(pool, tmp_path) -> None:
    stages: list[str] = []
    with pool.judge(on_stage=lambda event: stages.append(f"{type(event).__name__} {event.stage}")) as judge:
        judge.evaluate(CASES, solution(), cases="small")
    assert stages == ["StageStarted verify", "StageFinished verify"]


def test_texts_paths_and_names_are_taken(pool, tmp_path) -> None:
    problem = tmp_path / "mine.py"
    problem.write_text(CASES)
    candidate = tmp_path / "fast.py"
    candidate.write_text(solution())
    with pool.judge() as judge:
        by_text = judge.evaluate(CASES, solution("wrong_value"), cases="small")
        by_path = judge.evaluate(problem, candidate, cases="small")
        by_name = judge.evaluate("group_norm", "eager", cases="small")
    assert [(one.problem, one.solution, one.passed) for one in (*by_path, *by_name)] == [
        ("mine", "fast", True),
        ("group_norm", "eager", True),
    ]
    (wrong,) = by_text
    assert isinstance(wrong.outcome, Failed)
    assert wrong.status is Status.WRONG_VALUE
    assert wrong.rows[0].status == "wrong_value"


def test_one_case_or_several(pool) -> None:
    with pool.judge() as judge:
        assert [one.case for one in judge.evaluate(CASES, solution(), cases="small")] == ["small"]
        assert [one.case for one in judge.evaluate(CASES, solution(), cases=("small", "def*"))] == [
            "default",
            "small",
        ]


WRONG = [
    ({"case": "small"}, "no option `case`", "did you mean `cases`?"),
    ({"verify_olny": True}, "no option `verify_olny`", "did you mean `verify_only`?"),
    ({"processes": 0}, "`processes` is 0: input should be greater than or equal to 1", None),
    ({"processes": "many"}, "`processes` is 'many'", None),
    ({"precision": 3}, "`precision` is 3: input should be less than 1", None),
    ({"budget_s": -1.0}, "`budget_s` is -1.0: input should be greater than 0", None),
    ({"level": "best"}, "`level` is 'best'", None),
    ({"mode": "hot"}, "`mode` is 'hot': input should be 'cold'", None),
    ({"mode": "graph"}, "graph", "leave it out"),
    ({"accept": "nonsense"}, "nonsense", None),
]


@pytest.mark.parametrize(("options", "message", "hint"), WRONG)
def test_a_wrong_option_raises_before_anything_starts(pool, monkeypatch, options, message, hint) -> None:
    monkeypatch.setattr(nursery_process, "nursery", lambda *_: pytest.fail("something was started"))
    with pool.judge() as judge:
        for begin in (judge.evaluate, judge.submit):
            with pytest.raises(UsageError) as found:
                begin(CASES, solution(), **options)
            assert message in found.value.message
            assert hint is None or hint in (found.value.hint or "")
        with pytest.raises(UsageError):
            judge.evaluate_many([], **options)
    with pytest.raises(UsageError):
        kbench.evaluate_many([], **{"device": "cpu", **options})


@pytest.mark.parametrize("given", [5, None, object])
def test_what_is_no_source_is_refused(pool, given) -> None:
    with pool.judge() as judge, pytest.raises(UsageError, match="is a `") as found:
        judge.evaluate(given, solution())
    assert found.value.hint == "pass its source as text, the path of its file, or a name"


def test_options_of_the_pool_are_not_options_of_a_call(pool) -> None:
    with pool.judge() as judge:
        with pytest.raises(UsageError, match="fixed for a `Judge`"):
            judge.evaluate(CASES, solution(), trusted=False)
        with pytest.raises(UsageError, match="verifies only"):
            judge.evaluate(CASES, solution(), verify_only=False)


def test_the_settings_hold_as_for_the_command_line(pool, tmp_path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[tool.kbench]\nlevel = 'task'\n[tool.kbench.run]\ndevice = 'cpu'\nprocesses = 2\nmax_processes = 2\n"
    )
    with pool.judge(verify_only=False, lanes=1) as judge:
        (found,) = judge.evaluate(CASES, solution())
        assert len(found.rows) == 2
        assert found.rows[0].required_level == "task"
        (given,) = judge.evaluate(CASES, solution(), level="general", processes=1, max_processes=1)
        assert (len(given.rows), given.rows[0].required_level) == (1, "general")


def test_a_question_that_is_wrong_raises_and_a_solution_that_is_wrong_does_not(pool) -> None:
    with pool.judge() as judge:
        with pytest.raises(KbenchError, match="no problem named `nothing_here`"):
            judge.evaluate("nothing_here", solution())
        with pytest.raises(KbenchError, match="no solution named"):
            judge.evaluate("group_norm", "nothing_here")
        with pytest.raises(KbenchError):
            judge.evaluate("def broken(:\n", solution())
        with pytest.raises(KbenchError, match="has no case"):
            judge.evaluate(CASES, solution(), cases="large")
        (broken,) = judge.evaluate(CASES, "def broken(:\n")
        (empty,) = judge.evaluate(CASES, "x = 1\n")
    assert broken.status is empty.status is Status.IMPORT_FAILED
    assert pool.judged == [], "what cannot be read meets no judge"


EARLY = 4


def test_many_come_in_any_order_and_know_their_places(pool) -> None:
    wanted = ["waits", *["passed", "wrong_value", "crashed", "passed"] * 8]
    told = []

    def progress(done: int, one: EvaluationResult) -> None:
        told.append((done, one.number))
        if done == EARLY:
            pool.released.set()

    with pool.judge() as judge:
        candidates = ((CASES, solution(says, number)) for number, says in enumerate(wanted))
        found = list(judge.evaluate_many(candidates, progress=progress))
    assert sorted(one.number for one in found) == list(range(len(wanted)))
    assert 0 not in [one.number for one in found[:EARLY]], "a slow one holds up no more than the batch that it is in"
    assert told == [(done, one.number) for done, one in enumerate(found, start=1)]
    for one in found:
        said = wanted[one.number]
        assert one.status == (said if said in {*Status} else "passed")
        if isinstance(one.outcome, Failed):
            assert one.outcome.reason == f"because of # {said} {one.number}"


def test_equal_sources_at_a_time_are_judged_once(pool) -> None:
    def pairs() -> Iterator[tuple[str, str]]:
        yield from [(CASES, solution("waits"))] * 4
        pool.released.set()

    with pool.judge(lanes=1) as judge:
        found = list(judge.evaluate_many(pairs()))
    assert sorted(one.number for one in found) == [0, 1, 2, 3]
    assert len(pool.judged) == 1


def test_threads_share_a_pool_and_nobody_gets_anothers_verdict(pool) -> None:
    mixed_up = []

    def ask(judge, number: int) -> None:
        says = ("passed", "raised", "wrong_output")[number % 3]
        (found,) = judge.evaluate(CASES, solution(says, number))
        if found.status != says or str(number) not in getattr(found.outcome, "reason", str(number)):
            mixed_up.append(number)

    with pool.judge() as judge:
        threads = [threading.Thread(target=ask, args=(judge, number)) for number in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not mixed_up
    assert len(pool.judged) == 24


def test_the_async_form_leaves_the_loop_free(pool) -> None:
    async def both() -> tuple[list[EvaluationResult], int]:
        ticks = 0
        with pool.judge() as judge:
            slow = asyncio.gather(*(judge.evaluate_async(CASES, solution("waits", n)) for n in range(2)))
            while not slow.done():
                await asyncio.sleep(0.01)
                ticks += 1
                if ticks == 5:
                    pool.released.set()
            return [one for found in await slow for one in found], ticks

    found, ticks = asyncio.run(both())
    assert [one.passed for one in found] == [True, True]
    assert ticks >= 5


def test_a_defect_reaches_who_asked_and_the_next_call_has_a_new_pool(pool) -> None:
    with pool.judge(lanes=1) as judge:
        with pytest.raises(ZeroDivisionError):
            judge.evaluate(CASES, solution("raises"))
        (after,) = judge.evaluate(CASES, solution())
    assert after.passed


def test_closing_ends_what_is_in_flight(pool) -> None:
    judge = pool.judge(lanes=1)
    (future,) = judge.submit(CASES, solution("hangs"))
    judge.close()
    with pytest.raises(MachineError, match="judges have ended"):
        future.result(timeout=60)
    with pytest.raises(UsageError, match="is closed"):
        judge.evaluate(CASES, solution())


def test_no_source_stays_behind(pool, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pool.judge() as judge:
        list(judge.evaluate_many((CASES, solution(number=number)) for number in range(10)))
        left = [path.name for path in tmp_path.glob("kbench-*/sources/*")]
        assert len(left) == 1, "the problem, whose judge stays"
    assert not list(tmp_path.glob("kbench-*"))


def test_a_results_file_where_it_is_asked_for(pool, tmp_path) -> None:
    with pool.judge(verify_only=False, processes=2, max_processes=2) as judge:
        (found,) = judge.evaluate(CASES, solution(), save=True, results_dir=tmp_path / "r", name="mine")
        assert not (tmp_path / "results").exists()
        with pytest.raises(UsageError, match="save"):
            judge.evaluate_many([], save=True)
    run = read_run(tmp_path / "r" / "mine.csv")
    assert run.rows == found.rows
    assert {row.run_id for row in run.rows} == {"mine"}
    assert len(run.samples) == 2


def test_a_frame_has_the_columns_of_a_results_file(pool) -> None:
    with pool.judge(verify_only=False, processes=2, max_processes=2) as judge:
        (found,) = judge.evaluate(CASES, solution())
    frame = found.to_frame()
    assert list(frame.process) == [0, 1]
    assert list(frame.columns) == list(type(found.rows[0]).__annotations__)
    assert frame.speedup.iloc[0] == pytest.approx(611 / 524, abs=0.001)


@pytest.mark.slow
def test_a_real_pool_judges_texts_and_stays_warm(tmp_path) -> None:
    with kbench.Judge(device="cpu", verify_only=True) as judge:
        (right,) = judge.evaluate(REAL, RIGHT)
        (wrong,) = judge.evaluate(REAL, RIGHT.replace("tanh", "sin"))
        (again,) = judge.evaluate(REAL, RIGHT.replace("x.tanh()", "torch.tanh(x)"))
    assert isinstance(right.outcome, Passed)
    assert wrong.status is Status.WRONG_VALUE
    assert wrong.reward("correct") == 0.0
    assert again.reward("correct") == 1.0
    assert "open" in right.stage_s
    assert "open" not in again.stage_s, "the judge has the case open still"


def test_every_option_of_a_run_is_a_keyword() -> None:
    assert set(Options.__annotations__) == {field.name for field in fields(RunOptions)}


@pytest.mark.parametrize(
    ("name", "hint"), [("quick", "write `max_processes=1`"), ("eval", "write `eval_mode=True`"), ("level_", "level")]
)
def test_an_option_of_the_command_line_has_its_name_here_told(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match=f"no option `{name}`") as refused:
        make_options(Settings(), {name: True})
    assert hint in refused.value.hint
