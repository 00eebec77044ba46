"""The memory of another process, as it is while that is stopped. Standard library only.

The kernel lets a process read those below it, and those in a user namespace of its own (process_vm_readv(2)); some
containers forbid it altogether.
"""

import contextlib
import ctypes
from pathlib import Path

from kbench.sandbox import libc
from kbench.sandbox.process_table import members


class _Piece(ctypes.Structure):
    """Address and length of some bytes (`struct iovec`)."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def read_into(target: int, pid: int, address: int, nbytes: int) -> None:
    """Copy bytes of a process to this one's address `target`.

    Raises OSError: EPERM or ENOSYS where that is forbidden, EFAULT where nothing that can be read lies there.
    """
    done = 0
    while done < nbytes:  # a call copies 2 GB at most
        mine, theirs = _Piece(target + done, nbytes - done), _Piece(address + done, nbytes - done)
        one = ctypes.c_ulong(1)
        done += libc.call(
            "process_vm_readv", pid, ctypes.byref(mine), one, ctypes.byref(theirs), one, ctypes.c_ulong(0)
        )


def find_in_tree(pid: int, inner_pid: int) -> int | None:
    """Return the process of the tree of `pid` whose pid in the innermost PID namespace is `inner_pid`."""
    for process in members(pid):
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            numbers = next((line.split()[1:] for line in lines if line.startswith("NSpid:")), [str(process.pid)])
            if numbers[-1] == str(inner_pid):
                return process.pid
    return None
