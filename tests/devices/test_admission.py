"""Admission to a device, with real processes that wait, use it, die and leave files behind."""

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kbench.core.errors import MachineError
from kbench.devices import admission
from kbench.devices.admission import Admission, DeviceBusyError, Wait

ROOT = Path(__file__).parents[2]
NOT_AT_ALL = Wait(timeout_s=0.0)
LONG_S = 300.0
"""Limit on a busy machine; never reached if all is well."""

ACTOR = """
import contextlib, sys
from pathlib import Path
from kbench.devices.admission import Admission, Wait
device = Admission(uuid="GPU-1", folder=Path(sys.argv[1]), signature=sys.argv[2])
wait = Wait(on_wait=lambda holder: print(f"waits for {holder}", flush=True))
stack = contextlib.ExitStack()
uses = {"verify": device.shared, "time": device.exclusive, "open": device.memory}
uses["open alone"] = lambda wait: device.memory(wait, alone=True)
for line in sys.stdin:
    verb = line.strip()
    if verb == "end":
        stack.close()
    else:
        stack.enter_context(uses[verb](wait))
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
    with device.memory(), device.exclusive() if (seed + turn) % 3 == 0 else device.shared():
        weight = 1000 if (seed + turn) % 3 == 0 else 1
        print(time.monotonic_ns(), weight, flush=True)
        time.sleep(0.002)
        print(time.monotonic_ns(), -weight, flush=True)
"""


class Actor:
    """A process that does what it is asked for, one line at a time."""

    def __init__(self, folder, name):
        command = [sys.executable, "-c", ACTOR, str(folder), name]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def ask(self, verb):
        """Ask for something and return the process's next line."""
        self.process.stdin.write(f"{verb}\n")
        return self.hear()

    def hear(self):
        """Return the next line of the process."""
        return self.process.stdout.readline().strip()

    def kill(self):
        """End the process as nothing else does, and wait until it is gone."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "leases"


@pytest.fixture
def device(folder):
    return Admission(uuid="GPU-1", folder=folder, signature="pid 7 (me): kbench run mine")


@pytest.fixture
def actor(folder):
    """Return actors by name, each started when it is first asked for; they end with the test."""
    made = {}

    def named(name):
        if name not in made:
            made[name] = Actor(folder, name)
        return made[name]

    yield named
    for one in made.values():
        one.kill()
        one.process.stdin.close()
        one.process.stdout.close()


def busy(use):
    """Return the holder of something that cannot be had now."""
    with pytest.raises(DeviceBusyError) as caught, use(NOT_AT_ALL):
        pytest.fail("had it")
    return caught.value.holder


STORIES = {
    "two verify together, and one who times waits for both": """
        a verify; b verify; w time: waits; a end; b end; w has time; c verify: waits; w end; c has verify""",
    "one who waits to time is not overtaken by others who verify": """
        a verify; w time: waits; b verify: waits; a end; w has time; w end; b has verify""",
    "one who waits to verify is not starved by those who time": """
        w time; a verify: waits; x time: waits; w end; a has verify; a end; x has time""",
    "one who times again and again lets another one in": """
        w time; x time: waits; w end; x has time; w time: waits; x end; w has time; w end; x time""",
    "a killed verifier holds no longer": "a verify; w time: waits; a dies; w has time",
    "a killed timer holds no longer": "w time; a verify: waits; w dies; a has verify",
    "one who is killed while waiting blocks nobody": "a verify; w time: waits; w dies; b verify",
    "memory is used together, and one who needs all of it waits": """
        a open; b open; w open alone: waits; c open: waits; a end; b end; w has open alone; w end; c has open""",
    "a killed process's memory comes back": "a open alone; b open: waits; a dies; b has open",
    "memory and the device are apart": "a open alone; b time; c open: waits; d verify: waits; a end; c has open",
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES.keys())
def test_who_is_admitted_when(actor, story):
    for step in " ".join(story.split()).split("; "):
        name, _, verb = step.partition(" ")
        if verb == "dies":
            actor(name).kill()
        elif verb.startswith("has "):
            assert actor(name).hear() == verb.removeprefix("has "), step
        elif verb.endswith(": waits"):
            assert actor(name).ask(verb.removesuffix(": waits")).startswith("waits for "), step
        else:
            assert actor(name).ask(verb) == verb, step


def test_eight_at_once_never_time_beside_others_and_all_come_to_an_end(folder):
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
    events = sorted((int(at), int(change)) for at, change in lines)
    assert len(events) == 8 * 12 * 2
    assert set(itertools.accumulate(change for _, change in events)) <= {*range(9), 1000}


def test_a_verifier_sees_that_another_process_waits_to_time(device, actor):
    with device.shared():
        actor("reader").ask("verify")
        assert not device.is_wanted()
        actor("writer").ask("time")
        assert device.is_wanted()
        assert not device.is_memory_wanted()
    with device.memory():
        assert not device.is_memory_wanted()
        actor("other").ask("open alone")
        assert device.is_memory_wanted()


def test_a_device_is_in_use_while_a_process_computes_or_has_memory_there(device, actor, folder):
    assert not device.is_in_use()
    assert device.others() == ""
    with device.exclusive():
        assert device.others() == "", "this command itself"
        assert device.is_in_use()
    actor("kbench run gelu").ask("verify")
    assert device.others().startswith("kbench run gelu, for ")
    actor("kbench run gelu").ask("end")
    assert not device.is_in_use()
    actor("kbench run gelu").ask("open")
    assert device.is_in_use()
    with Admission(uuid="MIG-GPU-2/1/0", folder=folder).exclusive(NOT_AT_ALL):
        assert (folder / "MIG-GPU-2_1_0.device").exists()


def test_a_wait_ends_in_time(device, actor):
    actor("holder").ask("time")
    began, reports = time.monotonic(), []
    with (
        pytest.raises(DeviceBusyError, match="held by holder, for"),
        device.shared(Wait(timeout_s=0.3, on_wait=reports.append)),
    ):
        pytest.fail("both hold it")
    assert time.monotonic() - began >= 0.3
    assert len(reports) == 1
    assert not device.is_wanted()


def test_a_wait_is_reported_again_and_ends_with_an_exception_of_the_report(device, actor):
    actor("holder").ask("time")
    reports = []

    def hear(holder):
        reports.append(holder)
        if len(reports) == 3:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError), device.shared(Wait(on_wait=hear, again_s=0.01)):
        pytest.fail("both hold it")
    assert not device.is_wanted()


def test_a_signal_that_raises_ends_a_wait(device, actor):
    actor("holder").ask("time")
    signal.signal(signal.SIGALRM, lambda *_: signal.default_int_handler(signal.SIGINT, None))
    waits = Wait(on_wait=lambda _: signal.setitimer(signal.ITIMER_REAL, 0.01))
    with pytest.raises(KeyboardInterrupt), device.shared(waits):
        pytest.fail("both hold it")
    assert not device.is_wanted()


# What others leave behind, and what the machine does.


@pytest.mark.parametrize(("name", "shown"), [("\x1b[31mred\nand more " + "x" * 500, "?[31mred?and more xxx"), ("", "")])
def test_a_holder_s_name_is_cleaned(device, actor, name, shown):
    actor(name).ask("time")
    holder = busy(device.shared)
    assert holder.startswith(shown or "another kbench process, for ")
    assert len(holder) < 140


@pytest.mark.parametrize("content", [b"", b"\xff\x00\x1b[31m" * 1000])
def test_a_file_that_nobody_holds_blocks_nobody(device, folder, content):
    folder.mkdir()
    for lock in ("device", "device.turnstile", "memory", "memory.turnstile"):
        (folder / f"GPU-1.{lock}").write_bytes(content)
    with device.memory(NOT_AT_ALL, alone=True), device.exclusive(NOT_AT_ALL):
        pass


def test_a_folder_that_is_removed_is_made_again(device, folder, actor):
    actor("holder").ask("time")
    assert actor("waiting").ask("time").startswith("waits for holder")
    for path in [*folder.iterdir(), folder]:
        path.rmdir() if path.is_dir() else path.unlink()
    with device.exclusive(NOT_AT_ALL):  # holders of removed files cannot be known
        actor("holder").ask("end")
    assert actor("waiting").hear() == "time"
    assert busy(device.shared).startswith("waiting, ")


def test_a_folder_that_is_none_is_the_machine_s_fault(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "full" / "GPU-1.device.turnstile").mkdir(parents=True)
    for name in ("file", "link", "missing/leases", "full"):
        with pytest.raises(MachineError, match="cannot be used") as caught:
            Admission(uuid="GPU-1", folder=tmp_path / name).shared().__enter__()
        assert "ls -ld" in caught.value.hint
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o700, "a link's target keeps its mode"


@pytest.mark.parametrize("target", ["/dev/zero", "GPU-1.device"])
def test_a_link_in_place_of_a_file_is_the_machine_s_fault(device, folder, target):
    folder.mkdir()
    (folder / "GPU-1.device").symlink_to(target)
    with pytest.raises(MachineError, match="cannot be used"):
        device.shared().__enter__()
    assert not device.is_in_use()


def test_the_locks_are_open_to_every_user(device, folder):
    before = os.umask(0o077)
    try:
        with device.exclusive(NOT_AT_ALL):
            assert folder.stat().st_mode & 0o7777 == 0o777
            assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o666}
    finally:
        os.umask(before)


@pytest.mark.parametrize("program", ["/env/bin/kbench", "/env/lib/kbench/__main__.py"])
def test_a_process_is_named_as_it_was_called(monkeypatch, program):
    monkeypatch.setattr(sys, "argv", [program, "run", "group_norm"])
    assert re.fullmatch(rf"pid {os.getpid()} \(.+\): kbench run group_norm", admission.signature())
