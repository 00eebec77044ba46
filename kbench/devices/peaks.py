"""Peaks of one device, measured on it: `python -m kbench.devices.peaks cuda|cpu` prints JSON.

Each peak is the best of several repetitions. Bandwidth: bytes read plus written by a large copy. FP32, TF32 and BF16:
the library's product of 8192 x 8192 matrices of random data. On a CPU: torch's copy and FP32 matrix product with all
threads.
"""

import dataclasses
import datetime
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from kbench.build import interpreter
from kbench.core.errors import MachineError
from kbench.core.model import Peaks
from kbench.devices import nvml
from kbench.devices.admission import Admission
from kbench.devices.backend import backend
from kbench.devices.selection import DeviceChoice
from kbench.storage import json_values

CACHE_NAME = "peaks.json"
LIMIT_S = 300.0
COPY_BYTES = 4 << 30
HOST_COPY_BYTES = 256 << 20
SIDE, HOST_SIDE = 8192, 2048
REPETITIONS, HOST_REPETITIONS = 20, 6


def load_peaks(device: DeviceChoice, cache_dir: Path) -> Peaks | None:
    """Return the peaks that were measured on this device with this driver, or None."""
    known = json_values.read(cache_dir / CACHE_NAME).get(_key(device))
    try:
        return Peaks(**known) if known is not None else None
    except TypeError:
        return None


def known_or_measured(device: DeviceChoice, cache_dir: Path) -> Peaks | None:
    """Return the peaks of a device; unknown ones of a GPU are measured, alone on it. Raises MachineError."""
    known = load_peaks(device, cache_dir)
    if known is None and backend(device.kind).has_own_memory:
        with Admission(uuid=device.uuid).exclusive():
            known = refresh_peaks(device, cache_dir)
    return known


def refresh_peaks(device: DeviceChoice, cache_dir: Path) -> Peaks:
    """Measure the peaks in a child process (10 s), and save them. The caller holds the lock. Raises MachineError."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", __name__, device.kind],
            env={**interpreter.child_environment(), **device.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=True,
        )
        peaks = Peaks(**json.loads(done.stdout.splitlines()[-1]))
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip() or "no message").splitlines()[-1]
        raise MachineError(f"peaks of {device.name} could not be measured: {last}", "see `kbench doctor`") from error
    except (subprocess.TimeoutExpired, ValueError, TypeError, IndexError) as error:
        raise MachineError(f"peaks of {device.name} could not be measured: {error}", "see `kbench doctor`") from error
    path = cache_dir / CACHE_NAME
    try:
        json_values.write(path, {**json_values.read(path), _key(device): dataclasses.asdict(peaks)})
    except OSError as error:
        hint = "set KBENCH_CACHE to a folder that can be written"
        raise MachineError(f"cannot write {path}: {error.strerror}", hint) from error
    return peaks


def measure_peaks(kind: str) -> Peaks:
    """Measure the peaks of the first device that torch sees. Imports torch; the device must be idle."""
    stamp = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    if kind == "cpu":
        return Peaks(
            copy_bytes_per_s=_copy_rate("cpu", HOST_COPY_BYTES),
            fp32_flops_per_s=_matmul_rate("cpu", "float32", HOST_SIDE),
            measured_utc=stamp,
        )
    import torch

    torch.set_float32_matmul_precision("highest")
    fp32 = _matmul_rate("cuda", "float32", SIDE)
    torch.set_float32_matmul_precision("high")
    has_tensor_formats = torch.cuda.get_device_capability() >= (8, 0)
    free_bytes, _total = torch.cuda.mem_get_info()
    return Peaks(
        copy_bytes_per_s=_copy_rate("cuda", min(COPY_BYTES, free_bytes // 4)),
        fp32_flops_per_s=fp32,
        tf32_flops_per_s=_matmul_rate("cuda", "float32", SIDE) if has_tensor_formats else None,
        bf16_flops_per_s=_matmul_rate("cuda", "bfloat16", SIDE) if has_tensor_formats else None,
        measured_utc=stamp,
    )


def _copy_rate(device: str, nbytes: int) -> float:
    """Return bytes read plus written per second."""
    import torch

    # Random content: a constant costs less power, and power sets the clocks.
    source = torch.rand(nbytes // 4, device=device)
    target = torch.empty_like(source)
    moved = 8 * int(source.numel())
    return moved / _best_s(lambda: target.copy_(source), device)


def _matmul_rate(device: str, dtype: str, side: int) -> float:
    import torch

    a = torch.randn(side, side, device=device, dtype=getattr(torch, dtype))
    b = torch.randn(side, side, device=device, dtype=getattr(torch, dtype))
    product = torch.empty_like(a)
    return 2 * side**3 / _best_s(lambda: torch.matmul(a, b, out=product), device)


def _best_s(act: Callable[[], object], device: str) -> float:
    """Return the time in seconds of the fastest of several repetitions, after two warm-ups."""
    act()
    act()
    timer, repetitions = backend(device).timer("warm"), HOST_REPETITIONS if device == "cpu" else REPETITIONS
    return min(timer.measure(lambda _: act(), 0).t_event_ns for _ in range(repetitions)) / 1e9


def _key(device: DeviceChoice) -> str:
    driver = (nvml.driver_version() or "unknown") if backend(device.kind).has_own_memory else device.kind
    return f"{device.uuid} {driver}"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(dataclasses.asdict(measure_peaks(sys.argv[1]))) + "\n")
