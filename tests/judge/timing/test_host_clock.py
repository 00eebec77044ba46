"""What a host's clock makes of a slope, without workers."""

from types import SimpleNamespace
from typing import Any

import pytest

from kbench.judge.timing import host_clock
from kbench.judge.timing.host_clock import HostClock


@pytest.mark.parametrize(("slope_ns", "attested_ns"), [(62_000.0, 62_000.0), (-13_600.0, None)])
def test_a_slope_below_zero_says_nothing(monkeypatch: pytest.MonkeyPatch, slope_ns: float, attested_ns: float | None):
    class Found:
        half_width_ns, congested = 1_000.0, False

        def __init__(self, *_: Any):
            pass

        def run(self, _log: str) -> tuple[float, str]:
            return slope_ns, "weak"

    monkeypatch.setattr(host_clock, "Attestation", Found)
    trial: Any = SimpleNamespace(arena=None, candidate=SimpleNamespace(log="", pid=1))
    clock = HostClock(trial, trial)
    clock._claims = {"candidate": [60_000], "reference": [60_000]}
    clock.prove(60_000)
    attested = clock.conclude(60_000).attested
    assert (attested.ns if attested is not None else None) == attested_ns
