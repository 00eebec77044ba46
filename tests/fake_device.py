"""A device that is none: allocations of workers by their number, and events that are equally far apart."""

import base64
import contextlib
import ctypes
from collections.abc import Iterator

import pytest
import torch

from kbench.devices.cuda_driver import IPC_HANDLE_BYTES, DriverError
from kbench.judge.clock import mapped_results

MEMORY: dict[int, torch.Tensor] = {}
"""Allocations of workers by their number; in place of a device's."""


def handle(number: int) -> str:
    return base64.b64encode(number.to_bytes(IPC_HANDLE_BYTES, "little")).decode()


class Driver:
    """Maps an allocation by the number in its handle."""

    def open(self, raw: bytes) -> int:
        number = int.from_bytes(raw, "little")
        if number not in MEMORY:
            raise DriverError("cuIpcOpenMemHandle_v2", 1)
        return number

    def range_of(self, pointer: int) -> tuple[int, int]:
        return pointer, MEMORY[pointer].numel()

    def unmap(self, pointer: int) -> None:
        pass

    def synchronise(self) -> None:
        pass


ON_DEVICE_MS = 0.125


class Event:
    """Says that any two events are so far apart."""

    def __init__(self, *, enable_timing: bool):
        assert enable_timing

    def record(self) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, _end: "Event") -> float:
        return ON_DEVICE_MS


def from_address(pointer: int, nbytes: int) -> torch.Tensor:
    """Return memory of this process as a tensor of bytes, whether it is all there or not."""
    return torch.frombuffer((ctypes.c_uint8 * nbytes).from_address(pointer), dtype=torch.uint8)


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Let the judge map allocations of this process, and wait for nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mapped_results, "Driver", Driver)
        patch.setattr(mapped_results, "wrap", lambda at, size: MEMORY[at] if at in MEMORY else from_address(at, size))
        patch.setattr(mapped_results, "recorded", lambda work: work)
        patch.setattr(torch.cuda, "synchronize", lambda: None)
        patch.setattr(torch.cuda, "Event", Event)
        patch.setattr(torch.cuda, "_sleep", lambda _cycles: None)
        MEMORY[1], MEMORY[2] = (torch.zeros(1 << 16, dtype=torch.uint8) for _ in range(2))
        yield
        MEMORY.clear()
