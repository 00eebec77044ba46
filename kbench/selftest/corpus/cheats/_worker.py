"""What several cheats share: how they find kbench's own objects from inside a call, and forge its clock."""

import ctypes
import gc
import sys
from pathlib import Path

import torch


def request():
    frame = sys._getframe()
    while frame is not None:
        owner, message = frame.f_locals.get("self"), frame.f_locals.get("message")
        if hasattr(owner, "_queue") and isinstance(message, dict) and message.get("op") == "round":
            return owner, message
        frame = frame.f_back
    return None, {}


def worker_with_queue():
    frame = sys._getframe()
    while frame is not None:
        owner = frame.f_locals.get("self")
        if hasattr(owner, "_channel") and hasattr(owner, "_queue"):
            return owner
        frame = frame.f_back
    return None


def worker_with_buffers():
    frame = sys._getframe()
    while frame is not None:
        owner = frame.f_locals.get("self")
        if hasattr(owner, "_outputs") and hasattr(owner, "_inputs"):
            return owner
        frame = frame.f_back
    return None


def is_told():
    frame = sys._getframe()
    while frame is not None:
        message = frame.f_locals.get("message")
        if isinstance(message, dict) and "kept" in message:
            return message["kept"]
        frame = frame.f_back
    return False


def page():
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "memfd:kbench-gate" in line:
            return (ctypes.c_uint32 * 1024).from_address(int(line.split("-")[0], 16))
    return None


def forge(share):
    """Below torch, and below kbench's own functions: in the table of the driver's functions."""
    for thing in gc.get_objects():
        table = thing if type(thing) is dict else None
        if table is None or "cuEventElapsedTime" not in table or hasattr(table["cuEventElapsedTime"], "__wrapped__"):
            continue

        def elapsed(out, start, end, honest=table["cuEventElapsedTime"]):
            code = honest(out, start, end)
            out._obj.value *= share
            return code

        elapsed.__wrapped__ = True
        table["cuEventElapsedTime"] = elapsed


def spins(queue):
    honest, side = queue.read, torch.cuda.Stream()

    def read(calls):
        honest(calls)
        with torch.cuda.stream(side):
            torch.cuda._sleep(100_000_000)  # some 50 ms

    queue.read = read
