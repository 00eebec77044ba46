"""What processes report that they read and started is kept once, within a limit."""

import pytest

from kbench.process import observed
from kbench.process.channel import WireError
from kbench.process.observed import Observed

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
