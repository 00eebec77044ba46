"""Lease, monitor, identity and peaks without a GPU: real locks between real processes, a fake NVML."""

import dataclasses
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kbench.core.model import Peaks
from kbench.devices import monitor, peaks, selection
from kbench.devices.admission import Admission
from kbench.devices.backend import backend
from kbench.devices.monitor import DeviceMonitor, DeviceReading

ROOT = Path(__file__).parents[2]
GPU = selection.DeviceChoice(kind="cuda", name="NVIDIA Test", uuid="GPU-1", key="NVIDIA Test sm_90")
PEAKS = Peaks(copy_bytes_per_s=1e12, fp32_flops_per_s=5e13, measured_utc="2026-01-01T00:00:00+00:00")


def test_the_processor_is_identified():
    environment = backend("cpu").identify()
    assert environment.device == "cpu"
    assert environment.gpu_uuid == selection.cpu().uuid == backend("cpu").identify().gpu_uuid
    assert environment.gpu_name
    assert environment.memory_bytes > 1 << 28
    assert environment.l2_bytes is None


def test_a_processor_has_nothing_to_read():
    with DeviceMonitor("cpu") as watch:
        assert watch.read() == DeviceReading()
        assert not watch.disturbed(watch.read(), watch.read())
    assert monitor.foreign_processes(selection.cpu()) == ()


class FakeNvml:
    """NVML of one GPU; `None` stands for a question that the device refuses."""

    NVMLError = type("NVMLError", (Exception,), {})
    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0

    def __init__(self, **answers):
        self.answers = {"sm_mhz": 1980, "power_mw": 300_000, "reasons": 0, "processes": []} | answers

    def _answer(self, name):
        if self.answers[name] is None:
            raise self.NVMLError
        return self.answers[name]

    def nvmlInit(self): ...

    def nvmlDeviceGetHandleByUUID(self, uuid):
        assert uuid == "GPU-1"
        return "handle"

    def nvmlDeviceGetClockInfo(self, handle, clock):
        assert clock == self.NVML_CLOCK_SM
        return self._answer("sm_mhz")

    def nvmlDeviceGetPowerUsage(self, handle):
        return self._answer("power_mw")

    def nvmlDeviceGetTemperature(self, handle, sensor):
        return 40

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        return self._answer("reasons")

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        return self._answer("processes")

    def nvmlSystemGetProcessName(self, pid):
        return b"/usr/bin/python3"

    def nvmlSystemGetDriverVersion(self):
        return "580.1"


@pytest.fixture
def nvml(monkeypatch):
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


def test_a_reading_holds_what_the_device_tells(nvml):
    with DeviceMonitor("cuda", "GPU-1") as watch:
        nvml.answers["power_mw"] = None
        assert watch.read() == DeviceReading(sm_clock_mhz=1980, power_mw=None, temperature_c=40, throttle_reasons=0)


NAMED = [(0, False), (0x1, False), (0x2, False), (0x4, True), (0x41, True)]
CLOCKS = [(1980, False), (1965, False), (1900, True), (2050, False)]


@pytest.mark.parametrize(
    ("readings", "name", "answer", "disturbed"),
    [
        *((1, "reasons", reasons, disturbed) for reasons, disturbed in NAMED),
        *((20, "sm_mhz", clock, disturbed) for clock, disturbed in CLOCKS),
        (1, "sm_mhz", 345, False),  # no clock is the usual one yet
    ],
)
def test_a_slowdown_that_the_device_names_or_a_clock_below_the_usual_one_disturbs(
    nvml, readings, name, answer, disturbed
):
    with DeviceMonitor("cuda", "GPU-1") as watch:
        for _ in range(readings):
            before = watch.read()
        nvml.answers[name] = answer
        assert watch.disturbed(before, watch.read()) is disturbed


def test_foreign_processes_are_named(nvml):
    assert monitor.foreign_processes(GPU) == ()
    nvml.answers["processes"] = [SimpleNamespace(pid=7)]
    assert monitor.foreign_processes(GPU) == ("7 python3",)
    nvml.answers["processes"] = None
    assert monitor.foreign_processes(GPU) is None


def test_peaks_are_remembered_by_device_and_driver(nvml, tmp_path, monkeypatch):
    done = SimpleNamespace(stdout="a library's greeting\n" + json.dumps(dataclasses.asdict(PEAKS)) + "\n")
    monkeypatch.setattr(peaks.subprocess, "run", lambda *_, **__: done)
    assert peaks.load_peaks(GPU, tmp_path) is None
    assert peaks.refresh_peaks(GPU, tmp_path) == PEAKS
    assert peaks.load_peaks(GPU, tmp_path) == PEAKS
    assert peaks.load_peaks(dataclasses.replace(GPU, uuid="GPU-2"), tmp_path) is None
    assert peaks.load_peaks(selection.cpu(), tmp_path) is None
    nvml.nvmlSystemGetDriverVersion = lambda: "590.1"
    assert peaks.load_peaks(GPU, tmp_path) is None


def test_unknown_peaks_of_a_gpu_are_measured_once_and_alone_on_it(nvml, tmp_path, monkeypatch):
    monkeypatch.setenv("KBENCH_LEASES", str(tmp_path / "leases"))
    measured = []

    def run(*_, **__):
        measured.append(Admission(uuid=GPU.uuid).is_in_use())
        return SimpleNamespace(stdout=json.dumps(dataclasses.asdict(PEAKS)) + "\n")

    monkeypatch.setattr(peaks.subprocess, "run", run)
    assert peaks.known_or_measured(selection.cpu(), tmp_path) is None
    assert [peaks.known_or_measured(GPU, tmp_path) for _ in range(2)] == [PEAKS, PEAKS]
    assert measured == [True]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"GPU-1 580.1": {"unknown": 1}}', '{"GPU-1 580.1": null}'])
def test_a_broken_cache_is_no_peaks(nvml, tmp_path, text):
    (tmp_path / peaks.CACHE_NAME).write_text(text)
    assert peaks.load_peaks(GPU, tmp_path) is None


def test_the_peaks_of_this_processor_are_measured(monkeypatch):
    """Of little data here: of much, it takes ten seconds."""
    monkeypatch.setattr(peaks, "HOST_COPY_BYTES", 1 << 20)
    monkeypatch.setattr(peaks, "HOST_SIDE", 128)
    measured = peaks.measure_peaks("cpu")
    assert 1e8 < measured.copy_bytes_per_s < 1e13
    assert 1e7 < measured.fp32_flops_per_s < 1e14
    assert measured.tf32_flops_per_s is None
