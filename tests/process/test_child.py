"""The process boundary: how ends are explained, logs bounded, and children killed."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from waiting import PATIENCE_S, wait_until

from kbench.core.model import Status
from kbench.process import child as processes
from kbench.process.channel import DeadlineError
from kbench.process.child import LOG_TAIL_BYTES, SHOWN_LOG_LINES, Child, Launch
from kbench.process.child_error import ChildError, classify, explain_exit, reported
from kbench.sandbox import process_tree
from kbench.sandbox.rungs import Rung

ILLEGAL = "CUDA error: an illegal memory access was encountered"

EXITS = [
    (-signal.SIGSEGV, "", Status.CRASHED, "SIGSEGV"),
    (128 + signal.SIGSEGV, "", Status.CRASHED, "SIGSEGV"),
    (-signal.SIGABRT, ILLEGAL, Status.ILLEGAL_ACCESS, "illegal memory access"),
    (-signal.SIGABRT, "terminate: std::bad_alloc", Status.OUT_OF_MEMORY, "ran out of memory"),
    (-signal.SIGKILL, "out of memory", Status.CRASHED, "SIGKILL"),
    (0, "", Status.EXITED, "code 0"),
    (3, ILLEGAL, Status.EXITED, "code 3"),
    (255, "", Status.EXITED, "code 255"),
    (128, "", Status.EXITED, "code 128"),
    (-signal.SIGRTMIN - 1, "", Status.CRASHED, "signal 35"),
]


@pytest.mark.parametrize(("code", "log", "status", "reason"), EXITS)
def test_explain_exit(code, log, status, reason) -> None:
    found, text = explain_exit(code, log)
    assert found is status
    assert reason in text


@pytest.mark.parametrize(
    ("code", "starved", "status"),
    [
        (None, False, Status.PROTOCOL_ERROR),
        (None, True, Status.OUT_OF_MEMORY),
        (-signal.SIGKILL, True, Status.OUT_OF_MEMORY),
        (128 + signal.SIGKILL, True, Status.OUT_OF_MEMORY),
        (-signal.SIGSEGV, True, Status.CRASHED),
        (0, True, Status.EXITED),
    ],
)
def test_who_the_system_killed_for_lack_of_memory_is_told_so(code, starved, status) -> None:
    assert explain_exit(code, "", starved=starved)[0] is status


CLASSES = [
    ("forward", "RuntimeError", ILLEGAL, Status.ILLEGAL_ACCESS),
    ("forward", "RuntimeError", "CUDA error: misaligned address", Status.ILLEGAL_ACCESS),
    ("forward", "torch.OutOfMemoryError", "tried to allocate 3 GiB", Status.OUT_OF_MEMORY),
    ("init", "MemoryError", "", Status.OUT_OF_MEMORY),
    ("build", "RuntimeError", "Error building extension 'x'", Status.BUILD_FAILED),
    ("build", "RuntimeError", "CUDA error while building", Status.BUILD_FAILED),
    ("forward", "RuntimeError", "CUDA error: invalid configuration argument", Status.LAUNCH_FAILED),
    ("forward", "RuntimeError", "unspecified launch failure", Status.LAUNCH_FAILED),
    ("import", "ModuleNotFoundError", "No module named 'x'", Status.IMPORT_FAILED),
    ("init", "TypeError", "missing argument", Status.INIT_FAILED),
    ("output", "TypeError", "no description", Status.WRONG_OUTPUT),
    ("forward", "ValueError", "my own", Status.RAISED),
    ("", "KeyError", "unknown stage", Status.RAISED),
    ("passed", "ValueError", "forged stage", Status.RAISED),
]


@pytest.mark.parametrize(("stage", "kind", "message", "status"), CLASSES)
def test_classify(stage, kind, message, status) -> None:
    assert classify(stage, kind, message) is status


@pytest.mark.parametrize("error", ["text", None, 3, [], {}, {"stage": 7, "message": None}, {"message": "x" * 10**6}])
def test_whatever_a_child_reports_becomes_a_short_reason(error) -> None:
    found = reported({"error": error}, "log")
    assert found.status is Status.RAISED
    assert 0 < len(found.reason) <= 500


# --- children ------------------------------------------------------------------

PRELUDE = """
import json, os, socket, subprocess, sys, time
peer = socket.socket(fileno=int(sys.argv[1]))
stream = peer.makefile("rwb")
def hear():
    return json.loads(stream.readline())
def say(**message):
    stream.write(json.dumps(message).encode() + b"\\n")
    stream.flush()
"""
Start = Callable[..., Child]


@pytest.fixture
def start(tmp_path) -> Iterator[Start]:
    """Start a child that runs the given text."""
    children: list[Child] = []

    def begin(text: str, memory_limit_bytes: int | None = None) -> Child:
        (tmp_path / "told.py").write_text(PRELUDE + text)
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), "PYTHONUNBUFFERED": "1"}
        launch = Launch(
            module="told",
            environment=environment,
            folder=tmp_path,
            rung=Rung(0),
            memory_limit_bytes=memory_limit_bytes,
        )
        children.append(Child(launch))
        return children[-1]

    yield begin
    for child in children:
        child.kill()


def failure(child: Child, timeout_s: float = PATIENCE_S, **message) -> ChildError:
    with pytest.raises(ChildError) as caught:
        child.request({"op": "any", **message}, timeout_s=timeout_s)
    return caught.value


def test_an_answer(start) -> None:
    child = start("while True:\n    heard = hear(); say(n=heard['n'], twice=2 * heard['x'])\n")
    for x in (1, 21):
        assert child.request({"x": x}, timeout_s=PATIENCE_S)["twice"] == 2 * x


@pytest.mark.parametrize("longer", [PATIENCE_S, None])
def test_progress_extends_the_time_limit(start, monkeypatch, longer) -> None:
    child = start("n = hear()['n']\nsay(progress='compiling', n=n)\ntime.sleep(0.1)\nsay(n=n, done=True)\n")
    passed, heard = 0.0, []
    monkeypatch.setattr(processes, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + passed))

    def extend(message) -> float | None:
        nonlocal passed
        heard.append(message["progress"])
        passed = PATIENCE_S  # the limit is over: only what is returned covers the rest
        return longer

    if longer is not None:
        assert child.request({}, timeout_s=PATIENCE_S, extend=extend)["done"]
    else:
        with pytest.raises(ChildError, match=f"no answer within {PATIENCE_S:g} s"):
            child.request({}, timeout_s=PATIENCE_S, extend=extend)
    assert heard == ["compiling"]


@pytest.mark.parametrize(
    "text",
    ["say(n=99)", "say(n=True)", "say(done=True)", "stream.write(b'nonsense\\n'); stream.flush()", "say(n='1')"],
)
def test_answers_that_are_none(start, text) -> None:
    assert failure(start(f"hear()\n{text}\ntime.sleep(60)\n")).status is Status.PROTOCOL_ERROR


def test_a_reported_error_is_raised(start) -> None:
    text = "say(n=hear()['n'], error={'stage': 'import', 'type': 'ImportError', 'message': 'no x'})\ntime.sleep(60)\n"
    error = failure(start(text))
    assert (error.status, error.reason) == (Status.IMPORT_FAILED, "ImportError: no x")


def test_silence(start) -> None:
    error = failure(start("hear()\ntime.sleep(60)\n"), timeout_s=0.5)
    assert error.status is Status.CALL_TIMEOUT


@pytest.mark.parametrize(
    ("text", "status", "reason"),
    [
        ("sys.exit(7)", Status.EXITED, "code 7"),
        ("os._exit(255)", Status.EXITED, "code 255"),
        ("os.kill(os.getpid(), 11)", Status.CRASHED, "SIGSEGV"),
        (f"print('{ILLEGAL}'); os.abort()", Status.ILLEGAL_ACCESS, "SIGABRT"),
    ],
)
def test_deaths(start, text, status, reason) -> None:
    """One that has never answered has heard of no solution: its end is no solution's doing."""
    answering = start(f"say(n=hear()['n'])\nhear()\nprint('last words')\n{text}\n")
    answering.request({}, timeout_s=PATIENCE_S)
    for child, expected in ((answering, status), (start(f"print('last words')\n{text}\n"), Status.HARNESS_ERROR)):
        error = failure(child)
        assert error.status is expected
        assert reason in error.reason
        assert "last words" in error.log


def test_a_flood_leaves_the_tail(start) -> None:
    flood = "for _ in range(400):\n    print('x' * 100_000)\nfor n in range(100):\n    print('line', n)\n"
    text = f"hear()\n{flood}sys.exit(1)\n"
    log = failure(start(text)).log
    lines = log.splitlines()
    assert lines[-1] == "line 99"
    assert len(lines) <= SHOWN_LOG_LINES + 1
    assert len(log) <= LOG_TAIL_BYTES + 100
    assert lines[0].endswith("bytes before this]")
    assert 39_000_000 < int(lines[0][1:].split()[0]) < 41_000_000


def test_too_much_memory(start) -> None:
    text = "hear()\nheld = bytearray(300 << 20)\nfor i in range(0, len(held), 4096): held[i] = 1\ntime.sleep(60)\n"
    error = failure(start(text, memory_limit_bytes=150 << 20))
    assert error.status is Status.OUT_OF_MEMORY
    assert "0.1 GiB" in error.reason


def test_too_many_threads(start, monkeypatch) -> None:
    monkeypatch.setattr(processes, "MAX_TASKS", 50)
    text = "import threading\nhear()\nfor _ in range(60): threading.Thread(target=time.sleep, args=(60,)).start()\n"
    error = failure(start(text, memory_limit_bytes=8 << 30))
    assert error.status is Status.OUT_OF_MEMORY
    assert "more than 50 processes and threads" in error.reason


def test_a_kill_reaches_everything_that_was_started(start) -> None:
    """Also what left the session and ignores signals."""
    grandchild = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    command = f"[{sys.executable!r}, '-c', {grandchild!r}]"
    child = start(
        f"heard = hear()\np = subprocess.Popen({command}, start_new_session=True)\n"
        "say(n=heard['n'], pid=p.pid)\ntime.sleep(60)\n"
    )
    pid = child.request({}, timeout_s=PATIENCE_S)["pid"]
    assert is_running(pid)
    child.kill()
    assert not is_running(pid)
    assert not is_running(child.pid)
    child.kill()


def test_a_child_has_one_state_at_a_time(start) -> None:
    child = start("while True:\n    say(n=hear()['n'])\n")
    states = [child.state]
    with child.stopped():
        states.append(child.state)
        with pytest.raises(AssertionError, match="stopped does not become stopped"), child.stopped():
            pass
    states.append(child.state)
    child.request({}, timeout_s=PATIENCE_S)
    states.append(child.state)
    with child.stopped():
        child.kill()
    states.append(child.state)
    assert states == ["starting", "stopped", "starting", "ready", "gone"]


def test_a_stopped_child_answers_only_afterwards(start) -> None:
    child = start("while True:\n    say(n=hear()['n'])\n")
    child.request({}, timeout_s=PATIENCE_S)
    with child.stopped():
        wait_until(lambda: state_of(child.pid) == "T")  # a signal takes effect a moment after it was sent
        assert failure(child, timeout_s=0.3).status is Status.CALL_TIMEOUT
    assert child.channel.receive(PATIENCE_S) == {"n": 2}


@pytest.mark.parametrize("excused", [True, False])
def test_time_in_which_a_child_is_stopped_and_excused_counts_against_no_limit(start, monkeypatch, excused) -> None:
    child, now_s, limits_s = start("while True:\n    say(n=hear()['n'])\n"), 0.0, []

    def silent_twice(limit_s: float) -> dict[str, int]:
        nonlocal now_s
        limits_s.append(limit_s)
        now_s += limit_s
        if len(limits_s) < 3:
            raise DeadlineError
        return {"n": 1}

    monkeypatch.setattr(processes, "time", SimpleNamespace(monotonic=lambda: now_s))
    monkeypatch.setattr(child.channel, "receive", silent_twice)
    with child.stopped(excused=excused):
        if excused:
            assert child.request({}, timeout_s=5.0) == {"n": 1}
        else:
            assert failure(child, timeout_s=5.0).status is Status.CALL_TIMEOUT
    assert limits_s == [5.0] * (3 if excused else 1)


WAKES_ITSELF = """
import ctypes, os, signal
libc = ctypes.CDLL(None)
event = (ctypes.c_int * 16)(0, 0, signal.SIGCONT, 0)
timer = ctypes.c_void_p()
libc.timer_create(1, ctypes.byref(event), ctypes.byref(timer))
number = hear()['n']
while True:
    libc.timer_settime(timer, 0, (ctypes.c_long * 4)(0, 0, 0, 100_000_000), None)
    if number:
        say(n=number)
        number = 0
    sum(range(10_000))
"""


def test_a_child_that_a_timer_wakes_while_it_is_stopped_is_killed(start) -> None:
    child = start(WAKES_ITSELF)
    child.request({}, timeout_s=PATIENCE_S)
    with pytest.raises(ChildError, match="ran on while they were stopped") as caught, child.stopped():
        time.sleep(0.4)
    assert caught.value.status is Status.PROTOCOL_ERROR
    assert failure(child).reason == caught.value.reason


def test_who_is_killed_for_its_memory_while_it_is_being_stopped_is_told_of_its_memory(start, monkeypatch) -> None:
    """The watch had looked before the stop, and kills after it: to the stop, whose threads end one by one, they run."""
    monkeypatch.setattr(process_tree.StoppedTree, "has_run", lambda _: True)
    child = start("say(n=hear()['n'])\ntime.sleep(60)\n")
    child.request({}, timeout_s=PATIENCE_S)

    def kill_for_memory() -> None:
        child._kill_because(Status.OUT_OF_MEMORY, "the process used more than 1.0 GiB of host memory and was killed")
        wait_until(lambda: not is_running(child.pid))

    with pytest.raises(ChildError, match="GiB of host memory") as caught, child.stopped():
        kill_for_memory()
    assert caught.value.status is Status.OUT_OF_MEMORY
    assert failure(child).reason == caught.value.reason


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


def is_running(pid: int) -> bool:
    return state_of(pid) not in {"gone", "Z", "X"}
