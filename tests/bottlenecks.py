"""Seven solutions with a known bottleneck, and which one `kbench profile` names: `python tests/bottlenecks.py`.

Needs a GPU of compute capability 8.0 or newer. Ends with 0 if all are named right.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from kbench.catalog import registry
from kbench.core.bottleneck import Bottleneck
from kbench.core.errors import KbenchError
from kbench.core.events import RunOptions
from kbench.core.model import Failed
from kbench.profile import Explained, profile
from kbench.report.table import one_line, table
from kbench.storage.settings import Settings

FOLDER = Path(__file__).parent / "gpu" / "bottlenecks"
SOLUTIONS = {
    "low_occupancy": (Bottleneck.LOW_OCCUPANCY, "scaled", "default"),
    "spills": (Bottleneck.WASTED_ACCESSES, "iterated", "default"),
    "launch_bound": (Bottleneck.LAUNCH_BOUND, "scaled", "tiny"),
    "tail_effect": (Bottleneck.LOW_OCCUPANCY, "iterated", "default"),
    "memory_bound": (Bottleneck.MEMORY_BOUND, "scaled", "default"),
    "synchronising": (Bottleneck.LAUNCH_BOUND, "scaled", "medium"),
    "library_only": (Bottleneck.LIBRARY_ONLY, "product", "default"),
}
"""By name: the bottleneck, the problem that it solves, and its case."""


def named() -> Iterator[dict[str, str]]:
    """Profile each solution on a GPU; yield what it is and what it was taken for. Raises KbenchError."""
    for name, (expected, problem, case) in SOLUTIONS.items():
        entry = registry.find_problem(FOLDER / f"{problem}.py", Settings())
        solution = registry.find_solution(entry, FOLDER / f"{name}.py", Settings())
        options = RunOptions(device="cuda", cases=(case,), save=False)
        *_, last = profile(entry, [solution], options)
        assert isinstance(last, Explained)
        if isinstance(last.outcome, Failed) or last.advice is None:
            said, sentence = "failed", getattr(last.outcome, "reason", "")
        else:
            said, sentence = last.advice.bottleneck.value, last.advice.sentence
        right = "yes" if said == expected.value else "NO"
        cells = {"solution": name, "expected": expected.value, "named": said, "right": right}
        yield {**cells, "sentence": one_line(sentence)}


def shown(found: list[dict[str, str]]) -> str:
    """Write what was expected beside what was named."""
    right = sum(each["right"] == "yes" for each in found)
    return f"{table(found, wraps={'sentence'}).text(width=140)}\n{right} of {len(found)} are right"


def main() -> int:
    """Print the table."""
    try:
        found = list(named())
    except KbenchError as error:
        sys.stderr.write(f"error: {error.message}\n\nhint: {error.hint}\n")
        return int(error.exit_code)
    sys.stdout.write(f"{shown(found)}\n")
    return 0 if all(each["right"] == "yes" for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
