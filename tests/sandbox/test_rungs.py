"""The rungs, attacked from within, as this user and as an unprivileged one; the process tree; the probe."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from require import require_rung
from waiting import PATIENCE_S, wait_until

from kbench.process import child as children_child
from kbench.sandbox import landlock, process_table, process_tree, rung_probe, rungs
from kbench.sandbox.rungs import Rung
from kbench.sandbox.work_folder import work_folder

ROOT = Path(__file__).parents[2]
ATTACKS = Path(__file__).with_name("sandbox_attacks.py")
NOBODY = 65534

FILES = {"write_file", "append_file", "truncate_file", "delete_file", "rename_into_scratch", "read_hidden", "device"}
SHARED = {"shared_memory_folder", "hold_lease"} if os.access("/dev/shm", os.W_OK) else set()
PROGRAMS = {"execute", "execute_memory", "fork"}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")


def unprivileged_python() -> str | None:
    """An interpreter that the user `nobody` can start."""
    for candidate in (sys.executable, "/usr/bin/python3"):
        with_version = [candidate, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        try:
            subprocess.run(with_version, check=True, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/")
        except (OSError, subprocess.SubprocessError):
            continue
        return candidate
    return None


def drive(rung: Rung, folder: Path, *, exec_allowed: bool, user: str) -> dict:
    """Let the attacks loose in a rung and return their report."""
    python, identity = sys.executable, {}
    if user == "nobody":
        if os.getuid() != 0:
            pytest.skip("already unprivileged")
        if (found := unprivileged_python()) is None:
            pytest.skip("no interpreter that nobody can start")
        python, identity = found, {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        # pytest's own folders are closed to others.
        folder = Path("/tmp") / f"kbench-test-{os.getpid()}-{int(rung)}"
        folder.mkdir()
        os.chown(folder, NOBODY, NOBODY)
    try:
        done = subprocess.run(
            [python, str(ATTACKS), "drive", str(int(rung)), str(folder), "exec" if exec_allowed else "no"],
            env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            **identity,
        )
    finally:
        if identity:
            shutil.rmtree(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def opened(report: dict) -> set[str]:
    return {name for name, outcome in report["attacks"].items() if outcome == "open"}


@pytest.mark.parametrize(
    ("rung", "user"),
    [
        (Rung.LIMITS, "self"),
        (Rung.NAMESPACES, "nobody"),
        (Rung.LANDLOCK, "nobody"),
        (Rung.FULL, "self"),
        (Rung.FULL, "nobody"),
    ],
)
def test_a_rung_stops_what_it_says(rung, user, tmp_path):
    require_rung(rung)
    report = drive(rung, tmp_path, exec_allowed=False, user=user)
    expected = set() if rung.has_landlock else FILES | SHARED
    if not rung.has_landlock and user == "self" and os.getuid() == 0:
        expected.add("kernel_parameter")
    if rung.has_namespaces:
        expected -= SHARED
    else:
        expected.add("see_judge")
    assert opened(report) == expected
    semaphore = rung.has_namespaces or not rung.has_landlock
    assert report["honest"] == {"thread": True, "reads": True, "pipe": True, "semaphore": semaphore}
    assert report["limits"]["core"] == 0
    assert report["limits"]["files"] <= rungs.MAX_OPEN_FILES
    assert report["channel"] == "over the channel"
    assert report["end_of_channel"], "the supervisor keeps the worker's end of the channel open"
    assert report["arrived"] == []
    assert report["judge_alive"]
    if rung.has_landlock:
        assert report["results"] == "precious"
        assert "new" not in report["files"]
        assert {"doomed", "moved"} <= set(report["files"])


def test_without_a_sandbox_everything_is_open(tmp_path):
    """The control: the attacks work where nothing stops them."""
    report = drive(Rung.NONE, tmp_path, exec_allowed=True, user="self")
    stopped = set(report["attacks"]) - opened(report)
    by_the_judges_hardening_unless_root = {"judge_memory", "judge_environment", "judge_trace"}
    by_the_kernels_own_settings = {"user_namespace", "io_uring", "perf", "bpf", "kernel_parameter", "posix_queue"}
    assert stopped <= by_the_judges_hardening_unless_root | by_the_kernels_own_settings
    assert report["arrived"] == ["tcp", "udp"]
    assert report["results"] == ""


@pytest.mark.parametrize("rung", [Rung.LANDLOCK, Rung.FULL])
def test_a_build_may_start_programs_and_nothing_else(rung, tmp_path):
    require_rung(rung)
    opened_here = opened(drive(rung, tmp_path, exec_allowed=True, user="self"))
    assert opened_here - {"see_judge"} == PROGRAMS


def run_in(code: str, rung: Rung, scratch: Path, setup: str = "", **options) -> subprocess.CompletedProcess:
    """Run a piece of Python in a rung; `setup` comes before the walls go up."""
    script = f"""
import os, signal, sys, time, ctypes, socket
from pathlib import Path
from kbench.sandbox import landlock, rungs, seccomp
{setup}
rungs.restrict_self(rungs.Rung({int(rung)}), writable=[Path({str(scratch)!r})], allow_exec=True)
{code}
"""
    argv = rungs.command(rung, [sys.executable, "-c", script])
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False, **options)


def test_an_old_landlock_is_made_up_for_by_the_filter(tmp_path):
    """Version 1 knows neither truncation, nor TCP, nor signals: the kernel here is made to look so."""
    require_rung(Rung.LANDLOCK)
    (tmp_path / "scratch").mkdir()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    setup = f"victim = {str(victim)!r}; parent = {os.getpid()}; landlock.abi = lambda: 1"
    code = """
for attempt in (
    lambda: os.truncate(victim, 0),
    lambda: open(victim, "w"),
    lambda: os.kill(parent, 0),
    lambda: socket.create_connection(("127.0.0.1", 1)),
    lambda: os.kill(os.getpid(), 0),
):
    try:
        attempt()
        print("open")
    except PermissionError:
        print("denied")
"""
    done = run_in(code, Rung.LANDLOCK, tmp_path / "scratch", setup)
    assert done.stdout.split() == ["denied"] * 4 + ["open"], done.stderr
    assert victim.read_text() == "precious"


def test_a_process_with_threads_cannot_be_locked_in(tmp_path):
    setup = "import threading; threading.Thread(target=time.sleep, args=(9,), daemon=True).start()"
    done = run_in("print('in')", Rung.LIMITS, tmp_path, setup)
    assert "before the first thread" in done.stderr
    assert done.stdout == ""


RUNGS_WITH_A_SUPERVISOR = [Rung.LIMITS, Rung.NAMESPACES]


@pytest.mark.parametrize("rung", RUNGS_WITH_A_SUPERVISOR)
@pytest.mark.parametrize(
    ("code", "returncode"),
    [
        ("sys.exit(7)", 7),
        ("ctypes.string_at(1)", -11),
    ],
)
def test_the_end_of_the_child_is_the_end_that_is_seen(rung, code, returncode, tmp_path):
    require_rung(rung)
    assert run_in(code, rung, tmp_path).returncode == returncode


def start(rung: Rung, code: str) -> subprocess.Popen:
    argv = rungs.command(rung, [sys.executable, "-c", f"import os, sys, time, signal\n{code}"])
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert child.stdout.readline() == "ready\n"
    return child


@pytest.fixture
def marker(rung, monkeypatch) -> str:
    """A variable that everything below this test has in its environment."""
    require_rung(rung)
    name = f"KBENCH_TEST_{os.getpid()}_{rung.name}"
    monkeypatch.setenv(name, "1")
    return name


def alive_with(marker: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and marker in (entry / "environ").read_text():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def program_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]
    except OSError:
        return b""


DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.wait()
print("ready", flush=True)
time.sleep(600)
"""
BOMB = """
for _ in range(30):
    if os.fork() == 0:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                if os.fork() == 0 and os.fork() > 0:
                    os._exit(0)
            except OSError:
                pass
            time.sleep(0.3)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("rung", RUNGS_WITH_A_SUPERVISOR)
@pytest.mark.parametrize("code", [DAEMON, BOMB], ids=["daemon", "fork_bomb"])
def test_nothing_of_a_killed_tree_is_left(rung, code, marker):
    child = start(rung, code)
    wait_until(lambda: len(alive_with(marker)) >= 2)
    assert process_tree.kill_tree(child.pid, PATIENCE_S) == 0
    assert child.wait(PATIENCE_S) == -signal.SIGKILL
    assert alive_with(marker) == []


@pytest.mark.parametrize("rung", RUNGS_WITH_A_SUPERVISOR)
def test_a_daemon_does_not_outlive_its_worker(rung, marker):
    """The worker ends by itself; what it left in the background ends with it."""
    child = start(rung, DAEMON.rsplit("time", 1)[0])
    assert child.wait(PATIENCE_S) == 0
    assert alive_with(marker) == []


@pytest.mark.parametrize("rung", RUNGS_WITH_A_SUPERVISOR)
@pytest.mark.parametrize("early", [False, True], ids=["complete", "at its start"])
def test_a_tree_dies_with_its_starter(rung, early, marker):
    code = (
        "import subprocess, time\nfrom kbench.sandbox import rungs\n"
        f"subprocess.Popen(rungs.command(rungs.Rung({int(rung)}), ['sleep', '600']))\n"
        "print('ready', flush=True); time.sleep(600)"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    starter.stdout.readline()
    if not early:
        wait_until(lambda: any(program_of(pid) == b"sleep" for pid in alive_with(marker)))
    starter.kill()
    starter.wait()
    wait_until(lambda: alive_with(marker) == [])


def states(pid: int) -> set[str]:
    lines = [Path(f"/proc/{p.pid}/stat").read_text() for p in process_table.members(pid)]
    return {line.rpartition(")")[2].split()[0] for line in lines}


@pytest.mark.parametrize("rung", RUNGS_WITH_A_SUPERVISOR)
def test_a_tree_is_stopped_and_goes_on(rung):
    require_rung(rung)
    child = start(rung, DAEMON)
    try:
        tree = process_tree.stop_tree(child.pid)
        assert tree
        assert states(child.pid) == {"T"}
        tree.go_on()
        wait_until(lambda: states(child.pid) == {"S"})
    finally:
        process_tree.kill_tree(child.pid)
        child.wait()


def test_a_tree_is_weighed():
    child = start(Rung.LIMITS, "hold = b'x' * (200 << 20)\n" + DAEMON)
    try:
        assert 200 << 20 < children_child.tree_rss_bytes(child.pid) < 700 << 20
    finally:
        process_tree.kill_tree(child.pid)
        child.wait()
    assert children_child.tree_rss_bytes(child.pid) == 0


def test_the_probe_remembers(tmp_path, monkeypatch):
    monkeypatch.setattr(rung_probe, "_found", {})
    first = rung_probe.reached("cpu", tmp_path)
    assert first >= Rung.NONE
    monkeypatch.setattr(rung_probe, "works", lambda *_: pytest.fail("probed again"))
    assert rung_probe.reached("cpu", tmp_path / "another cache") == first
    assert (tmp_path / "another cache" / rung_probe.CACHE_NAME).is_file()
    monkeypatch.setattr(rung_probe, "_found", {})
    assert rung_probe.reached("cpu", tmp_path) == first, "by the cache alone"


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_what_a_killed_probe_leaves_goes_with_the_next_command(tmp_path, monkeypatch, end):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    probe = "from kbench.sandbox import rung_probe as p; p._trial = lambda *_: __import__('time').sleep(60); "
    killed = subprocess.Popen([sys.executable, "-c", probe + "p.works(p.Rung.LIMITS, 'cpu')"])
    wait_until(lambda: list(tmp_path.glob("*/outside/hidden/secret")))
    killed.send_signal(end)
    killed.wait()
    assert list(tmp_path.iterdir())
    with work_folder() as own:
        assert list(tmp_path.iterdir()) == [own]


def test_the_probe_falls_to_what_works(tmp_path, monkeypatch):
    monkeypatch.setattr(rung_probe, "_found", {})
    monkeypatch.setattr(rung_probe, "works", lambda rung, _: "no" if rung > Rung.LIMITS else None)
    assert rung_probe.reached("cpu", tmp_path) == Rung.LIMITS
    (tmp_path / rung_probe.CACHE_NAME).write_text("not JSON")
    monkeypatch.setattr(rung_probe, "_found", {})
    assert rung_probe.reached("cpu", tmp_path) == Rung.LIMITS


def test_a_rung_whose_walls_have_a_gap_does_not_count(tmp_path):
    """A child that is asked to check walls which were never put up says so."""
    (tmp_path / "scratch").mkdir()
    with pytest.raises(OSError, match="sockets can be opened"):
        rung_probe.check_walls(Rung.LANDLOCK, tmp_path / "scratch", tmp_path)


def test_no_gpu_is_said_not_raised():
    if shutil.which("nvidia-smi") is not None:
        pytest.skip("there is a GPU")
    assert "no CUDA buffer" in str(rung_probe.works(Rung.FULL, "cuda"))


def test_hidden_paths_have_no_rule_above_them(tmp_path):
    for name in ("a/b", "a/c", "d"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a" / "b")
    covered = set(landlock.visible([tmp_path], [tmp_path / "a" / "b"]))
    assert covered == {tmp_path / "a" / "c", tmp_path / "d", tmp_path / "link"}, "a process's own /tmp has the link"
    ruled = {path for path, _ in landlock._rules([], [tmp_path / "a" / "b"], [], allow_exec=False)}
    assert covered - ruled == {tmp_path / "link"}
    assert list(landlock.visible([tmp_path], [])) == [tmp_path]
