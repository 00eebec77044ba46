"""The steps between kbench and a worker below a tool of NVIDIA: compute-sanitizer or `ncu`.

Each step enters its sandbox, then executes the next program. `front` becomes the tool. The tool starts `lock` with its
libraries injected, and `lock` becomes `work`, the worker. The exec ends threads that the libraries have started, so
that every thread of the worker is in the sandbox. docs/adr/0020-isolation-rungs.md has the reasons for three steps.
"""

import json
import os
import socket
import sys

from kbench.process.channel import Channel
from kbench.process.child import TOOL_ORDERS
from kbench.sandbox import rungs
from kbench.worker.main import Worker


def main(descriptor: str, step: str = "front") -> None:
    """Take one step, on the channel with the given descriptor; the first two never return. Raises OSError."""
    orders = json.loads(os.environ[TOOL_ORDERS])
    again = [sys.executable, "-P", "-m", "kbench.worker.under_tool", descriptor]
    if step == "front":
        rungs.restrict_tool(rungs.Rung(orders["rung"]))
        _become([*orders["command"], *again, "lock"])
    elif step == "lock":
        rungs.restrict_as_ordered(orders, then_exec=True)
        _become([*again, "work"])
    Worker(Channel(socket.socket(fileno=int(descriptor)))).serve()


def _become(command: list[str]) -> None:
    os.execv(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main(*sys.argv[1:])
