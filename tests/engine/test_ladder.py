"""The rules of a sweep, by tables of examples."""

from dataclasses import replace

import pytest
from sweeping import OPTIONS, failed, passed, task

from kbench.core.model import Failed, Status
from kbench.engine import ladder
from kbench.engine.ladder import BATCH, MOST_ATTEMPTS
from kbench.engine.task import TaskVerdict
from kbench.process.child_error import STARVED

S = Status
TIMED = replace(OPTIONS, verify_only=False, processes=3, max_processes=3)
REFUSED = Failed(status=S.IMPORT_FAILED, reason="no ModelNew")

DONE = [
    ("nothing yet", {}, [], OPTIONS, False),
    ("passed, and one process is enough", {}, [passed()], OPTIONS, True),
    ("failed", {}, [failed(S.WRONG_VALUE)], OPTIONS, True),
    ("one of three processes", {}, [passed(0)], TIMED, False),
    ("three of three processes", {}, [passed(0), passed(1), passed(2)], TIMED, True),
    ("failed in its second process", {}, [passed(0), failed(S.CRASHED)], TIMED, True),
    ("refused, and not on the disk yet", {"refused": REFUSED}, [], OPTIONS, False),
    ("refused", {"refused": REFUSED}, [failed(S.IMPORT_FAILED)], OPTIONS, True),
]


@pytest.mark.parametrize(
    ("changes", "results", "options", "done"), [case[1:] for case in DONE], ids=[c[0] for c in DONE]
)
def test_when_a_task_is_done(changes, results, options, done) -> None:
    told = TaskVerdict(task=task(1, options=options, **changes), results=tuple(results))
    assert told.is_done is done


KNOWN = {
    "k1": (passed(timed=False),),
    "k2": (failed(S.WRONG_VALUE),),
    "k3": (failed(S.HARNESS_ERROR),),
}
LEFT = [
    ("as it is", {}, ["k3", "k4"], {"k1": 1, "k2": 1, "k3": 0, "k4": 0}),
    ("what is wrong, again", {"again": {S.WRONG_VALUE}}, ["k2", "k3", "k4"], {"k1": 1, "k2": 0, "k3": 0, "k4": 0}),
    ("what passed, again", {"again": {S.PASSED}}, ["k1", "k3", "k4"], {"k1": 0, "k2": 1, "k3": 0, "k4": 0}),
]


@pytest.mark.parametrize(("told", "left", "kept"), [case[1:] for case in LEFT], ids=[c[0] for c in LEFT])
def test_what_is_left_of_a_sweep(told, left, kept) -> None:
    tasks = [task(number) for number in (1, 2, 3, 4)]
    found, known = ladder.unfinished(tasks, KNOWN, **told)
    assert [one.key for one in found] == left
    assert {key: len(results) for key, results in known.items()} == kept


def test_a_task_of_several_processes_goes_on_where_it_was() -> None:
    found, known = ladder.unfinished([task(1, options=TIMED)], {"k1": (passed(0),)})
    assert [one.key for one in found] == ["k1"]
    assert len(known["k1"]) == 1


RETRY = [
    (S.PASSED, 1, True, False),
    (S.WRONG_VALUE, 1, False, False),
    (S.WRONG_VALUE, 1, True, False),
    (S.ILLEGAL_ACCESS, 1, False, False),
    (S.ILLEGAL_ACCESS, 1, True, True),
    (S.NOT_VERIFIED, 1, False, False),
    (S.NOT_VERIFIED, 1, True, True),
    (S.HARNESS_ERROR, 1, False, True),
    (S.HARNESS_ERROR, MOST_ATTEMPTS - 1, True, True),
    (S.HARNESS_ERROR, MOST_ATTEMPTS, True, False),
]


@pytest.mark.parametrize(("status", "attempts", "sick", "again"), RETRY)
def test_what_is_tried_again(status, attempts, sick, again) -> None:
    result = passed() if status is S.PASSED else failed(status)
    assert ladder.may_retry(result, attempts, device_sick=sick) is again


A = [task(number, problem="a") for number in range(20)]
B = [task(number + 20, problem="b") for number in range(3)]
BATCHES = [
    ("nothing", [], "", 1, []),
    ("the problem that waits longest", A[:2] + B, "", 1, A[:2]),
    ("more of the problem that is open", A[:2] + B, "/nowhere/b.py", 1, B),
    ("another problem where there is no more", A[:2], "/nowhere/b.py", 1, A[:2]),
    ("no more than a batch", A, "", 1, A[:BATCH]),
    ("spread over the lanes", A[:6], "", 3, A[:2]),
    ("one at least", A[:2], "", 8, A[:1]),
]


@pytest.mark.parametrize(("ready", "problem", "lanes", "batch"), [c[1:] for c in BATCHES], ids=[c[0] for c in BATCHES])
def test_what_a_lane_takes_next(ready, problem, lanes, batch) -> None:
    assert ladder.next_batch(ready, problem, lanes) == batch


KILLED_ONCE = [
    (failed(S.CRASHED, "the process was killed (SIGKILL), perhaps by the system for lack of memory"), True),
    (failed(S.PROTOCOL_ERROR, "the process answered nonsense: its process is none of its tree"), True),
    (failed(S.OUT_OF_MEMORY, STARVED), True),
    (failed(S.OUT_OF_MEMORY, "more than 6.0 GiB"), False),
    (failed(S.CRASHED, "the process died of SIGSEGV"), False),
    (failed(S.EXITED, "the process exited with code 137 before it answered"), False),
]


@pytest.mark.parametrize(("result", "again"), KILLED_ONCE)
def test_what_the_machine_may_have_killed_is_tried_once_more_and_is_then_the_solutions(result, again) -> None:
    assert ladder.may_retry(result, 1, device_sick=False) is again
    assert not ladder.may_retry(result, 2, device_sick=False)
