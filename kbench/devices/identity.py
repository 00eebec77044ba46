"""The device under test: who it is, and whether it is disturbed.

NVML answers without privileges and without torch. Only `identify` and `DeviceMonitor` need torch; they run in
the judge, which sees one device.
"""

import os
import platform
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from kbench.core.model import Environment
from kbench.devices import selection
from kbench.devices.selection import DeviceChoice

SLOWED_DOWN = 0x4 | 0x8 | 0x20 | 0x40 | 0x80
"""NVML's reasons that mean less speed than asked for: power cap, hardware slowdown, heat, power brake."""
CLOCK_OFF_BY = 0.015
READINGS_BEFORE_JUDGING = 8


def identify(kind: str) -> Environment:
    """Describe the device that torch sees first, and the software around it. Imports torch."""
    import torch

    if kind == "cpu":
        processor = selection.cpu()
        return Environment(
            device="cpu",
            gpu_name=processor.name,
            gpu_uuid=processor.uuid,
            driver=platform.release(),
            cuda="",
            torch=torch.__version__,
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        )
    properties = torch.cuda.get_device_properties(0)
    return Environment(
        device="cuda",
        gpu_name=properties.name,
        gpu_uuid=f"GPU-{properties.uuid}",
        driver=_driver_version(),
        cuda=torch.version.cuda or "",
        torch=torch.__version__,
        l2_bytes=properties.L2_cache_size,
        memory_bytes=properties.total_memory,
        capability=f"{properties.major}.{properties.minor}",
    )


def _driver_version() -> str:
    import pynvml

    try:
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReading:
    """The device's state at one moment; None where the device does not tell."""

    sm_clock_mhz: int | None = None
    power_mw: int | None = None
    temperature_c: int | None = None
    throttle_reasons: int | None = None
    """Bits of NVML's nvmlClocksEventReasons."""


class DeviceMonitor:
    """Reads a device's clocks, power, temperature and throttle reasons; on a CPU every reading is empty.

    To be used in a `with` statement: `read` before and after a piece of work, then ask `disturbed`.
    """

    def __init__(self, kind: str, uuid: str | None = None):
        """Watch the GPU `uuid`, or the first that torch sees."""
        self._kind = kind
        self._uuid = uuid
        self._handle: Any = None
        self._clocks_mhz: list[int] = []

    def __enter__(self) -> Self:
        if self._kind == "cuda":
            self._handle = _open(self._uuid or _first_visible())
        return self

    def __exit__(self, *_: object) -> None:
        self._handle = None

    def read(self) -> DeviceReading:
        """Take a reading; some 0.1 ms on a GPU."""
        if self._handle is None:
            return DeviceReading()
        import pynvml as nvml

        reading = DeviceReading(
            sm_clock_mhz=_ask(nvml.nvmlDeviceGetClockInfo, self._handle, nvml.NVML_CLOCK_SM),
            power_mw=_ask(nvml.nvmlDeviceGetPowerUsage, self._handle),
            temperature_c=_ask(nvml.nvmlDeviceGetTemperature, self._handle, nvml.NVML_TEMPERATURE_GPU),
            throttle_reasons=_ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, self._handle),
        )
        if reading.sm_clock_mhz is not None:
            self._clocks_mhz.append(reading.sm_clock_mhz)
        return reading

    def disturbed(self, before: DeviceReading, after: DeviceReading) -> bool:
        """Say whether what ran between two readings was slowed down.

        By a reason that NVML names, or by an SM clock 1.5 % below the median of all readings so far.
        """
        if any((reading.throttle_reasons or 0) & SLOWED_DOWN for reading in (before, after)):
            return True
        if after.sm_clock_mhz is None or len(self._clocks_mhz) < READINGS_BEFORE_JUDGING:
            return False
        return after.sm_clock_mhz < (1 - CLOCK_OFF_BY) * statistics.median(self._clocks_mhz)


def foreign_processes(device: DeviceChoice) -> tuple[str, ...] | None:
    """Name the processes that compute on a GPU, as `PID NAME`; None where the device does not tell.

    To be asked while this run has none of its own there: in a container their numbers mean nothing here.
    """
    if device.kind != "cuda":
        return ()
    import pynvml as nvml

    try:
        running = nvml.nvmlDeviceGetComputeRunningProcesses(_open(device.uuid))
    except nvml.NVMLError:
        return None
    names = ((process.pid, _ask(nvml.nvmlSystemGetProcessName, process.pid)) for process in running)
    return tuple(f"{pid} {Path(_text(name)).name or 'unknown'}" for pid, name in names)


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")


def _first_visible() -> str:
    import torch

    return f"GPU-{torch.cuda.get_device_properties(0).uuid}"


def _open(uuid: str) -> Any:
    """Return NVML's handle of a GPU. Raises NVMLError."""
    import pynvml

    pynvml.nvmlInit()
    return pynvml.nvmlDeviceGetHandleByUUID(uuid)


def _ask(question: Any, *arguments: Any) -> Any:
    """Call NVML; None where this device or driver has no answer."""
    import pynvml

    try:
        return question(*arguments)
    except pynvml.NVMLError:
        return None
