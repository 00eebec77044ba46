"""Forks of a process that has imported torch: what they hold, how they end, and with whom."""

import contextlib
import itertools
import json
import os
import secrets
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiny_corpus
from require import require_rung, rung_works
from verdicts import verdicts, written
from waiting import PATIENCE_S, wait_until

from kbench.core.events import RunOptions
from kbench.core.levels import Level
from kbench.core.model import Failed, Status
from kbench.process import child as processes
from kbench.process import nursery as nurseries
from kbench.process.channel import Channel
from kbench.process.child import JUDGE, Child, Launch
from kbench.process.child_error import ChildError
from kbench.process.forked import BIRTH_TIMEOUT_S, NOBODY
from kbench.process.worker_start import WorkerConfig, WorkerProcess, hidden, worker_environment
from kbench.sandbox import process_table, process_tree
from kbench.sandbox.rungs import Rung

pytestmark = pytest.mark.slow(seconds=25)  # all together


@pytest.fixture
def config(tmp_path: Path, rung: Rung) -> WorkerConfig:
    require_rung(rung)
    return config_of(tmp_path, rung)


def config_of(folder: Path, rung: Rung) -> WorkerConfig:
    options = RunOptions(results_dir=folder / "r")
    return WorkerConfig(device="cpu", rung=int(rung), scratch=str(folder), options=options, cache=str(folder / "c"))


@contextlib.contextmanager
def started(folder: Path) -> Iterator[Child]:
    module = nurseries.__name__
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SECRET_OF_THE_CALLER", "1")
        launch = Launch(module=module, environment=worker_environment(folder), folder=folder, rung=Rung.NONE)
        child = Child(launch)
    yield child
    child.kill()


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    """One for all tests that leave it alive."""
    with started(tmp_path_factory.mktemp("nursery")) as child:
        yield child


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Child]:
    """One to be killed."""
    with started(tmp_path) as child:
        yield child


@pytest.fixture(scope="module")
def orphans(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[Rung, bool], list[int]]]:
    """Workers, with what supervises them, of a nursery that was killed: by rung, and whether they were stopped then."""
    folder = tmp_path_factory.mktemp("orphans")
    kinds = list(itertools.product((rung for rung in Rung if rung_works(rung, "cpu") is None), (False, True)))
    with started(folder) as mortal:
        workers = {
            kind: WorkerProcess(config_of(folder, kind[0]), mortal, number, compiler="")
            for number, kind in enumerate(kinds)
        }
        for worker in workers.values():
            worker.wait(PATIENCE_S)
        families = {kind: family_of(worker) for kind, worker in workers.items()}
        assert all(process_tree.stop_tree(workers[rung, stopped].pid) for rung, stopped in kinds if stopped)
        os.kill(mortal.pid, signal.SIGKILL)
        yield families
        for worker in workers.values():
            worker.kill()


@pytest.fixture
def worker(config: WorkerConfig, nursery: Child) -> Iterator[WorkerProcess]:
    started = WorkerProcess(config, nursery, 1, compiler="")
    yield started
    started.kill()


RUNGS = pytest.mark.parametrize("rung", Rung, ids=lambda rung: rung.name.lower())
SUPERVISED = pytest.mark.parametrize("rung", [rung for rung in Rung if rung], ids=lambda rung: rung.name.lower())
UNSUPERVISED = pytest.mark.parametrize("rung", [Rung.NONE], ids=["none"])


def held_by(pid: int) -> list[str]:
    """What a process's descriptors lead to, by kind."""
    return sorted(str(entry.readlink()).partition(":")[0] for entry in Path(f"/proc/{pid}/fd").iterdir())


def family_of(child: Child) -> list[int]:
    return [process.pid for process in process_table.members(child.pid)]


def alive(family: list[int]) -> bool:
    """Not by the process table: nobody here is a subreaper, so orphans are strangers."""
    return any((one := process_table.read_process(pid)) is not None and not one.dead for pid in family)


def last_of(child: Child) -> int:
    """The worker itself, below its supervisors."""
    return max(family_of(child))


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@RUNGS
def test_a_fork_has_its_own_descriptors_one_thread_and_a_session(worker: WorkerProcess) -> None:
    """Descriptors of the nursery or the supervisor would let it forge an end or reach another worker."""
    worker.wait(PATIENCE_S)
    pid = last_of(worker)
    assert len(list(Path(f"/proc/{pid}/task").iterdir())) == 1
    assert os.getsid(pid) == worker.pid
    assert Path(f"/proc/{pid}/cwd").readlink() == worker.scratch
    *above, own = [held_by(pid) for pid in family_of(worker)]
    landlocks = [name for name in own if name.endswith("/task")]
    assert own == sorted(["/dev/null", "pipe", "pipe", "socket", *landlocks])
    assert not any("socket" in held for held in above), "an open copy of the link would hide the worker's end"


@UNSUPERVISED
def test_the_nursery_has_the_environment_of_a_worker(worker: WorkerProcess) -> None:
    """What a process was started with stays readable in it, and a fork shows its parent's."""
    worker.wait(PATIENCE_S)
    block = Path(f"/proc/{worker.pid}/environ").read_bytes()
    names = {entry.partition(b"=")[0].decode() for entry in block.split(b"\0") if entry}
    assert names == set(worker_environment(worker.scratch))


@RUNGS
def test_an_end_is_told_as_it_was(worker: WorkerProcess) -> None:
    worker.wait(PATIENCE_S)
    os.kill(last_of(worker), signal.SIGSEGV)
    with pytest.raises(ChildError) as caught:
        worker.request({"op": "open", "mode": "cold"}, timeout_s=PATIENCE_S)
    assert caught.value.status is Status.CRASHED
    assert "SIGSEGV" in caught.value.reason


@UNSUPERVISED
def test_a_worker_settles_once_it_has_opened_the_device_if_it_was_asked_to(worker: WorkerProcess) -> None:
    os.kill(worker.pid, signal.SIGSTOP)
    worker.settle()
    worker.open("cold", queues_calls=False)
    assert worker.gate is None
    os.kill(worker.pid, signal.SIGCONT)
    worker.settle()
    assert worker.is_ready
    assert worker._sequence == 2, "set up, and opened once"
    worker.open("cold", queues_calls=False)
    worker.wait(PATIENCE_S)
    assert worker._sequence == 2


@SUPERVISED
def test_a_fork_that_is_hung_up_on_ends_by_itself(worker: WorkerProcess) -> None:
    worker.wait(PATIENCE_S)
    assert worker.finish(PATIENCE_S)
    assert worker._process.poll() == 0


@SUPERVISED
def test_forks_end_with_their_nursery(rung: Rung, orphans: dict[tuple[Rung, bool], list[int]]) -> None:
    require_rung(rung)
    assert len(orphans[rung, False]) > 1
    wait_until(lambda: not alive(orphans[rung, False]))


@RUNGS
def test_forks_that_are_stopped_end_with_their_nursery_too(rung, orphans):
    """A worker is stopped while the reference is called, and its judge may be killed then."""
    require_rung(rung)
    wait_until(lambda: not alive(orphans[rung, True]))


def test_a_judge_that_is_stopped_ends_with_its_nursery_too(mortal: Child, tmp_path: Path) -> None:
    """Whoever kills a judge stops it first, and may itself be killed then."""
    judge = Child(Launch(module=JUDGE, environment={}, folder=tmp_path, rung=Rung.NONE), mortal)
    # Its own nursery waits for orders once it has said with whom it ends.
    wait_until(lambda: len(family_of(judge)) > 1 and state_of(last_of(judge)) == "S")
    family = family_of(judge)
    assert process_tree.stop_tree(judge.pid)
    os.kill(mortal.pid, signal.SIGKILL)
    wait_until(lambda: not alive(family))


def test_a_nursery_that_is_hung_up_on_ends_by_itself(mortal: Child) -> None:
    assert mortal.finish(PATIENCE_S)


@RUNGS
@pytest.mark.parametrize("compiler", ["", "programs"])  # the other kinds are alike
def test_a_worker_that_can_start_no_process_is_stopped_without_looking_for_more(
    nursery: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rung: Rung, compiler: str
) -> None:
    if reason := rung_works(rung, "cpu"):
        pytest.skip(reason)
    worker = WorkerProcess(config_of(tmp_path, rung), nursery, 1, compiler=compiler)
    try:
        worker.wait(PATIENCE_S)
        listed: list[int] = []
        original = process_table._listed
        monkeypatch.setattr(process_table, "_listed", lambda: listed.append(1) or original())
        with worker.stopped():
            pass
        assert bool(listed) is (rung is Rung.NONE or bool(compiler))
    finally:
        worker.kill()


@UNSUPERVISED
def test_without_a_nursery_a_worker_ends_before_it_begins(config: WorkerConfig, mortal: Child) -> None:
    os.kill(mortal.pid, signal.SIGKILL)
    mortal._process.wait(PATIENCE_S)
    worker = WorkerProcess(config, mortal, 1, compiler="")
    assert worker.pid == NOBODY
    with pytest.raises(ChildError, match="could not fork") as caught:
        worker.wait(PATIENCE_S)
    assert caught.value.status is Status.HARNESS_ERROR, "not the solution's fault"
    worker.kill()


@UNSUPERVISED
def test_what_is_not_born_yet_is_killed_at_once(config: WorkerConfig, nursery: Child) -> None:
    os.kill(nursery.pid, signal.SIGSTOP)
    worker = WorkerProcess(config, nursery, 1, compiler="")
    started = time.monotonic()
    worker.kill()
    assert time.monotonic() - started < BIRTH_TIMEOUT_S / 2
    os.kill(nursery.pid, signal.SIGCONT)
    following = WorkerProcess(config, nursery, 2, compiler="")
    following.wait(PATIENCE_S)
    following.kill()


def test_a_machine_without_room_for_a_process_fails_one_birth(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is imported ahead is imported once, after so many orders."""
    ours, theirs = socket.socketpair()
    ahead: list[int] = []
    answered: list[int] = []
    monkeypatch.setattr(os, "fork", lambda: (_ for _ in ()).throw(BlockingIOError(11, "no room")))
    serving = ThreadPoolExecutor().submit(
        nurseries.serve, Channel(theirs), lambda: ahead.append(len(answered)), after=2
    )
    for number in range(4):
        listener, told = os.pipe()
        answered.append(number)
        with Path(os.devnull).open() as null:
            Channel(ours).send({}, [null.fileno(), null.fileno(), told])
        os.close(told)
        assert os.read(listener, 10) == b"", "no pid, and nothing more will come"
        os.close(listener)
    assert not serving.done()
    ours.close()
    assert serving.result(PATIENCE_S)() is None
    assert len(ahead) == 1
    assert ahead[0] >= 2


@pytest.mark.parametrize(
    ("code", "expected", "said"), [(None, 0, ""), (3, 3, ""), (-1, 255, ""), (1 << 40, 0, ""), ("BYE", 1, "BYE\n")]
)
def test_a_fork_ends_with_the_code_of_an_interpreter(capsys: pytest.CaptureFixture[str], code, expected, said) -> None:
    assert nurseries.exit_code(SystemExit(code)) == expected
    assert capsys.readouterr().err == said


def test_pages_of_the_nursery_are_not_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = {1: 150, 2: 150, 3: 900, 4: 20}
    monkeypatch.setattr(processes, "members", lambda _pid: [SimpleNamespace(pid=pid) for pid in weights])
    monkeypatch.setattr(processes, "_rss_bytes", weights.get)
    assert processes.tree_rss_bytes(1) == 1220
    assert processes.tree_rss_bytes(1, 140) == 1220 - 3 * 140, "a worker and two above it, however many it starts"


SAYS_WHERE_IT_LIVES = """
import atexit, json, os, re, sys, tempfile
import torch
SECRET = re.compile(rb"secret-[0-9a-f]{32}")
def holds_a_secret():
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            span, rights, _, device, _, *name = line.split(maxsplit=5)
            if rights.startswith("rw") and device == "00:00" and not "".join(name).startswith("[v"):
                begin, end = (int(place, 16) for place in span.split("-"))
                memory.seek(begin)
                if SECRET.search(memory.read(end - begin)):
                    return True
    return False
atexit.register(print, "at its end")
print(json.dumps({**os.environ, "cwd": os.getcwd(), "tmp": tempfile.gettempdir(), "secret": holds_a_secret()}))
sys.exit("BYE")
class ModelNew: pass
"""


def test_a_fork_lives_in_its_own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_CALLER", f"secret-{secrets.token_hex(16)}")
    found = written(tmp_path, tiny_corpus.problem(), {"mine": SAYS_WHERE_IT_LIVES})
    judged = verdicts(*found, level=Level.TASK, results_dir=tmp_path / "r")["mine"]
    assert isinstance(judged.outcome, Failed)
    assert judged.outcome.status is Status.IMPORT_FAILED, "an exit while it is imported has a line"
    assert "BYE" in judged.outcome.reason
    first = judged.outcome.log.splitlines()[0]
    told = json.loads(first)
    own = Path(told["TMPDIR"])
    assert own.name.startswith("worker-")
    assert {told["cwd"], told["tmp"]} == {str(own)}
    assert Path(told["HOME"]) == own / "cache" / "home"
    assert "SECRET_OF_THE_CALLER" not in told
    assert not told["secret"], "nor in what it inherited of the memory of others"


def test_folders_that_are_kept_from_workers(tmp_path: Path) -> None:
    folders = {name: str(tmp_path / name) for name in ("cache", "leases", "scratch")}
    found = hidden(WorkerConfig(device="cpu", rung=0, **folders))
    assert {Path(folder) for folder in folders.values()} <= set(found)


LOOKS = """
import os
import sys
import torch
os.environ["CUDA_HOME"] = "/some/where"
sys.path.insert(0, {folder!r})
from kbench.process import nursery
looked = []
torch.cuda.is_available = lambda: looked.append(1)
torch.cuda._is_compiled, torch.version.cuda = lambda: True, "13.0"
nursery.import_ahead(["torch.utils.cpp_extension"])
assert torch.utils.cpp_extension.CUDA_HOME == "/some/where" and not looked
nursery.import_ahead(["asks"])
assert sys.modules["asks"].ANSWER is any(nursery.Path("/dev").glob("nvidia[0-9]*")) and not looked
nursery.import_ahead(["not_there"])
torch.cuda.is_available()
assert looked, "only while it is imported"
"""


def test_no_module_imported_ahead_looks_for_a_device(tmp_path: Path, after_torch_process) -> None:
    """A fork of a process that has looked could open none."""
    (tmp_path / "asks.py").write_text("import torch\n\nANSWER = torch.cuda.is_available()\n")
    after_torch_process.run(LOOKS.format(folder=str(tmp_path)))
