"""The judge's clock on a GPU over two arms of a test."""

from typing import Any

import pytest
from arms import Arm

from kbench.judge.clock import gate_clock
from kbench.judge.clock.gate_clock import DeviceClock


@pytest.fixture
def clock_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(candidate: Arm, reference: Arm | None = None, **options: Any) -> DeviceClock:
        arms = {"candidate": candidate, "reference": reference or Arm(ns=20_000)}
        monkeypatch.setattr(gate_clock, "Rounds", lambda trial, _cache, _draws, *, judged: arms[trial])
        monkeypatch.setattr(gate_clock, "RecordedDraws", lambda _trial: None)
        return DeviceClock("candidate", "reference", cold=False, **{"replays": False, **options})

    return make
