"""The attestation rule: what the judge's own clock says of a time per call, and which clock a row may quote.

On a GPU a round of K calls is queued behind a gate that the judge opens, and ends with a flag that it waits for:

    total = constant + K * time per call

The constant (the gate opens, the contexts change places, the flag is seen) is measured with the reference's worker, in
rounds of no call at all. On an H200 it is 153 us and varies by 0.5 us between rounds (results/calibration/README.md).
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kbench.core.stats import median_interval

SWITCH_NS = 20_000
"""By how much a process could shorten its constant, by keeping the device awake with a kernel that polls: measured,
153 us with stream memory operations and 133 us behind a spinning kernel."""
LATE_NS = 25_000
"""By how much the judge's look at results right after the flag may vary by itself: measured, 155 to 180 us."""
VISIBLE_NS = 200_000
"""Chosen: inputs are visible for some 0.1 ms before the gate opens. Who keeps the device busy to be there then makes
that last by a time slice or more (1 to 2 ms, measured behind a spinning kernel)."""
QUOTED_FROM = 0.98
"""A claim below this share of the judge's time is not quoted, however wide the interval is."""
HELD_WITHIN = 0.2
"""The widest half-width, as a share of the time, that still says something of it."""
FIRST_CALL = 1.5
"""How much longer a call may take in a round of its own, beside what is uncertain of such a round: caches are cold."""
REFUTED_BELOW = 0.9
"""A claim below this share of the judge's time is a false one: events that are honest agree within a percent."""


class QuotedClock(StrEnum):
    """Whose time a row quotes."""

    EVENTS = "events"
    """CUDA events in the worker, within the bounds of the judge's clock."""
    GATE = "gate"
    """The judge's clock, since the events say something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round, on the judge's clock: K calls between the opened gate and the raised flag."""

    calls: int
    total_ns: int
    late_ns: int
    """From the flag until the judge has read some of the results."""
    visible_ns: int = 0
    """How long the inputs were visible before the gate was opened, less what copying them takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """What a round takes beside its calls, with half the width of its interval; and each call beside itself."""

    ns: float
    half_width_ns: float
    copy_ns: float = 0.0
    """Of each call: a copy of its result, where that is part of the round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attested:
    """A time per call that the judge vouches for: within `half_width_ns` of the truth."""

    ns: float
    half_width_ns: float


def constant_of(empty: Sequence[Round]) -> Constant:
    """Return the constant from rounds of no call.

    Raises:
        ValueError: for no round.
    """
    totals = [float(each.total_ns) for each in empty]
    return Constant(ns=statistics.median(totals), half_width_ns=_half_width(totals))


def per_call_ns(each: Round, constant: Constant) -> float:
    """Return the time per call of one round, at least one nanosecond."""
    return max(1.0, (each.total_ns - constant.ns) / each.calls - constant.copy_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualDelays:
    """How late looks are, and how long inputs are visible, in rounds of the reference (ns)."""

    late_ns: float
    visible_ns: float
    late_noise_ns: float = LATE_NS
    """By how much a look may be late by itself."""


def usual_of(rounds: Sequence[Round]) -> UsualDelays:
    """Return what is usual in these rounds."""
    return UsualDelays(
        late_ns=statistics.median(each.late_ns for each in rounds),
        visible_ns=statistics.median(each.visible_ns for each in rounds),
    )


def usual_borne_out(reference: Sequence[Round], after: Sequence[Round]) -> UsualDelays:
    """Return what is usual in rounds of the reference, as far as those after the candidate's death bear it out.

    While it lives, a candidate can make the reference's looks late, so that its own seem usual. After its death looks
    still vary by what else the machine does: by as much, one may be late without a reason, and no less is uncertain.
    """
    beside, alone = usual_of(reference), usual_of(after)
    noise_ns = max(float(LATE_NS), float(max(r.late_ns for r in after) - min(r.late_ns for r in after)))
    return UsualDelays(
        late_ns=alone.late_ns if beside.late_ns - alone.late_ns > noise_ns else beside.late_ns,
        visible_ns=alone.visible_ns if beside.visible_ns - alone.visible_ns > VISIBLE_NS else beside.visible_ns,
        late_noise_ns=noise_ns,
    )


def attest(rounds: Sequence[Round], constant: Constant, usual: UsualDelays) -> Attested:
    """Return the time per call of an arm over its rounds of one process.

    Whoever raises the flag before its work is done keeps the device busy, and the judge's look comes late by as much:
    that is added. Whoever polls for the inputs keeps it busy while they are revealed: what that takes longer is added,
    too. What is left to gain is part of the half-width.

    Raises:
        ValueError: for no round.
    """
    times = [per_call_ns(each, constant) for each in rounds]
    calls = statistics.median(each.calls for each in rounds)
    mine = usual_of(rounds)
    excesses = (mine.late_ns - usual.late_ns, usual.late_noise_ns), (mine.visible_ns - usual.visible_ns, VISIBLE_NS)
    hidden_ns = sum(excess for excess, noise in excesses if excess > noise)
    unseen_ns = constant.half_width_ns + SWITCH_NS + usual.late_noise_ns
    return Attested(
        ns=statistics.median(times) + hidden_ns / calls,
        # Whoever writes results where they are to be copied saves the copy.
        half_width_ns=_half_width(times) + unseen_ns / calls + constant.copy_ns,
    )


def clock_to_quote(event_ns: float, attested: Attested) -> QuotedClock | None:
    """Say whose time is reported: events where they agree with the judge's clock, else the judge's.

    None: the events claim so much less that the claim is refuted.
    """
    if event_ns < REFUTED_BELOW * (attested.ns - attested.half_width_ns):
        return None
    # A worker that has few calls queued widens the interval, and must not profit from it.
    agree = abs(event_ns - attested.ns) <= attested.half_width_ns and event_ns >= QUOTED_FROM * attested.ns
    return QuotedClock.EVENTS if agree else QuotedClock.GATE


def _half_width(values: Sequence[float]) -> float:
    """Half the width of the median's interval; of too few values for one, half of their range."""
    interval = median_interval(values)
    return interval.half_width if interval is not None else (max(values) - min(values)) / 2
