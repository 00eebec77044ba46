"""What doctor concludes from facts, and what it finds on this machine."""

import dataclasses
import functools
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from kbench import doctor
from kbench.core.errors import MachineError, UsageError
from kbench.core.model import Peaks
from kbench.devices import admission, peaks, selection
from kbench.devices import monitor as devices
from kbench.doctor import Check, Gpu, Health, Torch
from kbench.host import health
from kbench.sandbox import rung_probe
from kbench.sandbox.rungs import Rung

ROOT = Path(__file__).parents[1]
H200 = Gpu(
    name="NVIDIA H200",
    memory_bytes=150 << 30,
    driver="580.1",
    driver_cuda=(13, 0),
    sm_clock_mhz=1980,
    max_sm_clock_mhz=1980,
    throttle_reasons=0,
    power_limit_mw=700_000,
    default_power_limit_mw=700_000,
)
CU130 = Torch(version="2.11.0+cu130", cuda=(13, 0))
CPU_BUILD = Torch(version="2.13.0+cpu", cuda=None)
PEAKS = Peaks(
    copy_bytes_per_s=4.293e12, fp32_flops_per_s=6.53e13, bf16_flops_per_s=7.7e14, measured_utc="2026-11-21T09:18:14"
)


def fails_with_a_fix(check: Check, *words: str, status: Health = Health.FAIL) -> None:
    assert check.status == status
    assert check.fix
    for word in words:
        assert word in check.detail + check.fix


warns_with_a_fix = functools.partial(fails_with_a_fix, status=Health.WARN)


def test_an_idle_gpu_is_fit():
    check = doctor.check_gpu(H200, ())
    assert (check.name, check.status, check.fix) == ("gpu", Health.OK, "")
    assert check.detail == "NVIDIA H200, 150 GiB, nothing else running"


def test_company_on_the_gpu_is_named():
    warns_with_a_fix(doctor.check_gpu(H200, ("7 python3", "9 hog")), "2 other processes", "7 python3, 9 hog")
    assert "not visible" in doctor.check_gpu(H200, None).detail


@pytest.mark.parametrize(
    ("able", "wanted", "health"),
    [
        ((13, 0), (13, 0), Health.OK),
        ((13, 1), (12, 8), Health.OK),
        ((12, 4), (12, 8), Health.WARN),
        ((12, 8), (13, 0), Health.FAIL),
        (None, (13, 0), Health.OK),
        ((13, 0), None, Health.OK),
    ],
)
def test_a_driver_must_run_what_torch_was_built_for(able, wanted, health):
    gpu = dataclasses.replace(H200, driver_cuda=able)
    assert doctor.check_driver(gpu, Torch(version="2", cuda=wanted)).status == health


def test_torch_without_cuda_fails_on_a_gpu_only():
    fails_with_a_fix(doctor.check_torch(CPU_BUILD, on_gpu=True), "without CUDA")
    assert doctor.check_torch(CPU_BUILD, on_gpu=False).status == Health.OK
    fails_with_a_fix(doctor.check_torch(None, on_gpu=False), "pip install torch")


NVCC = Path("/usr/local/cuda/bin/nvcc")


def test_nvcc_must_be_of_torchs_major_version():
    assert doctor.check_nvcc((NVCC, (13, 0)), CU130).status == Health.OK
    warns_with_a_fix(doctor.check_nvcc((NVCC, (13, 2)), CU130), "13.2", "13.0", "CUDA_HOME")
    fails_with_a_fix(doctor.check_nvcc((NVCC, (12, 8)), CU130), "12.8", "cu128", "CUDA_HOME")
    fails_with_a_fix(doctor.check_nvcc((NVCC, None), CU130), "does not run")
    warns_with_a_fix(doctor.check_nvcc(None, CU130), "not found", "13.0")


def test_a_host_compiler_must_be_there_and_new_enough():
    assert doctor.check_host_compiler("c++", (12, 2)).status == Health.OK
    assert doctor.check_host_compiler("clang++", (6, 0)).status == Health.OK
    fails_with_a_fix(doctor.check_host_compiler("c++", (7, 5)), "9.0")
    fails_with_a_fix(doctor.check_host_compiler("g++-99", None), "g++-99 not found")


def test_ninja_must_be_on_path():
    assert doctor.check_ninja("/usr/bin/ninja").status == Health.OK
    fails_with_a_fix(doctor.check_ninja(None))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"throttle_reasons": 0x4}, "the power cap"),
        ({"throttle_reasons": 0x60}, "heat (software), heat (hardware)"),
        ({"power_limit_mw": 350_000}, "350 of 700 W"),
    ],
)
def test_what_holds_the_clocks_down_is_named(changes, word):
    warns_with_a_fix(doctor.check_clocks(dataclasses.replace(H200, **changes)), word)


def test_an_idle_clock_is_fit():
    check = doctor.check_clocks(dataclasses.replace(H200, sm_clock_mhz=345, throttle_reasons=0x1))
    assert (check.status, check.detail) == (Health.OK, "345 MHz now, up to 1,980 MHz")
    silent = dataclasses.replace(H200, sm_clock_mhz=None, max_sm_clock_mhz=None, throttle_reasons=None)
    assert doctor.check_clocks(silent).detail == "clock unknown"


@pytest.mark.parametrize(
    ("rung", "health"),
    [(Rung.FULL, Health.OK), (Rung.LANDLOCK, Health.OK), (Rung.NAMESPACES, Health.WARN), (Rung.NONE, Health.WARN)],
)
def test_the_rung_that_is_reached_is_named(rung, health, tmp_path, monkeypatch):
    monkeypatch.setattr(rung_probe, "reached", lambda *_: rung)
    monkeypatch.setattr(rung_probe, "works", lambda *_: "for a reason")
    check = doctor.check_sandbox("cpu", tmp_path)
    assert check.status == health
    assert f"rung {rung.value} ({rung.name.lower()})" in check.detail
    assert ("for a reason" in check.detail) == (rung != Rung.FULL)


def test_a_cache_that_cannot_be_written_fails(tmp_path):
    (tmp_path / "file").write_text("in the way")
    fails_with_a_fix(doctor.check_cache(tmp_path / "file" / "cache"), "KBENCH_CACHE")
    assert doctor.check_cache(tmp_path / "new" / "cache").status == Health.OK
    assert not list((tmp_path / "new" / "cache").iterdir())


@pytest.mark.parametrize(("free", "health"), [(1 << 40, Health.OK), (1 << 30, Health.WARN), (1 << 20, Health.FAIL)])
def test_a_full_disk_is_said(free, health, tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "_free_bytes", lambda place: free if place == tmp_path else 1 << 50)
    check = doctor.check_disk(tmp_path)
    assert check.status == health
    assert str(tmp_path) in check.detail


def test_known_peaks_are_recalled_and_not_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(peaks, "load_peaks", lambda *_: PEAKS)
    monkeypatch.setattr(peaks, "refresh_peaks", lambda *_: pytest.fail("measured"))
    check = doctor.check_peaks(selection.cpu(), tmp_path, remeasure=False, announce=pytest.fail)
    assert check.status == Health.OK
    assert check.detail == "copy 4,293 GB/s, fp32 65.3 TFLOP/s, bf16 770 TFLOP/s (measured 2026-11-21)"


class Held:
    """A device that another process times on."""

    def __init__(self, **_: str):
        pass

    def exclusive(self, wait: admission.Wait) -> None:
        assert wait.timeout_s == 0.0
        raise admission.DeviceBusyError("pid 12 (root): kbench run x")


def test_peaks_are_measured_on_demand_and_alone_on_the_device(tmp_path, monkeypatch):
    monkeypatch.setenv("KBENCH_LEASES", str(tmp_path / "leases"))
    monkeypatch.setattr(peaks, "load_peaks", lambda *_: None)

    def measure(*_):
        assert admission.Admission(uuid=selection.cpu().uuid).is_in_use()
        return PEAKS

    told: list[str] = []
    monkeypatch.setattr(peaks, "refresh_peaks", measure)
    assert doctor.check_peaks(selection.cpu(), tmp_path, remeasure=False, announce=told.append).status == Health.OK
    assert told == [f"measuring the peaks of {selection.cpu().name}: about ten seconds"]
    monkeypatch.setattr(doctor, "Admission", Held)
    warns_with_a_fix(doctor.check_peaks(selection.cpu(), tmp_path, remeasure=True, announce=pytest.fail), "held by pid")


def test_peaks_that_cannot_be_measured_fail(tmp_path, monkeypatch):
    monkeypatch.setenv("KBENCH_LEASES", str(tmp_path / "leases"))
    monkeypatch.setattr(peaks, "refresh_peaks", Mock(side_effect=MachineError("no such device")))
    fails_with_a_fix(doctor.check_peaks(selection.cpu(), tmp_path, remeasure=True, announce=str), "no such device")


def test_the_installed_torch_is_read_without_importing_it():
    import torch

    found = doctor.find_torch()
    assert found.version == torch.__version__
    assert (found.cuda is None) == (torch.version.cuda is None)


def test_a_compiler_says_its_version(tmp_path, monkeypatch):
    fake = tmp_path / "nvcc"
    fake.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.8, V12.8.93'\n")
    fake.chmod(0o755)
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.find_nvcc() == (fake, (12, 8))
    fake.write_text("#!/bin/sh\nexit 1\n")
    assert doctor.find_nvcc() == (fake, None)
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert doctor.find_host_compiler() == ("no-such-compiler", None)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """This machine with its peaks known, so that nothing is measured."""
    monkeypatch.setattr(peaks, "load_peaks", lambda *_: PEAKS)
    return tmp_path / "cache"


def test_this_machine_is_examined_for_the_processor(machine):
    checks = {check.name: check for check in doctor.examine("cpu", machine)}
    assert list(checks) == ["torch", "c++", "ninja", "sandbox", "cache", "disk", "peaks"]
    assert checks["torch"].status == checks["cache"].status == Health.OK
    assert all(check.fix for check in checks.values() if check.status == Health.FAIL)


def test_no_gpu_is_a_reservation_or_a_failure(machine, monkeypatch):
    monkeypatch.setattr(selection, "visible_gpus", list)
    first = next(doctor.examine("auto", machine))
    assert first.status == Health.WARN
    assert first.detail.endswith("not checked: driver, nvcc, clocks, health")
    fails_with_a_fix(next(doctor.examine("cuda", machine)), "nvidia-smi")
    with pytest.raises(UsageError):
        list(doctor.examine("tpu", machine))


def test_a_gpu_is_examined_in_full(machine, monkeypatch):
    choice = selection.DeviceChoice(kind="cuda", name="NVIDIA H200", uuid="GPU-1", key="NVIDIA H200 sm_90")
    monkeypatch.setattr(selection, "choose", lambda _: choice)
    monkeypatch.setattr(doctor, "read_gpu", lambda _: H200)
    monkeypatch.setattr(devices, "foreign_processes", lambda _: ())
    monkeypatch.setattr(rung_probe, "reached", lambda *_: Rung.FULL)
    monkeypatch.setattr(health, "examine", lambda _: None)
    names = [check.name for check in doctor.examine("cuda", machine)]
    assert names[:7] == ["gpu", "driver", "torch", "nvcc", "c++", "ninja", "clocks"]
    assert names[7:] == ["sandbox", "cache", "disk", "peaks", "health"]
    monkeypatch.setattr(health, "examine", lambda _: "holds [0]")
    found = {check.name: check for check in doctor.examine("cuda", machine)}
    fails_with_a_fix(found["health"], "holds [0]", "nvidia-smi --gpu-reset -i GPU-1")
    assert "peaks" not in found, "nothing is measured on a device that is sick"


def test_doctor_imports_no_torch():
    code = "import sys, kbench.doctor; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, env={**os.environ}).returncode == 0
