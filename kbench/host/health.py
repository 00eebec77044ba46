"""Health of a device: a small process, `python -m kbench.host.health DEVICE`, computes there."""

import contextlib
import subprocess
import sys
from collections.abc import Sequence
from enum import StrEnum

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


class ProbeAnswer(StrEnum):
    """Result of a fresh process that allocates memory on the device, fills it by a kernel and reads it back."""

    RIGHT = "right"
    WRONG = "wrong"
    FAILED = "failed"
    """CUDA returned an error, or the process died."""
    SILENT = "silent"
    FULL = "full"
    """No memory was left; this says nothing about the device."""


UNFIT = {
    ProbeAnswer.WRONG: "a kernel of one line computed a wrong result",
    ProbeAnswer.FAILED: "a fresh process could not use it",
    ProbeAnswer.SILENT: "a fresh process got no answer from it",
}
"""Answers after which a device must not be used, in words."""


def examine(device: DeviceChoice) -> str | None:
    """Probe a device; return why it must not be used, or None."""
    answer, detail = probe(device)
    if answer not in UNFIT:
        return None
    return f"{UNFIT[answer]}: {detail}" if detail else UNFIT[answer]


def probe(device: DeviceChoice) -> tuple[ProbeAnswer, str]:
    """Have a fresh process compute on the device. A CPU needs no probe."""
    if not backend(device.kind).has_own_memory:
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
