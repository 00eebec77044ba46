"""Whether a device is fit after a crash: the rule, the probe's process, and the mark that a sick device gets."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kbench.core.errors import MachineError
from kbench.core.model import Status
from kbench.devices import selection
from kbench.devices.cuda_driver import DriverError
from kbench.engine import guard
from kbench.host import health
from kbench.sandbox import rung_probe
from kbench.storage import quarantine

PATIENCE_S = 60.0
CPU = selection.cpu()


PROBES = [
    ("pass", None),
    ("print('noise')", None),
    ("raise SystemExit('holds [0]')", "could not use it: holds [0]"),
    ("print('noise'); raise SystemExit('cuInit: CUDA error 999')", "CUDA error 999"),
    ("import os; os.abort()", "exit code -6"),
    ("print('right'); import os; os.abort()", "right"),
]


@pytest.mark.parametrize(("code", "reason"), PROBES)
def test_a_device_is_unfit_by_the_end_of_its_probe(code, reason) -> None:
    found = health.ask([sys.executable, "-u", "-c", code], dict(os.environ), PATIENCE_S)
    assert (found is None) == (reason is None)
    assert reason is None or reason in found


def test_a_probe_that_hangs_is_killed() -> None:
    found = health.ask([sys.executable, "-c", "import time; time.sleep(600)"], dict(os.environ), 0.5)
    assert "no answer" in found


WORDS = [7] * rung_probe.WORDS
# what the driver does, what is wrong
COMPUTED = [
    (SimpleNamespace(read=lambda *_: WORDS), "a wrong result: [7, 7, 7, 7]"),
    (MemoryError("CUDA error 2"), None),
    (DriverError("cuInit: CUDA error 999"), "CUDA error 999"),
    (OSError("libcuda.so.1: no such file"), "libcuda"),
]


@pytest.mark.parametrize(("driver", "reason"), COMPUTED)
def test_what_is_wrong_with_a_device_is_in_words(monkeypatch, driver, reason) -> None:
    def driver_of(_kind: str) -> SimpleNamespace:
        if isinstance(driver, Exception):
            raise driver
        return SimpleNamespace(allocate=int, clear=lambda *_: None, **vars(driver))

    monkeypatch.setattr(rung_probe, "driver_of", driver_of)
    monkeypatch.setattr(rung_probe, "write_pattern", lambda *_: None)
    found = health.compute("cuda")
    assert (found is None) == (reason is None)
    assert reason is None or reason in found


def test_the_real_probe_answers_on_any_machine() -> None:
    has_driver = Path("/dev/nvidiactl").exists()
    found = health.ask([sys.executable, "-m", health.__name__, "cuda"], dict(os.environ), PATIENCE_S)
    assert (found is None) == has_driver


def test_a_processor_answers_by_running() -> None:
    assert health.examine(CPU) is None


def test_a_sick_device_is_marked_once_and_lifted(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(health, "examine", lambda _device: "no answer within 30 s")
    monkeypatch.setattr(guard, "WAITS_S", (0.0,))
    watching = guard.Guard(CPU, tmp_path)
    watching.look(Status.WRONG_VALUE)
    assert watching.is_fit()
    quarantine.refuse(tmp_path, CPU.uuid)

    watching.look(Status.CRASHED)
    assert not watching.is_fit()
    assert quarantine.read(tmp_path, CPU.uuid) == watching.quarantine
    again = quarantine.impose(tmp_path, uuid=CPU.uuid, name=CPU.name, reason="another")
    assert again == watching.quarantine

    with pytest.raises(MachineError, match="no answer within 30 s") as caught:
        quarantine.refuse(tmp_path, CPU.uuid)
    assert "kbench doctor --clear-quarantine" in caught.value.hint
    quarantine.refuse(tmp_path, "GPU-another")

    quarantine.lift(tmp_path, CPU.uuid)
    quarantine.lift(tmp_path, CPU.uuid)
    assert quarantine.read(tmp_path, CPU.uuid) is None


def test_a_marker_that_cannot_be_read_still_counts(tmp_path) -> None:
    quarantine.impose(tmp_path, uuid="GPU-1", name="x", reason="y")
    (marker,) = (tmp_path / quarantine.FOLDER).iterdir()
    marker.write_text("{")
    found = quarantine.read(tmp_path, "GPU-1")
    assert str(marker) in found.message
