"""Errors of CUDA's driver, with functions that stand in for its own."""

import pytest

from kbench.core.model import Status
from kbench.devices.cuda_driver import Driver, DriverError
from kbench.process.child_error import classify

TEXTS = {
    700: b"an illegal memory access was encountered",
    716: b"misaligned address",
    719: b"unspecified launch failure",
}


def failing(code: int) -> Driver:
    def text_of(asked: int, found) -> int:
        found._obj.value = TEXTS.get(asked)
        return 0

    driver = Driver.__new__(Driver)
    driver._functions = {"cuCtxSynchronize": lambda: code, "cuGetErrorString": text_of}
    return driver


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (700, Status.ILLEGAL_ACCESS),
        (716, Status.ILLEGAL_ACCESS),
        (719, Status.LAUNCH_FAILED),
        (12345, Status.LAUNCH_FAILED),
    ],
)
def test_a_fault_of_the_device_is_told_whoever_meets_it_first(code: int, status: Status) -> None:
    with pytest.raises(DriverError) as raised:
        failing(code).synchronise()
    assert classify("forward", "DriverError", str(raised.value)) is status


def test_no_room_is_no_fault() -> None:
    with pytest.raises(MemoryError):
        failing(2).synchronise()
