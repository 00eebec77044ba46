"""What a hostile worker tries, from within a rung. Run as a script by test_rungs.py; needs no packages.

`drive RUNG FOLDER EXEC` starts a judge, listeners of its own, and a confined attacker; it prints one JSON object:
the outcome of each attack, `open` or how it was stopped, and what came of them outside.
"""

import ctypes
import fcntl
import json
import multiprocessing
import os
import platform
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from kbench.devices import admission
from kbench.sandbox import rungs

PTRACE_SEIZE = 0x4206
IO_URING_SETUP = 425
ON_X86 = platform.machine() == "x86_64"
PERF_EVENT_OPEN, BPF, KEYCTL = (298, 321, 250) if ON_X86 else (241, 280, 219)
MQ_OPEN, MQ_UNLINK = (240, 241) if ON_X86 else (180, 181)
CLONE_NEWUSER = 0x10000000
LIBC = ctypes.CDLL(None, use_errno=True)


def attempts(outside: Path, scratch: Path, judge: int, tcp: int, udp: int) -> dict[str, Callable[[], object]]:
    victim = outside / "results.csv"
    return {
        "write_file": lambda: (outside / "new").write_text("x"),
        "append_file": lambda: victim.open("a").write("x"),
        "truncate_file": lambda: os.truncate(victim, 0),
        "delete_file": (outside / "doomed").unlink,
        "rename_into_scratch": lambda: (outside / "moved").rename(scratch / "moved"),
        "change_mode": lambda: changed_mode(outside / "mode"),
        "read_hidden": (outside / "hidden" / "secret").read_text,
        "tcp": lambda: socket.create_connection(("127.0.0.1", tcp), timeout=5).close(),
        "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", udp)),
        "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
        "unix_service": lambda: socket.socket(socket.AF_UNIX).connect(str(outside / "service")),
        "unix_datagram": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", str(outside / "log")),
        "judge_memory": lambda: open_memory(judge),
        "judge_environment": lambda: Path(f"/proc/{judge}/environ").read_bytes()[0],
        "judge_trace": lambda: call("ptrace", PTRACE_SEIZE, judge, 0, 0),
        "judge_signal": lambda: os.kill(judge, signal.SIGWINCH),
        "judge_priority": lambda: os.setpriority(os.PRIO_PROCESS, judge, 19),
        "judge_affinity": lambda: os.sched_setaffinity(judge, {min(os.sched_getaffinity(0))}),
        "judge_limits": lambda: resource.prlimit(judge, resource.RLIMIT_NOFILE, (64, 64)),
        "user_namespace": lambda: call("unshare", CLONE_NEWUSER),
        "io_uring": lambda: call("syscall", IO_URING_SETUP, 1, ctypes.create_string_buffer(120)),
        "perf": lambda: call(
            "syscall", PERF_EVENT_OPEN, ctypes.create_string_buffer(struct.pack("=IIQ", 1, 128, 1), 128), 0, -1, -1, 0
        ),
        "bpf": lambda: call("syscall", BPF, 0, ctypes.create_string_buffer(struct.pack("=IIII", 2, 4, 4, 1), 72), 72),
        "key_ring": lambda: call("syscall", KEYCTL, 1, None),
        "system_v_memory": system_v_memory,
        "posix_queue": posix_queue,
        "hold_lease": lambda: hold_lease(lease_of(scratch.parent)),
        "device": lambda: os.close(os.open("/dev/ptmx", os.O_RDWR)),
        "shared_memory_folder": lambda: lease_of(scratch.parent).open("r+").close(),
        "kernel_parameter": lambda: os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY)),
        "see_judge": Path(f"/proc/{judge}/cmdline").read_bytes,
        "execute": lambda: subprocess.run(["/bin/true"], check=True),
        "execute_memory": execute_from_memory,
        "fork": fork,
    }


def call(name: str, *arguments: object) -> int:
    converted = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    if (result := getattr(LIBC, name)(*converted)) < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def system_v_memory() -> None:
    call("shmctl", call("shmget", 0x6B62, 4096, 0o1600), 0, None)


def lease_of(folder: Path) -> Path:
    """A lock where the device leases lie."""
    return admission.leases().parent / f"{str(folder).replace('/', '-')}.lock"


def hold_lease(path: Path) -> None:
    with path.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def posix_queue() -> None:
    call("syscall", MQ_OPEN, b"kbench-test", os.O_CREAT | os.O_RDWR, 0o600, None)
    call("syscall", MQ_UNLINK, b"kbench-test")


def changed_mode(path: Path) -> None:
    path.chmod(0o600)
    if path.stat().st_mode & 0o777 != 0o600:
        raise PermissionError("without effect")


def open_memory(judge: int) -> None:
    with Path(f"/proc/{judge}/maps").open() as lines:
        start = int(next(line for line in lines if "[heap]" in line).split("-")[0], 16)
    with Path(f"/proc/{judge}/mem").open("rb") as memory:
        memory.seek(start)
        memory.read(64)


def execute_from_memory() -> None:
    program = os.memfd_create("program")
    os.write(program, Path("/bin/true").read_bytes())
    subprocess.run([f"/proc/self/fd/{program}"], pass_fds=[program], check=True)


def fork() -> None:
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)


def kill_supervisor() -> None:
    """Leave no report if it works: the supervisor takes its tree along."""
    try:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(0.2)
    except PermissionError:
        return


def honest(scratch: Path, channel: int) -> dict:
    """What an honest worker does and must go on being able to do."""
    done = []
    thread = threading.Thread(target=lambda: done.append(1))
    thread.start()
    thread.join()
    (scratch / "cache").mkdir()
    (scratch / "cache" / "artefact").write_text("x")
    (scratch / "cache" / "artefact").rename(scratch / "artefact")
    (scratch / "artefact").chmod(0o600)
    Path("/dev/null").write_text("x")
    memory = os.memfd_create("shared")
    os.ftruncate(memory, 1 << 20)
    pair = socket.socketpair()
    pair[0].send(b"x")
    os.write(channel, b"over the channel")
    readable = Path(os.__file__).read_text()[:1] + next(Path("/").iterdir()).name
    pipe = pair[1].recv(1) == b"x"
    return {"thread": done == [1], "reads": bool(readable), "pipe": pipe, "semaphore": has_semaphores()}


def has_semaphores() -> bool:
    """Say whether named ones work, as in multiprocessing's locks and pools."""
    try:
        return bool(multiprocessing.Semaphore().acquire(timeout=5))
    except OSError:
        return False


def attack(rung: str, allow_exec: str, folder: str, judge: str, tcp: str, udp: str, channel: str) -> None:
    scratch, outside = Path(folder, "scratch"), Path(folder, "outside")
    rungs.restrict_self(
        rungs.Rung(int(rung)),
        writable=[scratch],
        hidden=[outside / "hidden"],
        allow_exec=allow_exec == "exec",
    )
    verdicts = {}
    for name, attempt in attempts(outside, scratch, int(judge), int(tcp), int(udp)).items():
        try:
            attempt()
        except (OSError, subprocess.SubprocessError) as error:
            verdicts[name] = f"{type(error).__name__}: {error}"
        else:
            verdicts[name] = "open"
    if rung != "0":
        kill_supervisor()
    limits = {
        "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
        "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    }
    say(json.dumps({"attacks": verdicts, "honest": honest(scratch, int(channel)), "limits": limits}))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def judge() -> None:
    rungs.harden_judge()
    say("ready")
    sys.stdin.readline()


def drive(rung: str, folder: str, allow_exec: str) -> None:
    base = Path(folder)
    for name in ("scratch", "outside/hidden"):
        (base / name).mkdir(parents=True)
    for name in ("results.csv", "doomed", "moved", "mode", "hidden/secret"):
        (base / "outside" / name).write_text("precious")
        (base / "outside" / name).chmod(0o644)
    tcp, service = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)
    udp, log = (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
    )
    udp.bind(("127.0.0.1", 0))
    service.bind(str(base / "outside/service"))
    service.listen()
    log.bind(str(base / "outside/log"))
    lock = lease_of(base)
    lock.touch()
    ours, theirs = socket.socketpair()
    me = [sys.executable, str(Path(__file__))]
    trusted = subprocess.Popen([*me, "judge"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    trusted.stdout.readline()
    ports = [str(tcp.getsockname()[1]), str(udp.getsockname()[1])]
    arguments = [*me, "attack", rung, allow_exec, folder, str(trusted.pid), *ports, str(theirs.fileno())]
    attacker = subprocess.run(
        rungs.command(rungs.Rung(int(rung)), arguments),
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        pass_fds=[theirs.fileno()],
        start_new_session=True,
        check=True,
    )
    theirs.close()
    report = json.loads(attacker.stdout)
    report["channel"] = ours.recv(64).decode() if select.select([ours], [], [], 5)[0] else ""
    report["end_of_channel"] = ours.recv(1) == b""
    report["arrived"] = [name for name, end in (("tcp", tcp), ("udp", udp)) if select.select([end], [], [], 0)[0]]
    report["judge_alive"] = trusted.poll() is None
    trusted.communicate("\n")
    lock.unlink()
    report["files"] = sorted(p.name for p in (base / "outside").iterdir())
    report["results"] = (base / "outside" / "results.csv").read_text()
    say(json.dumps(report))


if __name__ == "__main__":
    {"attack": attack, "judge": judge, "drive": drive}[sys.argv[1]](*sys.argv[2:])
