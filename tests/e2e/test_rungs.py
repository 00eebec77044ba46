"""An honest solution is verified and timed in lower rungs of the sandbox; all other tests run in the highest."""

import sys
from pathlib import Path

import pytest
from require import require_rung
from verdicts import entries, verdicts

import kbench.engine.run
from kbench.core.model import Passed
from kbench.sandbox.rungs import Rung

SWISH = Path(__file__).parents[1] / "kernelbench" / "25_Swish.py"


@pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")
@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("rung", [Rung.LIMITS, Rung.LANDLOCK])
def test_the_reference_against_itself_is_timed(rung, monkeypatch, tmp_path):
    require_rung(rung)
    monkeypatch.setattr(kbench.engine.run, "sandbox_rung", lambda *_: int(rung))
    timed = {
        "verify_only": False,
        "wait_for_device": True,
        "processes": 1,
        "max_processes": 1,
        "pairs": 4,
        "precision": 0.9,
    }
    judged = verdicts(*entries(SWISH, "eager"), cases=("small",), results_dir=tmp_path, **timed)["eager"]
    assert isinstance(judged.outcome, Passed), judged.outcome
    (row,) = judged.rows
    assert row.timer in {"host", "judge"}, "short calls on a machine that may be busy"
    assert row.speedup is not None
