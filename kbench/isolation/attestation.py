"""A worker's claim against the judge's own clock: the slope over back-to-back calls, and what may excuse a gap."""

import math
import secrets
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from kbench.core.model import Sample, Status
from kbench.core.rightness import GROSS, GROSS_NS, HANDOVER_NS, PROVED_FROM, Claim, Seen, attest, attest_single
from kbench.isolation.candidate import RefusalError
from kbench.isolation.delivery import deliver
from kbench.isolation.trial import Trial, secret_seed
from kbench.measure.timing import Timer

ATTEST_COUNTS = (1, 2, 4, 8, 16)
ATTEST_ROUNDS = 3
ATTEST_ATTEMPTS = 6
GROSS_ATTEMPTS = 3
"""A claim that the slope exceeds grossly after so many attempts is given no further one."""
SLACK_NS = {"events": 10_000, "host": 100_000}
"""Describing and handing over a result overlaps with a GPU's work, but adds to a CPU's."""
DOUBTFUL_FROM = {"events": PROVED_FROM, "host": 0.7}
"""A host's clock counts what other programs take from a call; below this share of the slope nothing excuses it."""
REQUEST_NS = {"events": 2_000_000, "host": 5_000_000}
"""What a request may take beside its calls; what a short one takes is the worker's own to say."""
EMPTY_NS = {"events": 500_000, "host": 2_000_000}
"""What a request of no call may take; a worker could lengthen it, so that one call seems to add less."""
FIRST_SLACK_NS = {"events": 150_000, "host": 500_000}
"""What waking up may add to the first call of a request, beside the share that `FIRST_CALL` grants."""
COLD = 2.0
"""How much longer the host's work may take in a worker that was just woken than in the judge."""
COPY_SPREAD = 1.25
"""How much longer a copy of one result may take in the worker than in the judge, by where its memory lies."""
REPEATS = 5
"""Measurements of what delivering a result takes, of which the shortest counts."""


class Attestation:
    """Holds the times that a worker claims in `samples` against wall times of the same calls."""

    def __init__(self, trial: Trial, timer: Timer, samples: Sequence[Sample]):
        self._trial = trial
        self._timer = timer
        self._samples = samples
        self.congested = False
        """Whether other programs took so much from a CPU that the reference's own slope had to be the measure."""

    def run(self) -> tuple[float, str]:
        """Bound the time per call by the slope of the judge's wall time over K back-to-back calls."""
        host = self._timer.name == "host"
        claims = sorted(s.t_event_ns for s in self._samples if s.arm == "candidate")
        submits = [s.t_host_submit_ns for s in self._samples if s.arm == "candidate"]
        claim = Claim(
            ns=statistics.median(claims), quiet_ns=claims[len(claims) // 4], submit_ns=statistics.median(submits)
        )
        copy_ns, beside = (self._copy_ns(), Seen(slope_ns=0.0)) if host else self._beside()
        count = self._trial.arena.count
        counts = [k for k in ATTEST_COUNTS if k <= count]
        # Where there is room for one call, what it adds to an empty request varies as such a request does: on an H200 a
        # call of 2.83 ms added 2.84 to 3.24 ms.
        slack_ns = (SLACK_NS if len(counts) > 1 else EMPTY_NS)[self._timer.name]
        kept = {"slack_ns": slack_ns, "doubtful_from": DOUBTFUL_FROM[self._timer.name]}
        shortest = dict.fromkeys(counts if len(counts) > 1 else [0, 1], math.inf)
        copy_ns *= 1 if len(counts) > 1 else COPY_SPREAD
        references = dict(shortest)
        for attempt in range(1, ATTEST_ATTEMPTS + 1):
            slope = slope_of(shortest, self.wall)
            # A worker could lengthen its short requests, so that all of them take the same.
            longest = max(shortest)
            slope = max(slope, (shortest[longest] - REQUEST_NS[self._timer.name]) / longest) - copy_ns
            verdict, factor = attest(claim, replace(beside, slope_ns=slope), **kept), 1.0
            if verdict == "failed" and host:
                factor = self._congestion(references, copy_ns)
                slope /= factor
                wider = {**kept, "slack_ns": factor * kept["slack_ns"]}
                verdict = attest(claim, replace(beside, slope_ns=slope), **wider)
            if verdict != "failed" and len(counts) > 1:
                single_ns, single = self._single(claim.ns, copy_ns, factor)
                verdict = single if single != "held" else verdict
                slope = single_ns if single == "failed" else slope
            if verdict == "held" and (slope <= 0 or claim.ns < REQUEST_NS[self._timer.name] / longest):
                verdict = "weak"  # a worker that lengthens its requests could have made any slope of calls so short
            if verdict != "failed":
                return slope, verdict
            if attempt >= GROSS_ATTEMPTS and slope > max(GROSS * claim.ns, claim.ns + GROSS_NS):
                break
        raise RefusalError(
            Status.TIMING_UNATTESTED,
            f"the solution claims {claim.ns / 1e3:.1f} us a call; the judge's clock says {slope / 1e3:.1f} us",
            self._trial.candidate.log,
        )

    def _single(self, claim_ns: float, copy_ns: float, congestion: float) -> tuple[float, str]:
        """Return what one call adds to an empty request, less congestion, and what that makes of the claim."""
        empty, one = EMPTY_NS[self._timer.name], math.inf
        for _ in range(ATTEST_ATTEMPTS):
            empty, one = min(empty, self.wall(0)), min(one, self.wall(1))
            single_ns = (one - empty - copy_ns) / congestion
            verdict = attest_single(claim_ns, single_ns, slack_ns=FIRST_SLACK_NS[self._timer.name])
            if verdict == "held":
                break
        return single_ns, verdict

    def _beside(self) -> tuple[float, Seen]:
        """Return the device's time to hand over a result, and what else a slope on a GPU is held against."""
        copy_ns, host_ns = self._handover_ns()
        reference = [s for s in self._samples if s.arm == "reference"]
        return copy_ns, Seen(
            slope_ns=0.0,
            reference_ns=statistics.median(s.t_event_ns for s in reference),
            reference_submit_ns=statistics.median(s.t_host_submit_ns for s in reference),
            handover_ns=HANDOVER_NS + COLD * host_ns,
        )

    def _congestion(self, shortest: dict[int, float], copy_ns: float) -> float:
        """Return by how much other programs and delivery lengthen many calls more than one: what the reference suffers.

        A processor that is shared is taken away from sixteen calls in a row sooner or later, however often one
        tries. The reference is called and its results are delivered the same way, with the worker stopped, and it is
        above suspicion.
        """
        alone = statistics.median(s.t_event_ns for s in self._samples if s.arm == "reference")
        factor = (slope_of(shortest, self._reference_wall) - copy_ns) / max(1, alone)
        if factor > 1:
            self.congested = True
        return max(1.0, factor)

    def _reference_wall(self, calls: int) -> int:
        """Return the wall time of `calls` back-to-back calls of the reference, each on fresh inputs, and delivery."""
        reference = self._trial.reference
        arguments = [reference.arguments(secret_seed()) for _ in range(calls)]
        targets = [self._trial.arena.outputs(slot) for slot in range(calls)]
        with self._trial.candidate.stopped():
            started = time.perf_counter_ns()
            for each, target in zip(arguments, targets, strict=True):
                deliver(reference.call(each), target, each)
            return time.perf_counter_ns() - started

    def wall(self, calls: int) -> int:
        """Return the judge's wall time of `calls` back-to-back calls, each on fresh inputs, all outputs checked."""
        reference = self._trial.reference
        expected = [reference.expect(reference.arguments(secret_seed())) for _ in range(calls)]
        slots = list(range(calls))
        reply = self._trial.call(expected, flush=False, attest=True, slots=slots)
        for slot, wanted in zip(slots, expected, strict=True):
            self._trial.judge_values(slot, wanted)
        return reply.wall_ns

    def _copy_ns(self) -> float:
        """Return what copying one result takes on a CPU: part of every wall time, but not of the call.

        What else there is to handing it over lengthens the reference as much (`_congestion`).
        """
        outputs = self._trial.arena.outputs(0)
        sources = [o.clone() for o in outputs]
        times = []
        for _ in range(REPEATS):
            started = time.perf_counter_ns()
            for target, source in zip(outputs, sources, strict=True):
                target.copy_(source)
            times.append(time.perf_counter_ns() - started)
        return min(times)

    def _handover_ns(self) -> tuple[float, float]:
        """Return the device's and the host's time to hand over a result, of as many in a row as a worker does."""
        arena = self._trial.arena
        slots = range(max(k for k in ATTEST_COUNTS if k <= arena.count))
        results = [[target.clone() for target in arena.outputs(slot)] for slot in slots]

        def hand_over(slot: int) -> None:
            deliver(results[slot], arena.outputs(slot), arena.inputs(slot))

        times = [self._timer.measure(hand_over, slots, flush=False) for _ in range(REPEATS)]
        return min(t.t_event_ns for t in times), min(t.t_submit_ns for t in times)


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
