"""Health of a device: a small process, `python -m kbench.host.health DEVICE`, computes there; NVML reports errors."""

import contextlib
import subprocess
import sys
from collections.abc import Sequence

from kbench.build import interpreter
from kbench.core.health import ProbeAnswer, Vitals, diagnose
from kbench.devices.backend import backend
from kbench.devices.cuda_driver import DriverError
from kbench.devices.nvml import NvmlDevice
from kbench.devices.selection import DeviceChoice
from kbench.sandbox import rung_probe

PROBE_LIMIT_S = 30.0


def examine(device: DeviceChoice, before: Vitals | None = None) -> str | None:
    """Probe a device; return why it must not be used, or None. Without `before`, only its present state counts."""
    answer, detail = probe(device)
    now = vitals(device)
    return diagnose(answer, detail, now if before is None else before, now)


def probe(device: DeviceChoice) -> tuple[ProbeAnswer, str]:
    """Have a fresh process compute on the device. A CPU needs no probe."""
    if not backend(device.kind).can_break:
        return ProbeAnswer.RIGHT, ""
    environment = {**interpreter.child_environment(), **device.environment}
    return ask([sys.executable, "-P", "-m", __name__, device.kind], environment, PROBE_LIMIT_S)


def ask(command: Sequence[str], environment: dict[str, str], limit_s: float) -> tuple[ProbeAnswer, str]:
    """Run a probe, read its last line; one that hangs in the driver and survives SIGKILL is left behind: SILENT."""
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5.0)
        return ProbeAnswer.SILENT, f"nothing within {limit_s:.0f} s"
    lines = output.strip().splitlines()
    word, _, detail = (lines[-1] if lines else "").partition(":")
    if process.returncode == 0 and word in {*ProbeAnswer}:
        return ProbeAnswer(word), detail.strip()[:200]
    return ProbeAnswer.FAILED, (lines[-1] if lines else f"exit code {process.returncode}")[-200:]


def vitals(device: DeviceChoice) -> Vitals:
    """Read ECC errors, row remapping and the driver's recovery advice through NVML, as far as available."""
    gpu = NvmlDevice.find(device.uuid) if backend(device.kind).can_break else None
    if gpu is None:
        return Vitals()
    nvml, known = gpu.nvml, gpu.ask
    errors = known("nvmlDeviceGetTotalEccErrors", nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC)
    rows = known("nvmlDeviceGetRemappedRows")
    return Vitals(
        uncorrected_errors=errors,
        remap_pending=bool(rows[2]) if rows is not None else None,
        remap_failed=bool(rows[3]) if rows is not None else None,
        recovery=_recovery(gpu),
    )


def _recovery(gpu: NvmlDevice) -> str | None:
    """Return the recovery action that the driver asks for; drivers before 570 report none."""
    nvml = gpu.nvml
    field = getattr(nvml, "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", None)
    values = gpu.ask("nvmlDeviceGetFieldValues", [field]) if field is not None else None
    if not values or values[0].nvmlReturn != nvml.NVML_SUCCESS:
        return None
    action = int(values[0].value.uiVal)
    prefix = "NVML_GPU_RECOVERY_ACTION_"
    names = {getattr(nvml, name): name.removeprefix(prefix).lower() for name in dir(nvml) if name.startswith(prefix)}
    return "" if action == 0 else names.get(action, f"recovery action {action}")


def compute(device: str) -> tuple[ProbeAnswer, str]:
    """Allocate, fill by a kernel, read back; in this process."""
    try:
        driver = rung_probe.driver_of(device)
        buffer = driver.allocate(4 * rung_probe.WORDS)
        driver.clear(buffer, rung_probe.WORDS)
        rung_probe.write_pattern(driver, buffer)
        words = driver.read(buffer, rung_probe.WORDS)
    except MemoryError as error:
        return ProbeAnswer.FULL, str(error)
    except (OSError, DriverError) as error:
        return ProbeAnswer.FAILED, str(error)
    return (ProbeAnswer.RIGHT, "") if rung_probe.holds_pattern(words) else (ProbeAnswer.WRONG, f"holds {words[:4]}")


if __name__ == "__main__":
    sys.stdout.write("{}: {}\n".format(*compute(sys.argv[1])))
