"""Disturbances of a device while it is measured: clocks, which can be locked, heat, and other processes."""

import contextlib
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from kbench.core.errors import MachineError, UsageError
from kbench.devices.backend import backend
from kbench.devices.nvml import NvmlDevice, ask
from kbench.devices.selection import DeviceChoice

SLOWED_BY = {
    0x4: "the power cap",
    0x8: "a hardware slowdown",
    0x20: "heat (software)",
    0x40: "heat (hardware)",
    0x80: "the power brake",
}
"""Bits of NVML's reasons that mean a lower speed than requested."""
CLOCK_OFF_BY = 0.015
READINGS_BEFORE_JUDGING = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReading:
    """The device's state at one moment; None where the device does not report it."""

    sm_clock_mhz: int | None = None
    power_mw: int | None = None
    temperature_c: int | None = None
    throttle_reasons: int | None = None
    """Bits of NVML's nvmlClocksEventReasons."""


class DeviceMonitor:
    """Reads a device's clocks, power, temperature and throttle reasons in a `with` block; all are empty on a CPU."""

    def __init__(self, kind: str, uuid: str | None = None):
        self._kind = kind
        self._uuid = uuid
        self._gpu: NvmlDevice | None = None
        self._clocks_mhz: list[int] = []

    def __enter__(self) -> Self:
        if backend(self._kind).has_own_memory:
            self._gpu = NvmlDevice(self._uuid or backend(self._kind).identify().gpu_uuid)
        return self

    def __exit__(self, *_: object) -> None:
        self._gpu = None

    def read(self) -> DeviceReading:
        """Take a reading, which takes about 0.1 ms on a GPU."""
        if self._gpu is None:
            return DeviceReading()
        ask_gpu, nvml = self._gpu.ask, self._gpu.nvml
        reading = DeviceReading(
            sm_clock_mhz=ask_gpu("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
            power_mw=ask_gpu("nvmlDeviceGetPowerUsage"),
            temperature_c=ask_gpu("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            throttle_reasons=ask_gpu("nvmlDeviceGetCurrentClocksThrottleReasons"),
        )
        if reading.sm_clock_mhz is not None:
            self._clocks_mhz.append(reading.sm_clock_mhz)
        return reading

    def disturbed(self, before: DeviceReading, after: DeviceReading) -> bool:
        """Return whether NVML names a reason, or the SM clock is 1.5 % below the median of all readings so far."""
        if any((reading.throttle_reasons or 0) & sum(SLOWED_BY) for reading in (before, after)):
            return True
        if after.sm_clock_mhz is None or len(self._clocks_mhz) < READINGS_BEFORE_JUDGING:
            return False
        return after.sm_clock_mhz < (1 - CLOCK_OFF_BY) * statistics.median(self._clocks_mhz)


def foreign_processes(device: DeviceChoice) -> tuple[str, ...] | None:
    """Return the processes on a GPU as `PID NAME`, while this run has none; None if the device does not report them."""
    if not backend(device.kind).has_own_memory:
        return ()
    gpu = NvmlDevice.find(device.uuid)
    running = None if gpu is None else gpu.ask("nvmlDeviceGetComputeRunningProcesses")
    if running is None:
        return None
    names = ((process.pid, ask("nvmlSystemGetProcessName", process.pid)) for process in running)
    return tuple(f"{pid} {Path(_text(name)).name or 'unknown'}" for pid, name in names)


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")


@contextlib.contextmanager
def locked_clocks(device: DeviceChoice, mhz: int) -> Iterator[None]:
    """Lock the SM clock at `mhz` inside a `with` block; an earlier lock is lost, because NVML does not report it.

    Raises UsageError on a CPU or for an unknown clock, MachineError if NVML refuses to lock or to unlock.
    """
    if not backend(device.kind).has_own_memory:
        raise UsageError("`--lock-clocks` is for GPUs", "leave it out")
    gpu = NvmlDevice(device.uuid)
    held = True  # set before the lock is taken: an interrupt in between must not keep it
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
