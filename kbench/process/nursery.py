"""A process that has imported torch and forks: judges, builders and each worker of a judge are forks of one.

Importing torch costs two seconds of a processor; a run pays it once. A nursery starts before anything of a problem is
known, with a worker's environment, and runs nothing of a solution. It knows a worker's folder and rung, and nothing of
a judge. So a fork inherits no secret, and every fork inherits the same.

A judge's first act is to fork a nursery of its own for its workers, which end with it. Only then it hears, on a channel
that it alone holds, of its environment and its run.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import os
import select
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from kbench.process.channel import Channel, Message, PeerGoneError
from kbench.process.child import JUDGE, WORKER, Child, Launch
from kbench.process.forked import BIRTH_TIMEOUT_S, Fork
from kbench.sandbox import process_tree, rungs
from kbench.sandbox.namespaces import Surroundings

EXTENSION_MODULES = ("setuptools", "torch.utils.cpp_extension")
"""Modules that a worker imports to load extensions, which takes 0.2 s. The nursery of a judge imports them after the
first fork, which need not wait for them."""
COMPILER, MANY_FORKS = ("torch._dynamo",), 4
"""A module that torch imports in a judge's first call without memory, for seconds; and the number of forks after which
the nursery of a sweep imports it for all later judges."""
REAP_INTERVAL_MS = 100
"""Poll interval on kernels that cannot watch a process (before Linux 5.3)."""


def become(message: Message, output: int, link: int, nursery: int) -> None:
    """Become the judge or worker of an order, with the descriptors that are its own; `nursery` is the parent's pid."""
    detach(output, link)
    if message["module"] == JUDGE:
        begin(lambda: judge(link, nursery))
    # A process that is not dumpable cannot set up a user namespace; after exec it would be dumpable, too.
    process_tree.prctl(process_tree.PR_SET_DUMPABLE, 1)
    settle(message)

    def work() -> None:
        process_tree.close_descriptors(keep={link})  # the supervisor's
        begin(lambda: importlib.import_module(WORKER).serve(link))

    mode = rungs.supervision(rungs.Rung(message["rung"]))
    if mode is None:
        process_tree.die_with(nursery)
        work()
    else:
        process_tree.supervise(mode, work, Surroundings.from_json(message["surroundings"]), nursery)


def judge(link: int, nursery: int) -> None:
    """Fork a nursery while there is nothing to know; then hear of the run, and serve the parent."""
    process_tree.die_with(nursery)
    own = fork_nursery()
    channel = Channel(socket.socket(fileno=link))
    with contextlib.suppress(PeerGoneError):
        message = channel.receive()
        settle(message)
        importlib.import_module(JUDGE).serve(channel, message["config"], own)


def begin(serve: Callable[[], None]) -> NoReturn:
    """Serve; begin and end as an interpreter does."""
    import torch

    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    torch.default_generator.seed()
    code = 1
    try:
        serve()
        code = 0
    except SystemExit as error:
        code = exit_code(error)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:  # noqa: BLE001 - the last line of a process
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            atexit._run_exitfuncs()  # noqa: SLF001 - os._exit leaves them out, and what they say belongs to the log
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def detach(output: int, *links: int) -> None:
    """Lead a new session, with nothing of the nursery's but an output and the links."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    process_tree.close_descriptors(keep={*links})


def settle(message: Message) -> None:
    """Live in a folder and an environment as if this process had been started there."""
    os.chdir(message["folder"])
    os.environ.clear()
    os.environ.update(message["environment"])
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))


def fork_nursery() -> Child:
    """Fork a nursery of this process's own, which must not know anything yet."""
    ours, theirs = socket.socketpair()
    reader, output = os.pipe()
    reports, writer = os.pipe()
    judge = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            process_tree.die_with(judge)
            ours.close()
            detach(output, theirs.fileno(), writer)  # the writer closes with this process: it has ended then
            serve(Channel(theirs), lambda: import_ahead(EXTENSION_MODULES))()
        except BaseException:  # noqa: BLE001 - the last line of a process
            traceback.print_exc()
        finally:
            os._exit(0)
    _report(writer, pid)
    os.close(writer)
    os.close(output)
    theirs.close()
    launch = Launch(module=__name__, environment={}, folder=Path("/"), rung=rungs.Rung.NONE)
    return Child(launch, begun=(Fork(reports, reader), ours))


def exit_code(error: SystemExit) -> int:
    """Return the exit code of `SystemExit`; a code that is not a number is a message, and gives 1."""
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    sys.stderr.write(f"{error.code}\n")
    return 1


def serve(channel: Channel, then: Callable[[], None], after: int = 1) -> Callable[[], None]:
    """Fork for each message until the peer hangs up. Return what is left to do: nothing, and in each fork to `become`.

    Three descriptors come with a message: the fork's output, its link to the peer, and a pipe for the fork's pid and,
    when it has ended, its exit code, a line each. `then` is called once, `after` so many forks.
    """
    pipes: dict[int, int] = {}
    watches: dict[int, int | None] = {}
    poll = select.poll()
    poll.register(channel.fileno(), select.POLLIN)
    while True:
        for pid in [*pipes]:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                _report(pipes[pid], os.waitstatus_to_exitcode(status))
                os.close(pipes.pop(pid))
                if (watch := watches.pop(pid)) is not None:
                    poll.unregister(watch)
                    os.close(watch)
        # Not by SIGCHLD, which also comes when a worker is stopped: the reference is timed then.
        timeout_ms = REAP_INTERVAL_MS if None in watches.values() else None
        if channel.fileno() not in {descriptor for descriptor, _ in poll.poll(timeout_ms)}:
            continue
        try:
            fds: list[int] = []
            message = channel.receive(BIRTH_TIMEOUT_S, fds)
            output, link, pipe = fds
        except PeerGoneError:
            return lambda: None
        with contextlib.suppress(OSError):  # no room for a process now: the pipe closes without a pid
            own, pid = os.getpid(), os.fork()
            if pid == 0:
                return functools.partial(become, message, output, link, own)
            pipes[pid], watches[pid] = os.dup(pipe), process_tree.watch(pid)
            if (watch := watches[pid]) is not None:
                poll.register(watch, select.POLLIN)
            _report(pipe, pid)
        for descriptor in (output, link, pipe):
            os.close(descriptor)
        after -= 1
        if after == 0:
            then()


def _report(pipe: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody reads it any more
        os.write(pipe, f"{number}\n".encode())


def import_ahead(names: Sequence[str]) -> None:
    """Import modules for later forks; an error shows where one is used. A look for a GPU is answered without one."""
    import torch

    looks = torch.cuda.is_available
    torch.cuda.is_available = lambda: any(Path("/dev").glob("nvidia[0-9]*"))
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    torch.cuda.is_available = looks


def main() -> None:
    """Serve on the socket whose descriptor is the argument."""
    rungs.harden_judge()
    gc.disable()  # imported modules stay
    importlib.import_module(WORKER)  # by name: this room knows neither judges nor workers
    import torch  # noqa: F401

    # Threads of numpy's BLAS, which stops them before a fork. Nothing here has ever computed.
    warnings.filterwarnings("ignore", message=".*multi-threaded", category=DeprecationWarning)
    gc.freeze()
    gc.enable()
    serve(Channel(socket.socket(fileno=int(sys.argv[1]))), lambda: import_ahead(COMPILER), MANY_FORKS)()


if __name__ == "__main__":
    main()
