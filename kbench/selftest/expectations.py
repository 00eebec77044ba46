"""What is wrong with how a fixture of the selftest's corpus ended."""

import fnmatch
from collections.abc import Sequence

from kbench.core.model import Outcome, Status
from kbench.selftest.corpus import Fixture

TOO_FAST = "passed with a speed-up of"


def complain(
    fixture: Fixture, status: str, seen: Sequence[str], speedup: float | None, escapes: Sequence[str]
) -> str | None:
    """Return what is wrong with a fixture's status; None if it is as expected."""
    if escapes:
        return f"not contained: {', '.join(escapes)}"
    if status not in fixture.expect:
        return f"{status}, expected {' or '.join(fixture.expect)}"
    for pattern in fixture.findings:
        if not fnmatch.filter(seen, pattern):
            return f"no finding `{pattern}`"
    limit = fixture.speedup_below
    if status == Status.PASSED and limit is not None and speedup is not None and speedup >= limit:
        return f"{TOO_FAST} {speedup:.2f}, must stay below {limit:g}"
    return None


def complain_of_level(fixture: Fixture, status: str, outcome: Outcome) -> str | None:
    """Return what is wrong with the level of a fixture that did the task; None if it is as expected."""
    if status not in {Status.PASSED, Status.BELOW_LEVEL}:
        return None  # which the fixture expects, or there is a complaint already
    if fixture.level and outcome.level != fixture.level:
        return f"holds the level `{outcome.level}`, expected `{fixture.level}`"
    for pattern in fixture.lacks:
        if not fnmatch.filter(outcome.lacks, pattern):
            return f"does not lack `{pattern}`"
    return None


def evidence(outcome: Outcome) -> tuple[str, ...]:
    """Return the codes of the findings, and `contract_` with the state of the contract unless it held."""
    codes = [finding.code for finding in outcome.findings]
    if outcome.correctness is not None and outcome.correctness.contract != "held":
        codes.append(f"contract_{outcome.correctness.contract}")
    return tuple(codes)
