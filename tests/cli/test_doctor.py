"""`kbench doctor` and `kbench calibrate`: thin around their verbs."""

import fakes
import pytest

from kbench import calibrate, doctor
from kbench.core.model import Status
from kbench.doctor import Check, Health

CHECKS = [
    Check(name="gpu", status=Health.OK, detail="NVIDIA H200, 141 GiB, nothing else running"),
    Check(name="clocks", status=Health.WARN, detail="1,230 MHz now", fix="let it cool down"),
    Check(name="nvcc", status=Health.FAIL, detail="12.8 but torch was built for CUDA 13.0", fix="x"),
]


@pytest.fixture
def examined(monkeypatch):
    def install(*checks):
        monkeypatch.setattr(doctor, "examine", lambda device, cache, *, remeasure, announce: iter(checks))

    return install


def test_each_check_has_its_name_and_fix(kbench, examined, golden):
    examined(*CHECKS)
    done = kbench("doctor")
    assert done.code == 3
    golden("doctor.txt", done.out.rstrip("\n"))


def test_warnings_alone_are_fit(kbench, examined):
    examined(*CHECKS[:2])
    assert kbench("doctor").code == 0
    assert kbench("doctor", "-q").out.splitlines() == ["warn  clocks     1,230 MHz now   fix: let it cool down"]


def test_json(kbench, examined):
    examined(*CHECKS)
    done = kbench("doctor", "--json")
    document = done.document
    assert (document["status"], document["exit_code"]) == ("failed", 3)
    assert document["reason"] == "nvcc: 12.8 but torch was built for CUDA 13.0"
    assert [check["status"] for check in document["results"]] == ["ok", "warn", "fail"]


@pytest.fixture
def noise(monkeypatch, tmp_path):
    monkeypatch.setattr(calibrate, "default_directory", lambda: tmp_path / "calibration")


def test_calibrate_times_the_reference_against_itself(kbench, fake_run, noise, tmp_path):
    timings = tuple(fakes.timing(process) for process in range(3))
    judged = fakes.passed("eager", timings=timings)
    calls = fake_run(*fakes.events(judged, csv_path=None))
    done = kbench("calibrate", "group_norm", "--device", "cpu", "--processes", "3", "--json")
    assert done.code == 0, done.err
    problem, solutions, options = calls[0]
    assert (problem.name, [entry.name for entry in solutions]) == ("group_norm", ["eager"])
    assert (options.processes, options.max_processes, options.save) == (3, 3, False)
    result = done.document["results"][0]
    assert (result["case"], result["time_ns"]) == ("small", 611_000)
    assert len(result["estimates"]) == 3
    assert list((tmp_path / "calibration").glob("*.json"))


def test_calibrate_says_which_reference_failed(kbench, fake_run, noise):
    fake_run(*fakes.events(fakes.failed(Status.OUT_OF_MEMORY, "no room", solution="eager")))
    done = kbench("calibrate", "group_norm", "--device", "cpu")
    assert done.code == 3
    assert "error: group_norm, case small: out_of_memory: no room" in done.err
