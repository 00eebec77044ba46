"""Peaks of one device, measured on it: `python -m kbench.devices.peaks cuda|cpu` prints JSON.

Each peak is the best of several repetitions. Bandwidth: bytes read plus written by a large copy. FP32: chains of
independent fused multiply-adds on registers. TF32 and BF16: the library's product of 8192 x 8192 matrices of random
data. On a CPU: torch's copy and FP32 matrix product with all threads.
"""

import dataclasses
import datetime
import json
import subprocess
import sys
from collections.abc import Callable
from ctypes import c_uint64
from pathlib import Path

from kbench.build import interpreter
from kbench.core.errors import MachineError
from kbench.core.model import Peaks
from kbench.devices import nvml
from kbench.devices.admission import Admission
from kbench.devices.backend import backend
from kbench.devices.cuda_driver import Driver
from kbench.devices.selection import DeviceChoice
from kbench.storage import json_values

CACHE_NAME = "peaks.json"
LIMIT_S = 300.0
COPY_BYTES = 4 << 30
HOST_COPY_BYTES = 256 << 20
SIDE, HOST_SIDE = 8192, 2048
REPETITIONS, HOST_REPETITIONS = 20, 6

CHAINS, UNROLL, ROUNDS, THREADS, BLOCKS_PER_SM = 8, 16, 2048, 256, 16


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
    fp32 = max(_fma_rate(), _matmul_rate("cuda", "float32", SIDE))
    torch.set_float32_matmul_precision("high")
    has_tensor_formats = torch.cuda.get_device_capability() >= (8, 0)
    return Peaks(
        copy_bytes_per_s=_copy_rate("cuda", min(COPY_BYTES, backend("cuda").free_bytes() // 4)),
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


def _fma_rate() -> float:
    """Return FLOP/s of FP32 multiply-adds on registers: eight independent chains per thread, every SM full."""
    import torch

    sms = torch.cuda.get_device_properties(0).multi_processor_count
    sink = torch.zeros(1, device="cuda")
    driver, stream = Driver(), torch.cuda.current_stream().cuda_stream
    kernel = driver.kernel(_fma_ptx(), b"fma_chains")
    flops = 2 * CHAINS * UNROLL * ROUNDS * THREADS * BLOCKS_PER_SM * int(sms)
    blocks, place = sms * BLOCKS_PER_SM, c_uint64(sink.data_ptr())
    return flops / _best_s(lambda: driver.launch(kernel, blocks, THREADS, place, stream=stream), "cuda")


def _fma_ptx() -> bytes:
    step = "\n".join(f"fma.rn.f32 %f{c}, %f{c}, %f30, %f31;" for _ in range(UNROLL) for c in range(CHAINS))
    start = "\n".join(f"add.f32 %f{c}, %f29, 0f{0x3F800000 + (c << 16):08X};" for c in range(CHAINS))
    total = "\n".join(f"add.f32 %f28, %f28, %f{c};" for c in range(CHAINS))
    return f"""
.version 7.0
.target sm_50
.address_size 64
.visible .entry fma_chains(.param .u64 sink)
{{
.reg .f32 %f<32>;
.reg .b32 %r<3>;
.reg .b64 %a<2>;
.reg .pred %p<3>;
ld.param.u64 %a0, [sink];
cvta.to.global.u64 %a0, %a0;
mov.u32 %r0, %tid.x;
cvt.rn.f32.u32 %f29, %r0;
mov.f32 %f30, 0f3F7FFF00;
ld.global.f32 %f31, [%a0];
{start}
mov.u32 %r1, 0;
round:
{step}
add.u32 %r1, %r1, 1;
setp.lt.u32 %p0, %r1, {ROUNDS};
@%p0 bra round;
mov.f32 %f28, 0f00000000;
{total}
// Never true, but the translator cannot know: the chains must be computed.
setp.eq.f32 %p1, %f28, 0fC2F6E979;
@%p1 st.global.f32 [%a0], %f28;
ret;
}}
""".encode()


def _key(device: DeviceChoice) -> str:
    driver = (nvml.driver_version() or "unknown") if backend(device.kind).has_own_memory else device.kind
    return f"{device.uuid} {driver}"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(dataclasses.asdict(measure_peaks(sys.argv[1]))) + "\n")
