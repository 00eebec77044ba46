"""Sources whose first line says what judging them comes to, and a pool that judges by it, without processes."""

import threading
from collections.abc import Sequence
from pathlib import Path

from sweeping import PROBLEM, FakeJudge, failed, passed
from waiting import PATIENCE_S

from kbench.api.judge import Judge
from kbench.catalog.registry import Entry
from kbench.catalog.shapes import Derived
from kbench.core.model import Case, Status
from kbench.engine.unit import TimeLeft, Unit, UnitResult

CASES = f"CASES = {{'default': {{}}, 'small': {{'n': 2}}, 'ragged': {{'n': 3}}}}\nn = 4\n{PROBLEM}"
"""A problem that lists its shapes, so that nobody has to look for them."""


def solution(says: str = "passed", number: int = 0) -> str:
    """`says` is a status, `hangs`, or `waits`: it passes once its pool releases it."""
    return f"# {says} {number}\nclass ModelNew: ...\n"


class SourceJudge(FakeJudge):
    """Judges by the first line of the source."""

    released: threading.Event

    def evaluate(self, unit: Unit, following: Sequence[Entry] = (), left: TimeLeft | None = None) -> UnitResult:
        text = Path(unit.solution.path).read_text()
        said = text.split()[1] if text.startswith("# ") else "passed"
        self.judged.append((text, unit.process))
        self.guard.report(unit.started("verify"))
        if said == "hangs":
            self.interrupted.wait(30)
            self.interrupted.clear()
            return failed(Status.HARNESS_ERROR, "the judge is gone")
        if said == "raises":
            raise ZeroDivisionError("a defect")
        if said == "waits":
            assert self.released.wait(PATIENCE_S)
            said = "passed"
        self.guard.report(unit.ended("verify", 0.0))
        if said == "passed":
            return passed(unit.process, timed=not unit.options.verify_only)
        return failed(Status(said), f"because of {text.splitlines()[0]}")

    def derive(self, expected: Sequence[Entry], case: Case) -> Derived:
        return Derived()


class Pool:
    """Makes judges that a test can look into."""

    def __init__(self) -> None:
        self.judges: list[SourceJudge] = []
        self.released = threading.Event()

    def make(self, _device, guard, _scratch) -> SourceJudge:
        judge = SourceJudge({}, guard)
        judge.released = self.released
        self.judges.append(judge)
        return judge

    def judge(self, **options) -> Judge:
        told = {"device": "cpu", "verify_only": True, "trusted": True, "wait_for_device": False, "lanes": 2}
        return Judge(make=self.make, **{**told, **options})

    @property
    def judged(self) -> list[str]:
        return [text for judge in self.judges for text, _ in judge.judged]
