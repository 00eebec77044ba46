"""Ten solutions with a known bottleneck, and which one `kbench profile` names: `python tests/bottlenecks.py [--ncu]`.

Needs a GPU of compute capability 8.0 or newer. Ends with 0 if at least nine are named right, or all that can be told
apart without hardware counters.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kbench.core.bottleneck import Bottleneck
from kbench.core.errors import KbenchError
from kbench.core.events import RunOptions
from kbench.core.model import Failed
from kbench.plugins import registry
from kbench.profile import Explained, profile
from kbench.report.table import Column, Table, one_line
from kbench.storage.settings import Settings

FOLDER = Path(__file__).parent / "gpu" / "bottlenecks"
PROBLEMS = {
    Bottleneck.UNCOALESCED: ("transposed", "default"),
    Bottleneck.LOW_OCCUPANCY: ("scaled", "default"),
    Bottleneck.SPILLS: ("iterated", "default"),
    Bottleneck.LAUNCH_BOUND: ("scaled", "tiny"),
    Bottleneck.BANK_CONFLICTS: ("transposed", "default"),
    Bottleneck.TAIL_EFFECT: ("iterated", "default"),
    Bottleneck.MEMORY_BOUND: ("scaled", "default"),
    Bottleneck.COMPUTE_BOUND: ("iterated", "default"),
    Bottleneck.SYNCHRONISING: ("scaled", "medium"),
    Bottleneck.LIBRARY_ONLY: ("product", "default"),
}
"""By bottleneck, which is the solution's name too: the problem that it solves, and its case."""
NEEDS_COUNTERS = frozenset({Bottleneck.UNCOALESCED, Bottleneck.BANK_CONFLICTS})
LEAST_RIGHT = 9
COLUMNS = (
    Column(title="expected"),
    Column(title="named"),
    Column(title="right"),
    Column(title="sentence", wraps=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """One solution: what it is, and what it was taken for."""

    expected: Bottleneck
    named: str
    sentence: str

    @property
    def right(self) -> bool:
        """Whether that is the same."""
        return self.named == self.expected.value


def named(*, counters: bool) -> Iterator[Named]:
    """Profile each solution on a GPU. Raises KbenchError where that cannot be."""
    for expected, (problem, case) in PROBLEMS.items():
        entry = registry.find_problem(FOLDER / f"{problem}.py", Settings())
        solution = registry.find_solution(entry, FOLDER / f"{expected.value}.py", Settings())
        options = RunOptions(device="cuda", cases=(case,), save=False)
        *_, last = profile(entry, [solution], options, counters=counters)
        assert isinstance(last, Explained)
        if isinstance(last.outcome, Failed) or last.advice is None:
            yield Named(expected=expected, named="failed", sentence=getattr(last.outcome, "reason", ""))
        else:
            yield Named(expected=expected, named=last.advice.bottleneck.value, sentence=last.advice.sentence)


def enough(found: list[Named], *, counters: bool) -> bool:
    """Return whether as many are right as must be."""
    right = {each.expected for each in found if each.right}
    return len(right) >= LEAST_RIGHT if counters else right >= set(PROBLEMS) - NEEDS_COUNTERS


def table(found: list[Named]) -> str:
    """Write what was expected beside what was named."""
    rows = [[each.expected.value, each.named, "yes" if each.right else "NO", one_line(each.sentence)] for each in found]
    shown = Table(columns=COLUMNS, rows=rows).text(width=140)
    return f"{shown}\n{sum(each.right for each in found)} of {len(found)} are right"


def main(arguments: list[str]) -> int:
    """Print the table."""
    counters = "--ncu" in arguments
    try:
        found = list(named(counters=counters))
    except KbenchError as error:
        sys.stderr.write(f"error: {error.message}\n\nhint: {error.hint}\n")
        return int(error.exit_code)
    sys.stdout.write(f"{table(found)}\n")
    return 0 if enough(found, counters=counters) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
