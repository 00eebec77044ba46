"""Locked clocks, with a fake NVML: taken only when asked for, and given back however a run ends."""

import contextlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiny_corpus
from records import make_row, make_run
from verdicts import written

from kbench.catalog import registry
from kbench.compare import compare
from kbench.core.errors import MachineError, UsageError
from kbench.core.events import RunOptions, Saved
from kbench.core.verdict import Answer
from kbench.devices import monitor, selection
from kbench.engine import run as running
from kbench.gate.confirm import locked_clock_mhz
from kbench.storage.results import read_run
from kbench.storage.settings import Settings

GPU = selection.DeviceChoice(kind="cuda", name="NVIDIA Test", uuid="GPU-1", key="NVIDIA Test sm_90")
FIVE = [0.5, 0.5002, 0.4999, 0.5001, 0.4998]


class NVMLError(Exception):
    pass


class InvalidArgumentError(NVMLError):
    pass


@pytest.fixture
def nvml(monkeypatch):
    """Remembers what was asked of it; `refuses` and `keeps` are errors to raise on locking and on resetting."""
    state = SimpleNamespace(calls=[], refuses=None, keeps=None)

    def answer(error, call):
        state.calls.append(call)
        if error is not None:
            raise error

    fake = SimpleNamespace(
        NVMLError=NVMLError,
        NVMLError_InvalidArgument=InvalidArgumentError,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: f"handle of {uuid}",
        nvmlDeviceSetGpuLockedClocks=lambda handle, low, high: answer(state.refuses, ("lock", handle, low, high)),
        nvmlDeviceResetGpuLockedClocks=lambda handle: answer(state.keeps, ("reset", handle)),
    )
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return state


TAKEN = [("lock", "handle of GPU-1", 1500, 1500), ("reset", "handle of GPU-1")]


def test_clocks_are_locked_and_given_back(nvml):
    with monitor.locked_clocks(GPU, 1500):
        assert nvml.calls == TAKEN[:1]
    assert nvml.calls == TAKEN


@pytest.mark.parametrize("end", [KeyboardInterrupt, RuntimeError, GeneratorExit, SystemExit])
def test_however_the_block_ends(nvml, end):
    with pytest.raises(end), monitor.locked_clocks(GPU, 1500):
        raise end
    assert nvml.calls == TAKEN


def test_an_interrupt_while_the_lock_is_taken_leaves_none_behind(nvml):
    nvml.refuses = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt), monitor.locked_clocks(GPU, 1500):
        pytest.fail("not entered")
    assert nvml.calls == TAKEN


@pytest.mark.parametrize(
    ("error", "raised", "message", "hint"),
    [
        (NVMLError("Insufficient Permissions"), MachineError, "Insufficient Permissions", "as root"),
        (NVMLError("Not Supported"), MachineError, "cannot be locked", "leave out `--lock-clocks`"),
        (InvalidArgumentError("x"), UsageError, "no SM clock of 1500 MHz", "--query-supported-clocks=graphics"),
    ],
)
def test_a_refusal_says_what_to_type_and_resets_nothing(nvml, error, raised, message, hint):
    nvml.refuses = error
    with pytest.raises(raised, match=message) as caught, monitor.locked_clocks(GPU, 1500):
        pytest.fail("not entered")
    assert hint in (caught.value.hint or "")
    assert [call[0] for call in nvml.calls] == ["lock"]


def test_a_lock_that_stays_is_said(nvml):
    nvml.keeps = NVMLError("Unknown Error")
    with pytest.raises(MachineError, match="may still be locked") as caught, monitor.locked_clocks(GPU, 1500):
        pass
    assert caught.value.hint == "sudo nvidia-smi -i GPU-1 --reset-gpu-clocks"


def test_a_processor_has_no_such_clock(nvml):
    with pytest.raises(UsageError, match="for GPUs"), monitor.locked_clocks(selection.cpu(), 1500):
        pytest.fail("not entered")
    assert nvml.calls == []


def test_other_clocks_are_not_compared(tmp_path):
    free = make_run(tmp_path, "free", {"a": FIVE})
    locked = make_run(tmp_path, "locked", {"a": FIVE}, findings="kernels clocks_locked_1500")
    lower = make_run(tmp_path, "lower", {"a": FIVE}, findings="clocks_locked_1200")
    for pair, message in [((free, locked), "none, clocks_locked_1500"), ((locked, lower), "clocks_locked_1200")]:
        (case,) = compare(pair).cases
        assert case.verdict.status is Answer.NOT_COMPARABLE
        assert case.verdict.reason_code == "other_clocks"
        assert message in case.verdict.message
    (case,) = compare([locked, locked]).cases
    assert case.verdict.status is Answer.SAME


def test_a_second_look_locks_the_same_clock(tmp_path):
    locked = make_run(tmp_path, "locked", {"a": FIVE}, findings="clocks_locked_1500")
    assert locked_clock_mhz(locked.rows[0]) == 1500
    assert locked_clock_mhz(make_run(tmp_path, "free", {"a": FIVE}).rows[0]) is None
    for edited in ("clocks_locked_fast", "clocks_locked", "clocks_locked_" + "9" * 5000):
        assert locked_clock_mhz(make_row(findings=edited)) is None


def test_a_run_holds_the_lock_while_it_measures_and_says_so_in_its_rows(tmp_path, monkeypatch):
    seen = []

    @contextlib.contextmanager
    def fake(device, mhz):
        seen.append(("lock", device.kind, mhz))
        try:
            yield
        finally:
            seen.append(("reset",))

    monkeypatch.setattr(monitor, "locked_clocks", fake)
    problem, entries = written(tmp_path, tiny_corpus.problem(), {"mine": tiny_corpus.solution("return x + x")})
    options = RunOptions(
        device="cpu",
        processes=1,
        max_processes=1,
        pairs=4,
        precision=0.9,
        lock_clocks_mhz=1500,
        results_dir=tmp_path,
    )
    stages = []
    path = None
    for event in running.run(problem, entries, options):
        stages.append(getattr(event, "stage", type(event).__name__))
        if isinstance(event, Saved):
            path = event.csv_path
        if stages[-1] == "time":
            assert seen == [("lock", "cpu", 1500)]
    assert "time" in stages
    assert seen == [("lock", "cpu", 1500), ("reset",)]
    (row,) = read_run(Path(path)).rows
    assert "clocks_locked_1500" in row.findings.split(), f"{row.status}: {row.reason}"


def test_a_run_on_a_processor_refuses_before_it_measures(tmp_path):
    settings = Settings()
    problem = registry.find_problem("group_norm", settings)
    entry = registry.find_solution(problem, "eager", settings)
    options = RunOptions(device="cpu", cases=("small",), lock_clocks_mhz=1500, results_dir=tmp_path)
    with pytest.raises(UsageError, match="for GPUs"):
        list(running.run(problem, (entry,), options))
