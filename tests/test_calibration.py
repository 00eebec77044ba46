"""The script behind results/calibration: what it plants is there, and its verdicts follow from the processes."""

import numpy as np
import pytest
import torch
from calibration import PLANTED, ROWS, Deck, judge, render, solutions, write_plugins
from records import make_run

from kbench.catalog import registry
from kbench.compare import measurements
from kbench.core.events import RunOptions
from kbench.storage.settings import Settings
from kbench.worker.solution import import_solution

QUIET = (0.9995, 1.0, 1.0002, 1.0004, 0.9998, 1.0001, 0.9997, 1.0003)


def measured(folder, quiet=QUIET):
    return make_run(
        folder, "short", {name: [ratio * (1 + more / 100) for ratio in quiet] for name, more in solutions().items()}
    )


def test_every_solution_does_what_the_reference_does_on_more_rows(tmp_path):
    write_plugins(tmp_path, ("short",), "cpu")
    problem = registry.find_problem(tmp_path / "known_work.py", Settings())
    x = torch.randn(ROWS + max(PLANTED), 4)
    for name in solutions():
        entry = registry.find_solution(problem, name, Settings())
        done = import_solution(entry.path).ModelNew()(x)
        assert torch.equal(done, 2 * x[:ROWS])


def test_verdicts_follow_from_the_processes(tmp_path):
    tallies = {one.planted: one for one in judge(measured(tmp_path), "short", draws=40)}
    assert (tallies[0].failed, tallies[0].truth) == (0, 0.0)
    assert [tallies[more].failed for more in PLANTED] == [40, 40, 40]
    assert [tallies[more].truth for more in PLANTED] == pytest.approx([0.01, 0.02, 0.05], rel=1e-6)


def test_noise_between_processes_hides_what_is_smaller(tmp_path):
    noisy = [1 + 0.03 * offset for offset in (-1.2, -0.7, -0.3, 0.0, 0.2, 0.5, 0.9, 1.3)]
    tallies = {one.planted: one for one in judge(measured(tmp_path, noisy), "short", draws=40)}
    assert tallies[0].failed == 0
    assert tallies[1].failed < 20


def test_no_process_is_dealt_twice_to_one_verdict(tmp_path):
    found = {key[1]: one for key, one in measurements(measured(tmp_path)).items()}
    deck = Deck(np.random.default_rng(0), [found["same_a"], found["same_b"]])
    dealt = [deck.deal() for _ in range(2 * len(QUIET))]
    assert sorted(dealt) == sorted([*found["same_a"].log_ratios, *found["same_b"].log_ratios])
    deck.shuffle()
    assert len(deck.run(RunOptions(precision=0.5)).log_ratios) == RunOptions().processes


def test_the_report_adds_up(tmp_path):
    run = measured(tmp_path)
    text = render(judge(run, "short", draws=10), [run])
    assert "False alarms: 0 of 10." in text
    assert "us | 5 % | +5.00 % | 10 of 10 |" in text
