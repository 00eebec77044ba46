"""Calibration: noise of known size in, the same noise out; and what is promised from it."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from records import against_itself, calibration, make_samples

from kbench.calibrate import analyse, calibration_of, load, save, size_class
from kbench.core.errors import MachineError, ResultsError
from kbench.core.model import Timing

NORM = "group_norm", "small"


def noisy(process: int, between: float, within: float, time_ns: float = 1e8, pairs: int = 40) -> Timing:
    """A/A samples whose process effect and pair noise are drawn from normal distributions of known sd."""
    rng = np.random.default_rng([process, 7])
    shift = rng.normal(0, between)
    samples = [
        replace(
            sample,
            t_event_ns=round(time_ns * math.exp((shift + rng.normal(0, within)) * (sample.arm == "candidate"))),
        )
        for sample in make_samples(process=process, pairs=pairs, wobble=0)
    ]
    return Timing(samples=tuple(samples), timer="events", l2="flushed")


def test_known_noise_is_found_again() -> None:
    result = analyse(*NORM, [noisy(process, 0.002, 0.004) for process in range(200)])
    assert result.between == pytest.approx(math.hypot(0.002, 1.2533 * 0.004 / math.sqrt(40)), rel=0.15)
    assert result.within == pytest.approx(0.004, rel=0.1)
    assert result.time_ns == pytest.approx(1e8)
    assert (result.pairs, len(result.estimates)) == (40, 200)


def test_too_few_processes_with_a_pair() -> None:
    half = tuple(sample for sample in make_samples(process=1) if sample.arm == "reference")
    without = Timing(samples=half, timer="events", l2="warm")
    with pytest.raises(MachineError, match="only 1 of 2 processes"):
        analyse(*NORM, [noisy(0, 0.001, 0.001), without])


@pytest.mark.parametrize(("time_ns", "name"), [(4.5e3, "tiny"), (20e3, "short"), (1e6, "medium"), (9e6, "long")])
def test_size_classes(time_ns: float, name: str) -> None:
    assert size_class(time_ns) == name


def test_classes_pool_their_subjects() -> None:
    found = calibration(against_itself(9e6, 0.001), against_itself(5e6, 0.003), against_itself(5e4, 0.01))
    short, long = found.classes
    assert (short.name, long.name, long.subjects) == ("short", "long", 2)
    assert long.between == pytest.approx(math.sqrt((0.001**2 + 0.003**2) / 2))
    assert found.detectable(1e6, 5) is None
    assert found.detectable(9e6, 1) is None


def test_detectable_shrinks_with_processes() -> None:
    found = calibration(against_itself(9e6, 0.002))
    effects = [found.detectable(9e6, processes) or 0 for processes in (3, 5, 10, 20)]
    assert effects == sorted(effects, reverse=True)
    # Two runs of five processes: 3.61 sds of one process, from the noncentral t with 8 degrees of freedom.
    assert effects[1] == pytest.approx(math.expm1(3.61 * 0.002), abs=1e-5)


def test_what_was_measured_is_saved_and_read_again(tmp_path: Path) -> None:
    timings = [noisy(process, 0.001, 0.002) for process in range(4)]
    found = calibration_of("H200", "GPU-1/x", "570", [analyse(*NORM, timings)])
    assert save(found, tmp_path) == tmp_path / "GPU-1-x.json"
    assert load("GPU-1/x", tmp_path) == found
    assert len(found.subjects[0].estimates) == 4


def test_storage_is_strict(tmp_path: Path) -> None:
    assert load("GPU-0", tmp_path) is None
    assert load("é" * 5000, tmp_path) is None
    path = save(calibration(against_itself(9e6, 0.001), gpu_uuid="GPU-1/x"), tmp_path)
    whole = path.read_text()
    for spoilt in ("", "{}", whole.replace('"driver"', '"drivers"'), whole.replace("GPU-1/x", "GPU-2")):
        path.write_text(spoilt)
        with pytest.raises(ResultsError):
            load("GPU-1/x", tmp_path)


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="cannot be written"):
        save(calibration(), tmp_path / "file")
