"""Backends by kind of device. Other rooms ask a backend, and never which kind of device it is."""

from typing import TYPE_CHECKING, Any

from kbench.devices.cpu import Cpu
from kbench.devices.cuda import Cuda
from kbench.devices.interface import Backend, SharedMemory

if TYPE_CHECKING:
    from torch import Tensor


BACKENDS: dict[str, Backend] = {"cuda": Cuda(), "cpu": Cpu()}


def backend(device: str) -> Backend:
    """Return the backend of a device: `cpu`, `cuda`, `cuda:1`."""
    return BACKENDS[device.partition(":")[0]]


def backend_of(tensor: "Tensor") -> Backend:
    """Return the backend of the device that a tensor lies on; a tensor without memory (`meta`) counts as the host's."""
    return BACKENDS.get(tensor.device.type, BACKENDS["cpu"])


def attach(descriptor: dict[str, Any], fd: int | None) -> SharedMemory:
    """Map memory that another process allocated, on whatever device."""
    return BACKENDS[descriptor["kind"]].attach(descriptor, fd)


def is_timed_by_host(device: str) -> bool:
    """Return whether a row's device has only the host's clock. Rows of files may name devices that are unknown here."""
    return device == Cpu.kind
