"""A process that has imported torch and forks: each worker of a judge is a fork of it.

Importing torch costs a second and a half of a processor; a judge pays it once, not once for each solution. A nursery
is started before its judge knows any problem, with a worker's environment. It holds what an interpreter holds that has
imported torch, runs nothing of a solution, and learns of a worker where it lives and how far to lock it in. So what a
fork inherits is no secret, and the same for all.
"""

import gc
import os
import select
import signal
import socket
import sys
import traceback
import warnings
from dataclasses import dataclass

from kbench.isolation import sandbox, tree, worker
from kbench.isolation.wire import Channel, Message, PeerGoneError

BIRTH_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """What a fork finds when it wakes: the judge's message, and the two descriptors that are its own."""

    message: Message
    output: int
    link: int

    def live(self) -> None:
        """Become a worker, below a supervisor where the rung wants one. Does not return."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # As after exec. A process that is not dumpable cannot set up a user namespace.
        tree.prctl(tree.PR_SET_DUMPABLE, 1)
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(self.output, 1)
        os.dup2(self.output, 2)
        tree.close_descriptors(keep={self.link})
        os.chdir(self.message["folder"])
        os.environ.clear()
        os.environ.update(self.message["environment"])
        mode = sandbox.supervision(sandbox.Rung(self.message["rung"]))
        if mode is None:
            self._work()
        else:
            tree.supervise(mode, self._work)

    def _work(self) -> None:
        tree.close_descriptors(keep={self.link})  # the supervisor's
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_IGN)  # as an interpreter starts
        code = 1
        try:
            worker.serve(self.link)
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        except BaseException:  # noqa: BLE001 - the end of a process, as the interpreter would have ended it
            traceback.print_exc()
        finally:
            os._exit(code)


def serve(channel: Channel) -> Birth | None:
    """Fork for each message until the judge hangs up; None then, and in each fork its Birth.

    Three descriptors come with a message: the worker's output, its link to the judge, and a pipe that is told the
    fork's pid and, when it has ended, its exit code, a line each.
    """
    told: dict[int, int] = {}
    wakeup, _ = tree.wake_on_child_exit()
    poll = select.poll()
    poll.register(wakeup, select.POLLIN)
    poll.register(channel.fileno(), select.POLLIN)
    while True:
        for pid, status in tree.ended():
            _tell(told.pop(pid), os.waitstatus_to_exitcode(status), last=True)
        ready = {descriptor for descriptor, _ in poll.poll()}
        if wakeup in ready:
            os.read(wakeup, 4096)
        if channel.fileno() not in ready:
            continue
        try:
            message, (output, link, pipe) = channel.receive_with_fds(BIRTH_TIMEOUT_S)
        except PeerGoneError:
            return None
        pid = os.fork()
        if pid == 0:
            return Birth(message=message, output=output, link=link)
        told[pid] = pipe
        _tell(pipe, pid, last=False)
        os.close(output)
        os.close(link)


def _tell(pipe: int, number: int, *, last: bool) -> None:
    try:
        os.write(pipe, f"{number}\n".encode())
    except BrokenPipeError:  # the judge has lost interest
        pass
    finally:
        if last:
            os.close(pipe)


def main() -> None:
    """Serve on the socket whose descriptor is the first argument."""
    sandbox.harden_judge()
    import torch  # noqa: F401

    # Threads of numpy's BLAS, which stops them before a fork. Nothing here has ever computed.
    warnings.filterwarnings("ignore", message=".*multi-threaded", category=DeprecationWarning)
    gc.freeze()
    birth = serve(Channel(socket.socket(fileno=int(sys.argv[1]))))
    if birth is not None:
        birth.live()


if __name__ == "__main__":
    main()
