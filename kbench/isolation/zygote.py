"""A process that has imported what judges need and forks: each judge is a fork of it, and so is the judge's nursery.

Importing torch and what it computes shapes with takes 3 to 5 s of a processor, a fork a few milliseconds. A zygote
opens no device, loads no problem and is told nothing but where to work. A new judge forks its nursery first, while it
holds no more than its zygote does, and is told its caller's environment and its configuration afterwards, over its own
channel: so workers inherit nothing of the caller, of a problem, or of a judge before. docs/adr/0040-warm-judges.md.
"""

import contextlib
import gc
import importlib
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from kbench.isolation import nursery, sandbox, tree
from kbench.isolation.nursery import Birth
from kbench.isolation.process import Child, Launch
from kbench.isolation.wire import Channel, Message, PeerGoneError
from kbench.isolation.workers import WorkerConfig, worker_environment
from kbench.measure import interpreter

BEGIN_TIMEOUT_S = 60.0
"""Within which a new judge is told its configuration."""
POLL_S = 0.005
AHEAD = ("kbench.isolation.judge", "setuptools")
"""What every judge imports. With setuptools, what `torch.utils.cpp_extension` takes 0.4 s to import, in every worker;
that module itself asks for devices, after which no fork can open one."""
SHAPES = ("torch.utils.flop_counter", "torch.fx.experimental.symbolic_shapes", "torch._dynamo")
"""What a call without memory imports, 1.3 to 3 s of a processor: worth it for a zygote that bears many judges."""


class Branch:
    """A fork of this very process, with as much of Popen's interface as a Child needs."""

    def __init__(self, pid: int, output: int):
        self.pid = pid
        self.stdout: IO[bytes] | None = os.fdopen(output, "rb", buffering=0)
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, or None while it lives; of one that somebody else reaped, that of a kill."""
        if self._code is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = self.pid, int(signal.SIGKILL)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def wait(self, timeout: float) -> int:
        """Return the exit code. Raises subprocess.TimeoutExpired."""
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("nursery", timeout)
            time.sleep(POLL_S)
        return code


def start(scratch: Path, *, many: bool) -> Child:
    """Start a zygote, of one judge or of many. Its environment is a worker's: forks of its forks are workers."""
    environment = {**worker_environment(scratch), **interpreter.bytecode(writes=True)}
    return Child(
        Launch(
            module="kbench.isolation.zygote",
            environment=environment,
            folder=scratch,
            rung=sandbox.Rung.NONE,
            arguments=SHAPES if many else (),
        )
    )


def bear(zygote: Child, environment: Mapping[str, str], config: Message) -> Child:
    """Return a judge that is a fork of the zygote. One that could not be born says so when it is asked something."""
    launch = Launch(module="", environment={}, folder=Path.cwd(), rung=sandbox.Rung.NONE)
    judge = Child(launch, zygote)
    with contextlib.suppress(PeerGoneError):
        judge.channel.send({"environment": dict(environment), "config": config})
    return judge


def live(birth: Birth) -> None:
    """Become a judge. Returns when it has served."""
    os.setsid()
    _redirect(birth.output)
    tree.close_descriptors(keep={birth.link})
    os.chdir(birth.message["folder"])
    launch = Launch(module="", environment={}, folder=Path.cwd(), rung=sandbox.Rung.NONE)
    workers = Child(launch, begin=branch)
    channel = Channel(socket.socket(fileno=birth.link))
    told = channel.receive(BEGIN_TIMEOUT_S)
    os.environ.clear()
    os.environ.update(told["environment"])
    _as_python_begins()
    with contextlib.suppress(OSError):
        sandbox.become_subreaper()
    from kbench.isolation.judge import Judge

    Judge(channel, WorkerConfig(**told["config"]), workers).serve()


def branch(_launch: Launch, link: socket.socket) -> Branch:
    """Fork the nursery of a judge that knows nothing yet."""
    reader, output = os.pipe()
    pid = os.fork()
    if pid:
        os.close(output)
        return Branch(pid, reader)
    code = 1
    try:
        tree.prctl(tree.PR_SET_PDEATHSIG, int(signal.SIGKILL))
        os.setsid()
        _redirect(output)
        tree.close_descriptors(keep={link.fileno()})
        sys.dont_write_bytecode = True  # of forks that import a solution
        birth = nursery.serve(Channel(link))
        if birth is not None:
            birth.live()
        code = 0
    except BaseException:  # noqa: BLE001 - the last line of a process
        traceback.print_exc()
    finally:
        os._exit(code)


def _redirect(output: int) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)


def _as_python_begins() -> None:
    """Set what an interpreter sets when it starts, and draw other random numbers than the judge before."""
    import torch

    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    torch.default_generator.seed()


def main() -> None:
    """Serve on the socket whose descriptor is the first argument; the others are modules to import ahead."""
    sandbox.harden_judge()
    for name in (*AHEAD, *sys.argv[2:]):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    # Threads of numpy's BLAS, which stops them before a fork. Nothing here has ever computed.
    warnings.filterwarnings("ignore", message=".*multi-threaded", category=DeprecationWarning)
    gc.freeze()
    birth = nursery.serve(Channel(socket.socket(fileno=int(sys.argv[1]))))
    if birth is not None:
        live(birth)


if __name__ == "__main__":
    main()
