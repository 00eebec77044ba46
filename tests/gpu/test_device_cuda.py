"""Identity, monitor, foreign processes and peaks of a real GPU."""

import subprocess
import sys
import time

import pytest
import torch
from require import WITH_CUDA

from kbench.devices import monitor, peaks, selection
from kbench.devices.backend import backend
from kbench.devices.cuda import recorded

pytestmark = WITH_CUDA

HOG = "import torch; a = torch.ones(1, device='cuda'); print('ready', flush=True); input()"


def test_torch_and_nvml_mean_the_same_device():
    environment, choice = backend("cuda").identify(), selection.choose("cuda")
    assert environment.gpu_uuid == choice.uuid
    assert environment.gpu_name == choice.name
    assert environment.driver.count(".") >= 1
    assert environment.l2_bytes > 1 << 20
    assert environment.memory_bytes == torch.cuda.get_device_properties(0).total_memory


def test_a_busy_device_reads_as_busy():
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    with monitor.DeviceMonitor("cuda") as watch:
        idle = watch.read()
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            a @ a
        busy = watch.read()
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(20):
            watch.read()
        per_reading_s = (time.perf_counter() - started) / 20
    assert busy.power_mw > idle.power_mw
    assert min(busy.sm_clock_mhz, idle.sm_clock_mhz) > 100
    assert 0 < busy.temperature_c < 110
    assert isinstance(busy.throttle_reasons, int)
    assert per_reading_s < 0.01


def test_a_foreign_process_is_seen():
    choice = selection.choose("cuda")
    before = set(monitor.foreign_processes(choice) or ())
    child = subprocess.Popen([sys.executable, "-c", HOG], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        child.stdout.readline()
        during = monitor.foreign_processes(choice)
    finally:
        child.communicate("\n")
    if during is None:
        pytest.skip("this driver does not tell which processes compute")
    assert any(each.startswith(f"{child.pid} ") for each in during) or set(during) - before


def test_peaks_are_plausible_and_remembered(tmp_path):
    choice = selection.choose("cuda")
    measured = peaks.refresh_peaks(choice, tmp_path)
    properties = torch.cuda.get_device_properties(0)
    assert peaks.load_peaks(choice, tmp_path) == measured
    clock_hz = 1e6 * max(c for c in (_max_clock_mhz(choice.uuid), 1))
    # At most 128 FP32 lanes per multiprocessor, two operations each; at least half of 64 lanes.
    lanes = properties.multi_processor_count * clock_hz * 2
    assert 32 * lanes < measured.fp32_flops_per_s < 1.02 * 128 * lanes
    assert measured.tf32_flops_per_s is None or measured.tf32_flops_per_s > measured.fp32_flops_per_s
    assert measured.copy_bytes_per_s > 1e11
    assert peaks.load_peaks(selection.cpu(), tmp_path) is None


def _max_clock_mhz(uuid):
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    return pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM)


def test_recorded_work_is_done_each_time_and_not_before():
    source, seen = torch.arange(1000, device="cuda"), torch.full((1000,), -1, device="cuda")
    again = recorded(lambda: seen.copy_(source))
    torch.cuda.synchronize()
    assert (seen == -1).all()
    for added in (1, 2):
        source += added
        again()
        assert torch.equal(seen, source)
