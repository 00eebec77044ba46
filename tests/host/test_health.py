"""Whether a device is fit after a crash: the rule, the probe's process, and the mark that a sick device gets."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kbench.core.model import Status
from kbench.devices import selection
from kbench.devices.cuda_driver import DriverError
from kbench.engine import guard
from kbench.host import health
from kbench.sandbox import rung_probe

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


def test_a_sick_device_is_used_no_more(monkeypatch) -> None:
    monkeypatch.setattr(health, "examine", lambda _device: "no answer within 30 s")
    monkeypatch.setattr(guard, "WAITS_S", (0.0,))
    watching = guard.Guard(CPU)
    watching.look(Status.WRONG_VALUE)
    assert watching.is_fit()
    watching.look(Status.CRASHED)
    assert not watching.is_fit()
    assert watching.gone == f"{CPU.name}: no answer within 30 s"
