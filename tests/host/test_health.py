"""Whether a device is fit after a crash: the rule, the probe's process, and the mark that a sick device gets."""

import os
import sys

import pytest

from kbench.core.errors import MachineError
from kbench.core.health import ProbeAnswer, Vitals, diagnose
from kbench.core.model import Status
from kbench.devices import selection
from kbench.engine import guard
from kbench.host import health
from kbench.storage import quarantine

PATIENCE_S = 60.0
CPU = selection.cpu()
WELL = Vitals(uncorrected_errors=0, remap_pending=False, remap_failed=False, recovery="")
OLD = Vitals(uncorrected_errors=7, remap_pending=True, remap_failed=False, recovery="")

CASES = [
    (ProbeAnswer.RIGHT, WELL, WELL, None),
    (ProbeAnswer.RIGHT, Vitals(), Vitals(), None),
    (ProbeAnswer.FULL, WELL, WELL, None),
    (ProbeAnswer.WRONG, WELL, WELL, "wrong result: why"),
    (ProbeAnswer.FAILED, WELL, WELL, "could not use it: why"),
    (ProbeAnswer.SILENT, WELL, WELL, "no answer from it: why"),
    (ProbeAnswer.RIGHT, WELL, Vitals(recovery="gpu_reset"), "asks for gpu reset"),
    (ProbeAnswer.RIGHT, Vitals(), Vitals(recovery="node_reboot"), "asks for node reboot"),
    (ProbeAnswer.FULL, WELL, Vitals(uncorrected_errors=2), "uncorrectable memory errors: 2"),
    (ProbeAnswer.RIGHT, WELL, Vitals(remap_pending=True), "waits for a reset"),
    (ProbeAnswer.RIGHT, WELL, Vitals(remap_failed=True), "could not be replaced"),
    # What was so when the run began is no consequence of it.
    (ProbeAnswer.RIGHT, OLD, OLD, None),
    (ProbeAnswer.RIGHT, Vitals(), Vitals(uncorrected_errors=7), None),
    (ProbeAnswer.RIGHT, OLD, Vitals(uncorrected_errors=None), None),
    (ProbeAnswer.RIGHT, OLD, Vitals(uncorrected_errors=8), "errors: 1"),
]


@pytest.mark.parametrize(("answer", "before", "after", "reason"), CASES)
def test_the_rule(answer, before, after, reason) -> None:
    found = diagnose(answer, "why", before, after)
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
    assert health.vitals(CPU) == Vitals()


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
