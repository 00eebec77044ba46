"""Forks of a process that has imported torch: what they hold, how they end, and with whom."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbench.core.model import Status
from kbench.isolation import sandbox, tree
from kbench.isolation.process import NOBODY, Child, ChildError
from kbench.isolation.sandbox import Rung
from kbench.isolation.workers import StartedWorker, WorkerConfig, start_nursery, worker_environment

PATIENCE_S = 60.0


@pytest.fixture
def config(tmp_path: Path, rung: Rung) -> WorkerConfig:
    return WorkerConfig(
        device="cpu", rung=int(rung), scratch=str(tmp_path), results=str(tmp_path / "r"), cache=str(tmp_path / "c")
    )


@pytest.fixture
def nursery(config: WorkerConfig, monkeypatch: pytest.MonkeyPatch) -> Iterator[Child]:
    monkeypatch.setenv("SECRET_OF_THE_CALLER", "1")
    child = start_nursery(config)
    yield child
    child.kill()


@pytest.fixture
def worker(config: WorkerConfig, nursery: Child) -> Iterator[StartedWorker]:
    started = StartedWorker(config, nursery, 1, compiler="")
    yield started
    started.kill()


def reachable() -> list[Rung]:
    highest = sandbox.probe("cpu", Path.home() / ".cache" / "kbench")
    return [rung for rung in Rung if rung <= highest]


RUNGS = pytest.mark.parametrize("rung", reachable(), ids=lambda rung: rung.name.lower())
UNSUPERVISED = pytest.mark.parametrize("rung", [Rung.NONE], ids=["none"])
SUPERVISED = pytest.mark.parametrize("rung", [Rung.LIMITS], ids=["limits"])


def last_of(pid: int) -> int:
    """The worker itself, below its supervisors."""
    return max(process.pid for process in tree.members(pid))


@RUNGS
def test_a_fork_holds_its_own_descriptors_and_no_others(worker: StartedWorker) -> None:
    """The nursery's, or the supervisor's, would let it forge an end or reach another worker."""
    worker.wait(PATIENCE_S)
    folder = Path(f"/proc/{last_of(worker.child.pid)}/fd")
    held = sorted(str(entry.readlink()).partition(":")[0] for entry in folder.iterdir())
    landlocks = [name for name in held if name.endswith("/task")]
    assert held == sorted(["/dev/null", "pipe", "pipe", "socket", *landlocks])


@RUNGS
def test_a_fork_starts_with_one_thread_in_a_session_of_its_own(worker: StartedWorker) -> None:
    worker.wait(PATIENCE_S)
    pid = last_of(worker.child.pid)
    assert len(list(Path(f"/proc/{pid}/task").iterdir())) == 1
    assert os.getsid(pid) == worker.child.pid
    assert Path(f"/proc/{pid}/cwd").readlink() == worker.scratch


@UNSUPERVISED
def test_the_nursery_has_the_environment_of_a_worker(worker: StartedWorker) -> None:
    """What a process was started with stays readable in it, and a fork shows its parent's."""
    worker.wait(PATIENCE_S)
    block = Path(f"/proc/{worker.child.pid}/environ").read_bytes()
    names = {entry.partition(b"=")[0].decode() for entry in block.split(b"\0") if entry}
    assert names == set(worker_environment(worker.scratch))


@RUNGS
def test_an_end_is_told_as_it_was(worker: StartedWorker) -> None:
    worker.wait(PATIENCE_S)
    os.kill(last_of(worker.child.pid), signal.SIGSEGV)
    with pytest.raises(ChildError) as caught:
        worker.child.request({"op": "open", "mode": "cold"}, timeout_s=PATIENCE_S)
    assert caught.value.status is Status.CRASHED
    assert "SIGSEGV" in caught.value.reason


@SUPERVISED
def test_a_fork_that_is_hung_up_on_ends_by_itself(worker: StartedWorker) -> None:
    worker.wait(PATIENCE_S)
    assert worker.child.finish(PATIENCE_S)
    assert worker.child._process.poll() == 0


@RUNGS
def test_forks_end_with_their_nursery(worker: StartedWorker, nursery: Child) -> None:
    worker.wait(PATIENCE_S)
    family = [process.pid for process in tree.members(worker.child.pid)]
    if len(family) == 1:
        pytest.skip("nobody supervises it: the judge's own tree is what takes it along")
    os.kill(nursery.pid, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_S
    while any(pid in family and not process.dead for pid, process in tree.processes().items()):
        assert time.monotonic() < deadline, "still there"
        time.sleep(0.05)
    assert worker.child._process.wait(PATIENCE_S) == -signal.SIGKILL


@UNSUPERVISED
def test_a_nursery_that_is_hung_up_on_ends_by_itself(nursery: Child) -> None:
    assert nursery.finish(PATIENCE_S)


@UNSUPERVISED
def test_without_a_nursery_a_worker_ends_before_it_begins(config: WorkerConfig, nursery: Child) -> None:
    os.kill(nursery.pid, signal.SIGKILL)
    nursery._process.wait(PATIENCE_S)
    worker = StartedWorker(config, nursery, 1, compiler="")
    assert worker.child.pid == NOBODY
    with pytest.raises(ChildError, match="killed"):
        worker.wait(PATIENCE_S)
    worker.kill()


@UNSUPERVISED
def test_many_forks_are_told_apart(config: WorkerConfig, nursery: Child) -> None:
    workers = [StartedWorker(config, nursery, number, compiler="") for number in range(4)]
    for worker in workers:
        worker.wait(PATIENCE_S)
    pids = [worker.child.pid for worker in workers]
    assert len({*pids, nursery.pid}) == 5
    workers[1].kill()
    assert [worker.child._process.poll() for worker in workers] == [None, -signal.SIGKILL, None, None]
    for worker in workers:
        worker.kill()
