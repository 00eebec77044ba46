"""Lock a GPU's SM clock for as long as a run measures. Only ever because somebody asked for it."""

import contextlib
from collections.abc import Iterator
from typing import Any

from kbench.core.errors import MachineError, UsageError
from kbench.devices.backend import backend
from kbench.devices.nvml import NvmlDevice
from kbench.devices.selection import DeviceChoice


@contextlib.contextmanager
def locked(device: DeviceChoice, mhz: int) -> Iterator[None]:
    """Hold the SM clock at `mhz` for the length of a `with` block, and give it back however that ends.

    A lock that was there before is lost: NVML does not tell it. Raises UsageError on a CPU, or for a clock that this
    GPU does not have, and MachineError where NVML refuses, or does not take the lock back.
    """
    if not backend(device.kind).has_own_memory:
        raise UsageError("`--lock-clocks` is for GPUs", "leave it out")
    gpu = NvmlDevice(device.uuid)
    held = True  # from before the lock is taken: an interrupt in between must not leave it behind
    try:
        try:
            gpu.call("nvmlDeviceSetGpuLockedClocks", mhz, mhz)
        except gpu.nvml.NVMLError as error:
            held = False
            raise _refused(gpu.nvml, error, device, mhz) from error
        yield
    finally:
        if held:
            _reset(gpu, device)


def _refused(nvml: Any, error: Exception, device: DeviceChoice, mhz: int) -> UsageError | MachineError:
    if isinstance(error, nvml.NVMLError_InvalidArgument):
        known = f"nvidia-smi -i {device.uuid} --query-supported-clocks=graphics --format=csv"
        return UsageError(f"{device.name} has no SM clock of {mhz} MHz", f"`{known}` lists them")
    return MachineError(
        f"the clocks of {device.name} cannot be locked: {error}", "run kbench as root, or leave out `--lock-clocks`"
    )


def _reset(gpu: NvmlDevice, device: DeviceChoice) -> None:
    try:
        gpu.call("nvmlDeviceResetGpuLockedClocks")
    except gpu.nvml.NVMLError as error:
        raise MachineError(
            f"the clocks of {device.name} may still be locked: {error}",
            f"sudo nvidia-smi -i {device.uuid} --reset-gpu-clocks",
        ) from error
