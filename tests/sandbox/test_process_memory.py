"""Reading the memory of another process, in the tree of this one and with whatever number it calls itself."""

import ctypes
import os
import signal

import pytest

from kbench.sandbox.process_table import find_in_tree, read_into

TEXT = b"what a stopped process holds"


def test_reads_what_another_process_holds() -> None:
    reader, writer = os.pipe()
    held = ctypes.create_string_buffer(len(TEXT))
    pid = os.fork()
    if pid == 0:
        held.raw = TEXT
        os.write(writer, b".")
        signal.pause()
    try:
        os.read(reader, 1)
        os.kill(pid, signal.SIGSTOP)
        copy = ctypes.create_string_buffer(len(TEXT))
        read_into(ctypes.addressof(copy), pid, ctypes.addressof(held), len(TEXT))
        assert (copy.raw, held.raw) == (TEXT, bytes(len(TEXT)))
        with pytest.raises(OSError, match="process_vm_readv: Bad address"):
            read_into(ctypes.addressof(copy), pid, 4096, len(TEXT))
        assert find_in_tree(os.getpid(), pid) == pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reader)
        os.close(writer)


def test_a_process_outside_of_the_tree_is_not_found() -> None:
    assert find_in_tree(os.getpid(), os.getpid()) == os.getpid()
    assert find_in_tree(os.getpid(), 1 << 30) is None
    assert find_in_tree(1, os.getppid()) is None
