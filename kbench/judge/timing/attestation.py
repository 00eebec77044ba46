"""A worker's claim on a CPU against the judge's clock: the slope over back-to-back calls, and what excuses a gap."""

import math
import secrets
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from kbench.core.clocks import GROSS, GROSS_NS, attest_claim, attest_single
from kbench.core.model import Status
from kbench.judge.arena import Arena
from kbench.judge.refusal import RefusalError
from kbench.judge.timing.other_load import OtherLoad

ATTEST_COUNTS = (1, 2, 4, 8, 16)
ATTEST_ROUNDS = 3
ATTEST_ATTEMPTS = 6
GROSS_ATTEMPTS = 3
"""Attempts after which a claim that is grossly below the slope is refused."""
SLACK_NS = 100_000
"""Time that describing and copying a result adds to each call."""
ONE_SLOT_SLACK_NS = 2_000_000
"""With room for one call only, the time of an empty request is subtracted, and varies by this much."""
DOUBTFUL_FROM = 0.7
"""A host's clock counts what other programs take from a call; below this share of the slope nothing excuses it."""
CONGESTED_FROM = 1.1
BUSY_FROM = 0.25
"""Chosen. Share of all processors that other programs take, from which a machine is busy."""
BUSY_DOUBTFUL_FROM = 1 / GROSS
"""Where other programs lengthen the reference's calls by a tenth or more, or the machine is busy, the reference's slope
is no exact measure of what they take from the candidate's: honest claims were refused at 0.66 and 0.63 of it (2 cores,
load 4 to 8). Such a claim is weak, not false, unless it is grossly below. The candidate can make a machine look busy by
neither: both are measured while the reference is called, and it is stopped."""
REQUEST_NS = 5_000_000
"""Most time of a request beside its calls; below it, the worker's own figure is taken."""
EMPTY_NS = 2_000_000
"""Most time of an empty request; a worker could lengthen it, so that a call seems to add less."""
FIRST_SLACK_NS = 500_000
"""Most time that waking up adds to the first call of a request, beside the factor `FIRST_CALL`."""
COPY_SPREAD = 1.25
"""Factor by which copying a result may take longer in the worker than in the judge."""
REPEATS = 5
"""Number of measurements of copying a result; the shortest counts."""


class Attestation:
    """Holds the times per call that a worker claims (ns, by arm) against wall times of the same calls.

    `wall(arm, calls)` returns the judge's wall time of `calls` calls in a row; `others` counts what other programs take
    while the reference is called, and the candidate is stopped.
    """

    def __init__(
        self, arena: Arena, wall: Callable[[str, int], int], claims: Mapping[str, Sequence[int]], others: OtherLoad
    ):
        self._arena = arena
        self._wall = wall
        self._claims = claims
        self._others = others
        self.congested = False
        """Whether other programs took so much from a CPU that the reference's own slope had to be the measure."""
        self.half_width_ns = 0.0
        """By how much slopes of the last attempts differed."""

    def run(self, log: str) -> tuple[float, str]:
        """Bound the time per call by the slope of the judge's wall time over K back-to-back calls."""
        claims = sorted(self._claims["candidate"])
        claim_ns, quiet_ns = statistics.median(claims), claims[len(claims) // 4]
        counts = [k for k in ATTEST_COUNTS if k <= self._arena.count]
        single = len(counts) == 1
        slack_ns = ONE_SLOT_SLACK_NS if single else SLACK_NS
        copy_ns = self._copy_ns() * (COPY_SPREAD if single else 1)
        shortest = dict.fromkeys([0, 1] if single else counts, math.inf)
        references = dict(shortest)
        longest, slopes = max(shortest), []
        for attempt in range(1, ATTEST_ATTEMPTS + 1):
            slope = slope_of(shortest, lambda calls: self._wall("candidate", calls))
            # A worker could lengthen its short requests, so that all of them take the same.
            slope = max(slope, (shortest[longest] - REQUEST_NS) / longest) - copy_ns
            verdict = attest_claim(claim_ns, quiet_ns, slope, slack_ns=slack_ns, doubtful_from=DOUBTFUL_FROM)
            factor = 1.0
            if verdict == "failed":
                factor = self._congestion(references, copy_ns)
                slope /= factor
                wider_ns = factor * slack_ns
                busy = factor >= CONGESTED_FROM or self._others.share >= BUSY_FROM
                least = BUSY_DOUBTFUL_FROM if busy else DOUBTFUL_FROM
                verdict = attest_claim(claim_ns, quiet_ns, slope, slack_ns=wider_ns, doubtful_from=least)
            if verdict != "failed" and not single:
                single_ns, by_one = self._single(claim_ns, copy_ns, factor)
                verdict = by_one if by_one != "held" else verdict
                slope = single_ns if by_one == "failed" else slope
            if verdict == "held" and (slope <= 0 or claim_ns < REQUEST_NS / longest):
                verdict = "weak"  # a worker that lengthens its requests could have made any slope of calls so short
            if verdict == "held" and factor >= CONGESTED_FROM:
                verdict = "weak"  # excused by what the reference suffered, and so not confirmed
            slopes.append(slope)
            self.half_width_ns = (max(slopes) - min(slopes)) / 2
            if verdict != "failed":
                return slope, verdict
            if attempt >= GROSS_ATTEMPTS and slope > max(GROSS * claim_ns, claim_ns + GROSS_NS):
                break
        raise RefusalError(
            Status.TIMING_UNATTESTED,
            f"the solution claims {claim_ns / 1e3:.1f} us a call; the judge's clock says {slope / 1e3:.1f} us",
            log,
        )

    def _single(self, claim_ns: float, copy_ns: float, congestion: float) -> tuple[float, str]:
        """Return what one call adds to an empty request, less congestion, and what that makes of the claim."""
        empty, one = float(EMPTY_NS), math.inf
        for _ in range(ATTEST_ATTEMPTS):
            empty, one = min(empty, self._wall("candidate", 0)), min(one, self._wall("candidate", 1))
            single_ns = (one - empty - copy_ns) / congestion
            verdict = attest_single(claim_ns, single_ns, slack_ns=FIRST_SLACK_NS)
            if verdict == "held":
                break
        return single_ns, verdict

    def _congestion(self, shortest: dict[int, float], copy_ns: float) -> float:
        """Return by how much other programs and delivery lengthen many calls more than one: what the reference suffers.

        A processor that is shared is taken away from sixteen calls in a row sooner or later, however often one
        tries. The reference's worker is asked the same way, and it is above suspicion. Its quickest claim stands
        beside its shortest wall times: on a busy machine the median of a few claims was 2.6 times as long.
        """
        alone = min(self._claims["reference"])
        with self._others:
            slope = slope_of(shortest, lambda calls: self._wall("reference", calls))
        factor = (slope - copy_ns) / max(1, alone)
        if factor > 1:
            self.congested = True
        return max(1.0, factor)

    def _copy_ns(self) -> float:
        """Return what copying one result takes on a CPU: part of every wall time, but not of the call.

        What else there is to handing it over lengthens the reference as much (`_congestion`).
        """
        outputs = self._arena.outputs(0)
        sources = [o.clone() for o in outputs]
        times = []
        for _ in range(REPEATS):
            started = time.perf_counter_ns()
            for target, source in zip(outputs, sources, strict=True):
                target.copy_(source)
            times.append(time.perf_counter_ns() - started)
        return min(times)


def slope_of(shortest: dict[int, float], wall: Callable[[int], int]) -> float:
    """Return the least-squares slope, in ns per call, of the shortest wall time seen so far for each K.

    Disturbances only lengthen a wall time, so more rounds bring the shortest ones nearer to the truth.
    """
    for _ in range(ATTEST_ROUNDS):
        for k in sorted(shortest, key=lambda _: secrets.randbelow(1 << 30)):
            shortest[k] = min(shortest[k], wall(k))
    mean_k = statistics.mean(shortest)
    mean_t = statistics.mean(shortest.values())
    covariance = sum((k - mean_k) * (t - mean_t) for k, t in shortest.items())
    return covariance / sum((k - mean_k) ** 2 for k in shortest)
