"""Whether a device is fit after a crash: the rule, the probe's process, and the mark that a sick device gets."""

import os
import sys

import pytest

from kbench.core.errors import MachineError
from kbench.core.model import Status
from kbench.devices import selection
from kbench.engine import guard
from kbench.host import health
from kbench.host.health import ProbeAnswer
from kbench.storage import quarantine

PATIENCE_S = 60.0
CPU = selection.cpu()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ProbeAnswer.RIGHT, None),
        (ProbeAnswer.FULL, None),
        (ProbeAnswer.WRONG, "wrong result: why"),
        (ProbeAnswer.FAILED, "could not use it: why"),
        (ProbeAnswer.SILENT, "no answer from it: why"),
    ],
)
def test_a_device_is_unfit_by_the_answer_of_its_probe(monkeypatch, answer, reason) -> None:
    monkeypatch.setattr(health, "probe", lambda _device: (answer, "why"))
    found = health.examine(CPU)
    assert (found is None) == (reason is None)
    assert reason is None or reason in found


PROBES = [
    ("print('right: ')", ProbeAnswer.RIGHT, ""),
    ("print('noise'); print('right: ')", ProbeAnswer.RIGHT, ""),
    ("print('wrong: holds [0]')", ProbeAnswer.WRONG, "holds [0]"),
    ("print('full: cuMemAlloc_v2: CUDA error 2')", ProbeAnswer.FULL, "error 2"),
    ("print('failed: cuInit: CUDA error 999')", ProbeAnswer.FAILED, "999"),
    ("raise SystemExit('no driver')", ProbeAnswer.FAILED, "no driver"),
    ("import os; os.abort()", ProbeAnswer.FAILED, "-6"),
    ("print('right: '); import os; os.abort()", ProbeAnswer.FAILED, ""),
    ("pass", ProbeAnswer.FAILED, "exit code 0"),
]


@pytest.mark.parametrize(("code", "answer", "detail"), PROBES)
def test_every_end_of_a_probe_is_an_answer(code, answer, detail) -> None:
    found, words = health.ask([sys.executable, "-u", "-c", code], dict(os.environ), PATIENCE_S)
    assert found is answer
    assert detail in words


def test_a_probe_that_hangs_is_killed() -> None:
    found, words = health.ask([sys.executable, "-c", "import time; time.sleep(600)"], dict(os.environ), 0.5)
    assert found is ProbeAnswer.SILENT
    assert words


def test_without_a_driver_the_probe_fails_in_words() -> None:
    """On a machine with a driver, it answers right: both ends of the real probe are asked for here."""
    answer, words = health.ask([sys.executable, "-m", health.__name__, "cuda"], dict(os.environ), PATIENCE_S)
    assert (answer is ProbeAnswer.RIGHT) != bool(words)


def test_a_processor_answers_by_running() -> None:
    assert health.examine(CPU) is None


def test_a_sick_device_is_marked_once_and_lifted(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(health, "probe", lambda _device: (ProbeAnswer.SILENT, "nothing within 30 s"))
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

    with pytest.raises(MachineError, match="nothing within 30 s") as caught:
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
