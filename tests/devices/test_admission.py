"""Who may use a device when: real processes that queue, hold, die and leave things behind."""

import contextlib
import errno
import itertools
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kbench.core.errors import InternalError, MachineError
from kbench.devices import admission, claims, shared_folder
from kbench.devices.admission import Admission, DeviceBusyError, Wait

ROOT = Path(__file__).parents[2]
NOT_AT_ALL = Wait(timeout_s=0.0)
LONG_S = 300.0
"""What a test would wait for on a machine with other things to do; never reached where all is well."""

ACTOR = """
import contextlib, sys, time
from pathlib import Path
from kbench.devices import admission
from kbench.devices.admission import Admission, Wait
admission.RECOUNT_S = 0.05
device = Admission(uuid="GPU-1", folder=Path(sys.argv[1]), signature=sys.argv[2])
wait = Wait(on_wait=lambda holder: print(f"waits for {holder}", flush=True))
stack = contextlib.ExitStack()
for line in sys.stdin:
    verb, *numbers = line.split()
    if verb == "release":
        stack.close()
    else:
        held = stack.enter_context(getattr(device, verb)(*map(int, numbers), wait))
    print(verb, flush=True)
"""

CYCLES = """
import sys, time
from pathlib import Path
from kbench.devices.admission import Admission
device, seed = Admission(uuid="GPU-1", folder=Path(sys.argv[1])), int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for turn in range(12):
    need = (seed * 37 + turn * 53) % 60 + 1
    with device.reserve(need, 100):
        print("event", time.monotonic_ns(), need, flush=True)
        time.sleep(0.002)
        with device.exclusive() if turn % 3 == 0 else device.shared():
            how = 1000 if turn % 3 == 0 else 1
            print("use", time.monotonic_ns(), how, flush=True)
            time.sleep(0.001)
            print("use", time.monotonic_ns(), -how, flush=True)
        print("event", time.monotonic_ns(), -need, flush=True)
"""


class Actor:
    """A process that does as it is told, one line at a time."""

    def __init__(self, folder, name="actor"):
        command = [sys.executable, "-c", ACTOR, str(folder), name]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def ask(self, command):
        """Ask for something, and do not wait for it."""
        self.process.stdin.write(f"{command}\n")
        return self

    def hears(self):
        """Return the next line that the process says."""
        return self.process.stdout.readline().strip()

    def has(self, command):
        """Ask for something, and see that it is had at once."""
        verb = command.split()[0]
        assert self.ask(command).hears() == verb
        return self

    def queues(self, command):
        """Ask for something, and see that it is waited for."""
        assert self.ask(command).hears().startswith("waits for ")
        return self

    def has_at_last(self, verb):
        """See that what was waited for is had."""
        assert self.hears() == verb
        return self

    def kill(self):
        """End the process as nothing else does, and wait until it is gone."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(admission, "RECOUNT_S", 0.05)
    return tmp_path / "leases"


@pytest.fixture
def device(folder):
    return Admission(uuid="GPU-1", folder=folder, signature="pid 7 (me): kbench run mine")


@pytest.fixture
def actors(folder):
    """Return a maker of actors, which end with the test."""
    made = []

    def make(*names):
        made.extend(new := [Actor(folder, name) for name in names])
        return new if len(new) > 1 else new[0]

    yield make
    for actor in made:
        actor.kill()
        actor.process.stdin.close()
        actor.process.stdout.close()


@contextlib.contextmanager
def refused(device, verb, *numbers):
    """See that something cannot be had now."""
    with pytest.raises(DeviceBusyError) as caught, getattr(device, verb)(*numbers, NOT_AT_ALL):
        pytest.fail("had it")
    yield caught.value.holder


def left(folder):
    return sorted(path.name for path in (folder / "GPU-1").iterdir())


# The lock.


def test_many_share_and_one_excludes(device, actors):
    one, other = actors("one", "other")
    one.has("shared")
    other.has("shared")
    with device.shared(NOT_AT_ALL):
        pass
    with refused(device, "exclusive") as holder:
        assert re.fullmatch(r"one, for \d+ s, and 1 more", holder)
    one.has("release")
    other.has("release")
    one.has("exclusive")
    with refused(device, "shared") as holder:
        assert re.fullmatch(r"one, for \d+ s", holder)


def test_who_would_time_is_not_starved_by_those_who_verify(device, actors):
    reader, writer, late = actors("reader", "writer", "late")
    reader.has("shared")
    writer.queues("exclusive")
    late.queues("shared")
    with refused(device, "shared") as holder:
        assert holder.startswith("writer, ")
    reader.has("release")
    writer.has_at_last("exclusive")
    writer.has("release")
    late.has_at_last("shared")


def test_who_would_verify_is_not_starved_by_those_who_time(actors):
    first, reader, second = actors("first", "reader", "second")
    first.has("exclusive")
    reader.queues("shared")
    second.queues("exclusive")
    first.has("release")
    reader.has_at_last("shared")
    first.queues("exclusive")
    reader.has("release")
    second.has_at_last("exclusive")
    second.has("release")
    first.has_at_last("exclusive")


@pytest.mark.parametrize("mode", ["shared", "exclusive"])
def test_a_killed_holder_holds_no_longer(device, actors, mode, folder):
    holder, waiting = actors("holder", "waiting")
    holder.has(mode)
    waiting.queues("exclusive")
    holder.kill()
    waiting.has_at_last("exclusive")
    waiting.kill()
    with device.exclusive(NOT_AT_ALL):
        assert len(left(folder)) == 1


def test_one_who_is_killed_in_the_queue_blocks_nobody(device, actors):
    reader, writer = actors("reader", "writer")
    reader.has("shared")
    writer.queues("exclusive")
    writer.kill()
    with device.shared(NOT_AT_ALL):
        pass


def test_a_wait_ends_in_time_and_leaves_the_queue(device, actors, folder):
    actors("holder").has("exclusive")
    began, told = time.monotonic(), []
    with (
        pytest.raises(DeviceBusyError, match="held by holder, for"),
        device.shared(Wait(timeout_s=0.3, on_wait=told.append)),
    ):
        pytest.fail("both hold it")
    assert time.monotonic() - began >= 0.3
    assert len(told) == 1
    assert len(left(folder)) == 1


def test_who_waits_may_be_told_again_and_give_up(device, actors, folder):
    actors("holder").has("exclusive")
    told = []

    def hear(holder):
        told.append(holder)
        if len(told) == 3:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError), device.shared(Wait(on_wait=hear, again_s=0.01)):
        pytest.fail("both hold it")
    assert len(left(folder)) == 1


def test_devices_have_queues_of_their_own(device, actors, folder):
    actors("holder").has("exclusive")
    with Admission(uuid="MIG-GPU-2/1/0", folder=folder).exclusive(NOT_AT_ALL):
        assert sorted(path.name for path in folder.iterdir()) == ["GPU-1", "MIG-GPU-2_1_0"]


# What one process may ask for.


@pytest.mark.parametrize("outer", ["shared", "exclusive"])
@pytest.mark.parametrize("inner", [("shared",), ("exclusive",), ("reserve", 1, 10)])
def test_asking_within_a_lock_is_an_error_and_no_deadlock(device, folder, outer, inner):
    verb, *numbers = inner
    with getattr(device, outer)(), pytest.raises(InternalError, match=f"within `{outer}`"):
        getattr(device, verb)(*numbers).__enter__()
    with device.reserve(1, 10), device.exclusive(NOT_AT_ALL):
        pass
    assert left(folder) == []


def test_a_second_reservation_is_an_error_and_no_deadlock(device):
    with device.reserve(1, 10), pytest.raises(InternalError, match="second reservation"):
        device.reserve(1, 10).__enter__()


def test_what_a_thread_waits_for_counts_too(device, actors):
    holder = actors("holder").has("exclusive")
    waits, done = threading.Event(), threading.Event()

    def use():
        with device.shared(Wait(on_wait=lambda _: waits.set())):
            done.set()

    thread = threading.Thread(target=use, daemon=True)
    thread.start()
    assert waits.wait(LONG_S)
    with pytest.raises(InternalError):
        device.exclusive().__enter__()
    holder.has("release")
    assert done.wait(LONG_S)
    thread.join()


def test_a_forked_child_neither_keeps_nor_releases_what_its_parent_holds(device, folder, actors):
    other = actors("other")
    with device.exclusive(NOT_AT_ALL):
        reader, writer = os.pipe()
        if (child := os.fork()) == 0:
            with contextlib.suppress(BaseException):
                for claim in list(admission._own.values()):
                    claim.release()
                os.read(reader, 1)
            os._exit(0)
        other.queues("exclusive")
    other.has_at_last("exclusive")  # although the child lives
    os.write(writer, b".")
    assert os.waitpid(child, 0)[1] == 0
    os.close(reader)
    os.close(writer)


# Memory.


def test_memory_is_had_in_the_order_of_arrival(device, actors):
    first, large, small = actors("first", "large", "small")
    first.has("reserve 60 100")
    large.queues("reserve 70 100")
    small.queues("reserve 30 100")  # there is room, but then the large one would wait for ever
    first.has("release")
    large.has_at_last("reserve")
    small.has_at_last("reserve")
    with refused(device, "reserve", 1, 100) as holder:
        assert re.fullmatch(r"large, for \d+ s, and 1 more", holder)
    with device.reserve(1, 101, NOT_AT_ALL):
        pass


def test_more_than_there_is_goes_alone(device, actors):
    small, huge = actors("small", "huge")
    small.has("reserve 10 100")
    huge.queues("reserve 1000 100")
    small.has("release")
    huge.has_at_last("reserve")
    with refused(device, "reserve", 1, 100):
        pass


def test_a_dead_holder_s_memory_comes_back(actors, folder):
    holder, waiting = actors("holder", "waiting")
    holder.has("reserve 80 100")
    waiting.queues("reserve 80 100")
    holder.kill()
    waiting.has_at_last("reserve")
    assert len(left(folder)) == 1


def test_memory_and_the_lock_do_not_wait_for_each_other(device, actors):
    holder = actors("holder")
    holder.has("exclusive")
    with device.reserve(10, 10, NOT_AT_ALL):
        pass


def test_a_reservation_is_in_the_way_of_those_that_wait_for_memory(device, actors):
    one, other, timing = actors("one", "other", "timing")
    with device.reserve(50, 100) as held:
        assert not held.is_in_the_way()
        one.has("reserve 40 100")
        timing.has("exclusive")
        assert not held.is_in_the_way(), "nobody waits for memory"
        other.queues("reserve 30 100")
        assert held.is_in_the_way()
        one.has("release")
        other.has_at_last("reserve")
        assert not held.is_in_the_way()


def test_who_came_later_is_not_in_the_way(device, actors):
    first, waiting = actors("first", "waiting")
    first.has("reserve 60 100")
    with device.reserve(30, 100) as held:
        waiting.queues("reserve 50 100")
        assert held.is_in_the_way(), "both are"
        first.has("release")
        waiting.has_at_last("reserve")
    first.has("reserve 20 100")
    huge = actors("huge")
    huge.queues("reserve 1000 100")
    with contextlib.suppress(DeviceBusyError), device.reserve(1, 2000, NOT_AT_ALL) as held:
        assert not held.is_in_the_way(), "it is waited for by nobody that came after it"


@pytest.mark.parametrize("need", [-1, -(1 << 40)])
def test_less_than_nothing_is_refused(device, need):
    with pytest.raises(ValueError, match="cannot be reserved"):
        device.reserve(need, 100).__enter__()


def test_eight_at_once_never_exceed_the_capacity_and_never_time_beside_others(folder):
    command = [sys.executable, "-c", CYCLES, str(folder)]
    running = [
        subprocess.Popen([*command, str(seed)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for seed in range(8)
    ]
    for process in running:
        assert process.stdout.readline() == "ready\n"
    for process in running:
        process.stdin.write("\n")
        process.stdin.flush()
    lines = [line.split() for process in running for line in process.communicate(timeout=LONG_S)[0].splitlines()]
    assert all(process.returncode == 0 for process in running)
    assert max(totals(lines, "event")) <= 100
    assert totals(lines, "use") <= {*range(9), 1000}
    assert left(folder) == []


def totals(lines, kind):
    """Return what the changes that processes told of add up to, at each moment."""
    events = sorted((int(at), int(change)) for name, at, change in lines if name == kind)
    assert len(events) >= 8 * 12 * 2
    return set(itertools.accumulate(change for _, change in events))


# What others leave behind, and what the machine does.


def junk(queue):
    """Put into the folder of a queue what might be found there."""
    queue.mkdir(parents=True, exist_ok=True)
    (queue / "000000000001.exclusive-0").write_bytes(b"\xff\x00\x1b[31m" * 1000)
    (queue / "000000000002.memory-99999999999999999999").touch()
    (queue / "000000000003.exclusive-0").mkdir()
    (queue / "000000000004.shared-0").symlink_to("/dev/zero")
    (queue / "000000000005.exclusive-0").symlink_to("000000000005.exclusive-0")
    os.mkfifo(queue / "000000000006.exclusive-0")
    (queue / "000000000007.exclusive-0").touch(mode=0)
    (queue / f"{'9' * 200}.exclusive-0").touch()
    for name in (
        "x",
        "1.exclusive-0",
        "000000000008.nothing-0",
        "000000000009.shared-x",
        "٠" * 12 + ".shared-0",
        ".holder",
    ):
        (queue / name).write_text("{")


def test_what_nobody_holds_blocks_nobody(device, folder, actors):
    junk(folder / "GPU-1")
    with device.exclusive(NOT_AT_ALL):
        actors("other").queues("shared")
    with device.reserve(5, 5, NOT_AT_ALL):
        pass
    assert not any((folder / "GPU-1").glob("*.memory-*"))


def test_what_is_left_behind_and_may_not_be_removed_is_passed_over(device, folder, monkeypatch):
    junk(folder / "GPU-1")
    monkeypatch.setattr(claims, "_remove", lambda _: None)
    with device.exclusive(NOT_AT_ALL):
        pass
    with device.exclusive(NOT_AT_ALL):
        assert len(left(folder)) > 9


def test_a_holder_s_words_are_cleaned(device, actors):
    actors("\x1b[31mred\nand more " + "x" * 500).has("exclusive")
    with refused(device, "shared") as holder:
        assert holder.startswith("?[31mred?and more xxx")
        assert len(holder) < 140


def test_others_that_use_a_device_are_named_and_oneself_is_not(device, actors, monkeypatch):
    monkeypatch.setenv("KBENCH_LEASES", str(device.folder))
    with Admission(uuid=device.uuid).exclusive(NOT_AT_ALL):
        assert admission.others_using(device.uuid) == ""
    actors("kbench run gelu").has("shared")
    assert admission.others_using(device.uuid).startswith("kbench run gelu, for ")


def test_a_holder_without_words_is_another_process(device, actors):
    actors("").has("exclusive")
    with refused(device, "shared") as holder:
        assert holder.startswith("another kbench process, for ")


def test_without_room_for_words_the_lock_holds_all_the_same(device, actors, monkeypatch):
    class Full(claims.io.FileIO):
        def write(self, _):
            raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(claims.io, "FileIO", Full)
    with device.exclusive(NOT_AT_ALL):
        assert actors("other").ask("shared").hears().startswith("waits for another kbench process")


def test_too_many_open_files_are_no_sign_that_a_holder_is_dead(device, actors, monkeypatch):
    actors("holder").has("exclusive")

    def fail(_):
        raise OSError(errno.EMFILE, "too many")

    monkeypatch.setattr(claims, "_look_at", fail)
    with refused(device, "shared") as holder:
        assert holder == claims.NO_NOTE


def test_a_folder_that_is_removed_is_made_again(device, folder, actors):
    holder, waiting = actors("holder", "waiting")
    holder.has("exclusive")
    waiting.queues("exclusive")
    for path in [*(folder / "GPU-1").iterdir(), folder / "GPU-1", folder]:
        path.rmdir() if path.is_dir() else path.unlink()
    waiting.has_at_last("exclusive")  # the holder cannot be known any more
    with refused(device, "shared") as name:
        assert name.startswith("waiting, ")
    holder.has("release")
    with refused(device, "shared"):
        pass


def test_a_folder_that_is_none_is_the_machine_s_fault(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    for name in ("file", "link", "missing/leases"):
        with pytest.raises(MachineError, match="cannot be used") as caught:
            Admission(uuid="GPU-1", folder=tmp_path / name).shared().__enter__()
        assert "ls -ld" in caught.value.hint
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o700, "a link's target keeps its mode"


@pytest.mark.parametrize(
    ("number", "hint"), [(errno.ENOSPC, "df -i"), (errno.EROFS, "ls -ld"), (errno.EACCES, "chmod 777")]
)
def test_a_folder_that_takes_no_files_is_the_machine_s_fault(device, monkeypatch, number, hint):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(claims.io, "FileIO", fail)
    with pytest.raises(MachineError, match=os.strerror(number)) as caught:
        device.shared().__enter__()
    assert hint in caught.value.hint


def test_the_queue_is_open_to_every_user(device, folder):
    before = os.umask(0o077)
    try:
        with device.exclusive(NOT_AT_ALL):
            assert folder.stat().st_mode & 0o7777 == 0o777
            assert (folder / "GPU-1").stat().st_mode & 0o7777 == 0o777
            assert next((folder / "GPU-1").iterdir()).stat().st_mode & 0o777 == 0o666
    finally:
        os.umask(before)


def test_a_process_that_was_stopped_at_the_wrong_moment_is_told_of(device, folder, monkeypatch):
    monkeypatch.setattr(shared_folder, "GRACE_S", 0.05)
    with device.reserve(1, 10) as held, shared_folder.guarded(folder / "GPU-1", lambda _: None):
        with refused(device, "shared") as holder:
            assert "fuser" in holder
        assert not held.is_in_the_way(), "it cannot be looked at"


def test_a_signal_that_raises_gives_the_place_back(device, actors, folder):
    actors("holder").has("exclusive")
    signal.signal(signal.SIGALRM, lambda *_: signal.default_int_handler(signal.SIGINT, None))
    waits = Wait(on_wait=lambda _: signal.setitimer(signal.ITIMER_REAL, 0.01))
    with pytest.raises(KeyboardInterrupt), device.shared(waits):
        pytest.fail("both hold it")
    assert len(left(folder)) == 1


@pytest.mark.parametrize("program", ["/env/bin/kbench", "/env/lib/kbench/__main__.py"])
def test_a_process_is_named_as_it_was_called(monkeypatch, program):
    monkeypatch.setattr(sys, "argv", [program, "run", "group_norm"])
    assert re.fullmatch(rf"pid {os.getpid()} \(.+\): kbench run group_norm", admission.signature())
