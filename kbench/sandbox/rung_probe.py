"""Which rung of the sandbox works on this machine: tried for real, remembered until it could have changed.

A trial starts a small child as a worker is started, locks it in, and lets it do what a worker needs: on a GPU,
create a context, map a buffer of another process through CUDA IPC and write it with a kernel. It also checks
from within that the walls stand: a rung in which the child can write elsewhere or open a network socket was not
reached.
"""

import contextlib
import errno
import hashlib
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from ctypes import c_uint64
from pathlib import Path

from kbench.build import interpreter
from kbench.devices import cuda_driver
from kbench.devices.backend import backend
from kbench.devices.cuda_driver import IPC_HANDLE_BYTES, Driver
from kbench.sandbox import hidden_paths, landlock, libc, namespaces, process_table, process_tree, rungs, seccomp
from kbench.sandbox.rungs import Rung
from kbench.sandbox.work_folder import work_folder
from kbench.storage import json_values

TRIAL_LIMIT_S = 60.0
CLOSED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT}
CACHE_NAME = "sandbox.json"
TEMPORARY, SHOWN, HIDDEN, SECRET = "tmp", "shown", "hidden", "secret"
"""Folders of a trial: what becomes its /tmp, what it must not write, what it must not read; and a file in each."""
WORDS = 256
PATTERN = 0x6B62
_found: dict[str, Rung] = {}
"""Rungs found by this process, by fingerprint, for runs with another cache or one that cannot be written."""

WRITE_PATTERN_PTX = f"""
.version 7.0
.target sm_50
.address_size 64
.visible .entry write_pattern(.param .u64 buffer)
{{
    .reg .b32 %r<3>;
    .reg .b64 %a<3>;
    ld.param.u64 %a0, [buffer];
    cvta.to.global.u64 %a0, %a0;
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %a1, %r0, 4;
    add.s64 %a2, %a0, %a1;
    add.u32 %r1, %r0, {PATTERN};
    st.global.u32 [%a2], %r1;
    ret;
}}
""".encode()


def reached(device: str, cache_dir: Path) -> Rung:
    """Return the highest rung that works for `cpu`, `cuda` or `cuda:1`; `cache_dir` remembers it."""
    cache = cache_dir / CACHE_NAME
    key = _fingerprint(device)
    known = json_values.read(cache)
    if known.get(key) in [*Rung]:
        return Rung(known[key])
    if key not in _found:
        _found[key] = next(rung for rung in sorted(Rung, reverse=True) if works(rung, device) is None)
    with contextlib.suppress(OSError):  # where it cannot be kept, the next process tries again
        json_values.write(cache, {**known, key: int(_found[key])})
    return _found[key]


def works(rung: Rung, device: str) -> str | None:
    """Try one rung; return None where it works, else why not."""
    if rung == Rung.NONE:
        return None
    if not seccomp.supported():
        return "no filter of system calls for this machine"
    if rung.has_landlock and not landlock.abi():
        return "the kernel has no Landlock, or it is switched off"
    with work_folder() as folder:
        scratch, outside = folder / "scratch", folder / "outside"
        for inner in (scratch / TEMPORARY, outside / SHOWN, outside / HIDDEN):
            inner.mkdir(parents=True)
            (inner / SECRET).write_text("secret")
        try:
            if not backend(device).has_own_memory:
                return _trial(rung, [device, "-"], scratch, outside) or _spared(rung, outside)
            with _exporter(device) as (handle, written):
                return _trial(rung, [device, handle], scratch, outside) or written() or _spared(rung, outside)
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)


def _spared(rung: Rung, outside: Path) -> str | None:
    """Return what a trial did to a folder that was not its own, seen from here."""
    if rung.has_landlock and (outside / "file").exists():
        return "files outside the scratch folder can be written"
    return None


def _fingerprint(device: str) -> str:
    """Hash all that decides: this boot, kernel, driver, user, interpreter, and the sandbox's own code."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    parts = [device, platform.release(), str(os.getuid()), sys.executable, visible]
    modules = rungs, landlock, libc, seccomp, process_table, process_tree, namespaces, hidden_paths, cuda_driver
    for path in (
        *("/proc/sys/kernel/random/boot_id", "/proc/driver/nvidia/version", "/proc/self/status"),
        *(str(module.__file__) for module in modules),
        __file__,
    ):
        try:
            text = Path(path).read_bytes()
        except OSError:
            text = b""
        if path.endswith("status"):
            # Inside a container or another sandbox the same boot may allow less.
            lines = text.splitlines()
            text = b"".join(line for line in lines if line.startswith((b"Cap", b"Seccomp", b"NoNew")))
        parts.append(hashlib.sha256(text).hexdigest())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _trial(rung: Rung, arguments: list[str], scratch: Path, outside: Path) -> str | None:
    module = [sys.executable, "-P", "-m", __name__, "worker", str(int(rung)), str(scratch), str(outside), *arguments]
    hidden = [Path(os.path.realpath(outside / HIDDEN))]
    around = hidden_paths.surroundings(scratch / TEMPORARY, own=[scratch], files=[outside / "any.py"], hidden=hidden)
    child = subprocess.Popen(
        rungs.command(rung, module, around),
        env=interpreter.child_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = child.communicate(timeout=TRIAL_LIMIT_S)
    except subprocess.TimeoutExpired:
        output = f"no answer within {TRIAL_LIMIT_S:.0f} s"
    finally:
        process_tree.kill_tree(child.pid)
        child.wait()
    if child.returncode == 0 and output.strip() == "works":
        return None
    words = output.strip().splitlines() or [f"exit code {child.returncode}"]
    return f"rung {rung.value}: {words[-1][-300:]}"


@contextlib.contextmanager
def _exporter(device: str) -> Iterator[tuple[str, Callable[[], str | None]]]:
    """Run a process that owns a buffer; yield its IPC handle, and a call that says how it was not written."""
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, "owner", device],
        env=interpreter.child_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert child.stdout is not None, "stdout is a pipe"
        handle = child.stdout.readline().strip()
        if len(handle) != 2 * IPC_HANDLE_BYTES:
            raise OSError(f"no CUDA buffer to share: {handle or 'no output'}")

        def written() -> str | None:
            output, _ = child.communicate("\n", timeout=TRIAL_LIMIT_S)
            output = output.strip()
            return None if output == "written" else f"the shared buffer was not written: {output}"

        yield handle, written
    finally:
        child.kill()
        child.wait()


def driver_of(device: str) -> Driver:
    """Open a device (`cuda:1`) without torch. Raises OSError and DriverError."""
    return Driver(int(device.partition(":")[2] or 0))


def share_buffer(device: str) -> None:
    """Share a zeroed buffer, wait for a line on stdin, print whether the buffer then holds the pattern."""
    driver = driver_of(device)
    buffer = driver.allocate(4 * WORDS)
    driver.clear(buffer, WORDS)
    _say(driver.export(buffer).hex())
    sys.stdin.readline()
    words = driver.read(buffer, WORDS)
    _say("written" if holds_pattern(words) else f"holds {words[:4]}")


def write_buffer(device: str, handle: str) -> None:
    """Map another process's buffer and write it with a kernel."""
    driver = driver_of(device)
    buffer = driver.open(bytes.fromhex(handle))
    write_pattern(driver, buffer)
    driver.unmap(buffer)


def write_pattern(driver: Driver, buffer: int) -> None:
    """Write PATTERN + i into word i of a buffer of WORDS words with a kernel. Raises DriverError."""
    driver.launch(driver.kernel(WRITE_PATTERN_PTX, b"write_pattern"), 1, WORDS, c_uint64(buffer))
    driver.synchronise()


def holds_pattern(words: list[int]) -> bool:
    """Return whether words are what `write_pattern` writes."""
    return words == [PATTERN + i for i in range(WORDS)]


def check_walls(rung: Rung, scratch: Path, outside: Path) -> None:
    """Try what the rung should stop. Raises OSError where something stands open, or scratch or /tmp is closed."""
    (scratch / "file").write_text("own")
    if rung.has_namespaces:
        check_temporary(scratch)
    try:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
    except PermissionError:
        pass
    else:
        raise OSError("network sockets can be opened")
    if not rung.has_landlock:
        return
    with contextlib.suppress(OSError):
        (outside / "file").write_text("foreign")  # no harm where that is in its own /tmp: the parent looks
    for flag, path, wrong in (
        ("w", outside / SHOWN / SECRET, "files outside the scratch folder can be written"),
        ("r", outside / HIDDEN / SECRET, "hidden files can be read"),
    ):
        try:
            path.open(flag).close()
        except OSError as error:
            if error.errno not in CLOSED:
                raise
        else:
            raise OSError(wrong)


def check_temporary(scratch: Path) -> None:
    """Write into /tmp, which is to be the folder in scratch and nobody else's. Raises OSError where it is not."""
    if not namespaces.has(scratch / TEMPORARY):
        raise OSError(f"{namespaces.TEMPORARY} is not its own")
    folder = namespaces.place() / "kbench-probe"
    folder.mkdir()
    (folder / "file").write_text("own")
    if (scratch / TEMPORARY / folder.name / "file").read_text() != "own":
        raise OSError(f"what is written in {namespaces.TEMPORARY} goes elsewhere")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(role: str, *arguments: str) -> None:
    """Be one of the two processes of a trial."""
    if role == "owner":
        share_buffer(*arguments)
        return
    number, scratch, outside, device, handle = arguments
    rung = Rung(int(number))
    hidden = [Path(os.path.realpath(outside), HIDDEN)]
    folder = Path(scratch)
    rungs.restrict_self(rung, writable=[folder], temporary=folder / TEMPORARY, hidden=hidden, allow_exec=False)
    check_walls(rung, Path(scratch), Path(outside))
    if backend(device).has_own_memory:
        write_buffer(device, handle)
    _say("works")


if __name__ == "__main__":
    main(*sys.argv[1:])
