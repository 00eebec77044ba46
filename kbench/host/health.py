"""Health of a device: a small process, `python -m kbench.host.health DEVICE`, computes there."""

import contextlib
import subprocess
import sys
from collections.abc import Sequence

from kbench.build import interpreter
from kbench.core.model import Status
from kbench.devices.backend import backend
from kbench.devices.cuda_driver import DriverError
from kbench.devices.selection import DeviceChoice
from kbench.sandbox import rung_probe

PROBE_LIMIT_S = 30.0
PROBED_AFTER = frozenset(
    {
        *(Status.ILLEGAL_ACCESS, Status.LAUNCH_FAILED, Status.CRASHED, Status.HARNESS_ERROR, Status.REFERENCE_FAILED),
        *(Status.IMPORT_TIMEOUT, Status.CALL_TIMEOUT, Status.TOTAL_TIMEOUT),
    }
)
"""Statuses after which a device may be broken: crashes, hangs, and a failure of the judge."""


def examine(device: DeviceChoice) -> str | None:
    """Have a fresh process compute on a device; return why it must not be used, or None. A CPU needs no probe."""
    if not backend(device.kind).has_own_memory:
        return None
    environment = {**interpreter.child_environment(), **device.environment}
    return ask([sys.executable, "-P", "-m", __name__, device.kind], environment, PROBE_LIMIT_S)


def ask(command: Sequence[str], environment: dict[str, str], limit_s: float) -> str | None:
    """Run a probe; return why it failed. One that hangs in the driver and survives SIGKILL is left behind."""
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
        return f"a fresh process got no answer from it within {limit_s:.0f} s"
    if process.returncode == 0:
        return None
    lines = output.strip().splitlines()
    return f"a fresh process could not use it: {(lines[-1] if lines else f'exit code {process.returncode}')[-200:]}"


def compute(device: str) -> str | None:
    """Allocate, fill by a kernel, read back, in this process; return what is wrong, which full memory is not."""
    try:
        driver = rung_probe.driver_of(device)
        buffer = driver.allocate(4 * rung_probe.WORDS)
        driver.clear(buffer, rung_probe.WORDS)
        rung_probe.write_pattern(driver, buffer)
        words = driver.read(buffer, rung_probe.WORDS)
    except MemoryError:
        return None
    except (OSError, DriverError) as error:
        return str(error)
    return None if rung_probe.holds_pattern(words) else f"a kernel of one line computed a wrong result: {words[:4]}"


if __name__ == "__main__":
    sys.exit(compute(sys.argv[1]))
