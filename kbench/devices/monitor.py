"""Disturbances of a device while it is measured: clocks, heat, and other processes."""

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from kbench.devices import nvml
from kbench.devices.backend import backend
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
        self._gpu: Any = None
        self._clocks_mhz: list[int] = []

    def __enter__(self) -> Self:
        if backend(self._kind).has_own_memory:
            self._gpu = nvml.handle(self._uuid or backend(self._kind).identify().gpu_uuid)
        return self

    def __exit__(self, *_: object) -> None:
        self._gpu = None

    def read(self) -> DeviceReading:
        """Take a reading, which takes about 0.1 ms on a GPU."""
        if self._gpu is None:
            return DeviceReading()
        reading = DeviceReading(
            sm_clock_mhz=nvml.ask("nvmlDeviceGetClockInfo", self._gpu, of="NVML_CLOCK_SM"),
            power_mw=nvml.ask("nvmlDeviceGetPowerUsage", self._gpu),
            temperature_c=nvml.ask("nvmlDeviceGetTemperature", self._gpu, of="NVML_TEMPERATURE_GPU"),
            throttle_reasons=nvml.ask("nvmlDeviceGetCurrentClocksThrottleReasons", self._gpu),
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
    gpu = nvml.handle(device.uuid)
    running = None if gpu is None else nvml.ask("nvmlDeviceGetComputeRunningProcesses", gpu)
    if running is None:
        return None
    names = ((process.pid, nvml.ask("nvmlSystemGetProcessName", process.pid)) for process in running)
    return tuple(f"{pid} {Path(_text(name)).name or 'unknown'}" for pid, name in names)


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")
