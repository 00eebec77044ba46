"""What processes report that they read and started is kept once, within a limit; and options arrive as sent."""

import json
import math
from pathlib import Path

import pytest

from kbench.core.events import RunOptions
from kbench.core.levels import Level
from kbench.process import observed
from kbench.process.channel import WireError
from kbench.process.observed import Observed
from kbench.process.options import decode_options, encode_options

NOTHING = {"files": [], "folders": [], "needs": []}


def test_reports_are_kept_once_in_their_order():
    found = Observed()
    found.add({"files": ["/b", "/a"], "folders": ["/"], "needs": []})
    found.add({"files": ["/a", "/c"], "folders": ["/"], "needs": ["ran `g++`"]})
    assert found.to_json() == {"files": ["/b", "/a", "/c"], "folders": ["/"], "needs": ["ran `g++`"]}


def test_no_more_is_kept_than_the_limit(monkeypatch):
    monkeypatch.setattr(observed, "MAX_OBSERVED", 3)
    found = Observed()
    for files in (["/a", "/b"], ["/b", "/c", "/d"]):
        found.add({**NOTHING, "files": files})
    assert found.files == ["/a", "/b", "/c"]


@pytest.mark.parametrize(
    "report",
    [None, [], {}, {**NOTHING, "files": "/a"}, {**NOTHING, "needs": [3]}, {**NOTHING, "folders": ["/\0"]}],
    ids=repr,
)
def test_what_no_worker_sends_is_refused(report):
    with pytest.raises(WireError):
        Observed().add(report)


def test_one_report_has_a_limit(monkeypatch):
    monkeypatch.setattr(observed, "MAX_OBSERVED", 2)
    with pytest.raises(WireError, match="more than 2"):
        Observed().add({**NOTHING, "files": ["/a", "/b", "/c"]})


def test_options_arrive_as_they_were_sent():
    options = RunOptions(
        device="cuda:1",
        cases=("small", "r*"),
        overrides={"shape": (2, 3), "scale": math.inf, "name": "x"},
        budget_s=2.5,
        call_timeout_s=3.0,
        level=Level.GENERAL,
        accept=("strides",),
        results_dir=Path("/elsewhere"),
    )
    for each in (RunOptions(), options):
        assert decode_options(json.loads(json.dumps(encode_options(each)))) == each
