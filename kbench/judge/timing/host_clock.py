"""The clock on a CPU: the monotonic clock around each call in either worker, compared with the judge's own.

Each arm is called in a worker of its own, by the same requests, and is stopped while the other arm is called. The
judge's clock sees the claimed calls themselves, and the reference's worker shows the overhead of a request.
"""

import math
import secrets
import statistics
import time

from kbench.core.clocks import (
    LOST_NS,
    Burst,
    attest_bursts,
    attest_claim,
    attest_single,
    missing_ns,
    request_overhead,
)
from kbench.core.model import Status
from kbench.judge.exchange import Trial, secret_seed
from kbench.judge.refusal import RefusalError
from kbench.judge.timing.fetched_results import fetch
from kbench.judge.timing.readings import ArmSample, Conclusion, Doubt, Reply

CALLS = 15
TARGET_NS = 20_000_000
"""Largest number, and time, of calls in a row whose median counts: the first call finds cold caches. With calls of 0.3
ms, `eager --quick` read 0.83 to 1.21 in eight runs with 5 in a row, and 0.94 to 1.05 in six with 15 (2 cores)."""
REST_S = 2e-3
"""Pause before a call, so that the call starts with a new time slice."""
SIZING_REQUESTS = 3
LAST_REQUESTS = 4
"""Upper bound of the random number of requests before the request that ends in the kill."""
SINGLES = 6
"""Largest number of single calls that are compared with calls in a row; the shortest counts, as the least disturbed."""


class HostClock:
    """Times both arms on a CPU."""

    l2 = "none"
    flags: frozenset[str] = frozenset()

    def __init__(self, candidate: Trial, reference: Trial, *, fetches: bool):
        self._trials = {"candidate": candidate, "reference": reference}
        self._calls = 1
        self._conclusion: Conclusion | None = None
        self._bursts: dict[str, list[Burst]] = {arm: [] for arm in self._trials}
        self._fetches = fetches
        """True if results are read from the worker's memory, which takes no time of a request; else the workers copy
        them."""

    def prepare(self) -> None:
        """Find the number of calls of one sample.

        This method and those below raise UnfetchableError if results cannot be read from the worker's memory. All
        samples are dropped then, because a candidate could claim less in requests whose results are not read.
        """
        times = {arm: [self.read(arm).event_ns for _ in range(SIZING_REQUESTS)] for arm in self._trials}
        fastest = min(statistics.median(of_arm) for of_arm in times.values())
        self._calls = calls_of_a_sample(fastest, self._trials["candidate"].arena.count)
        self._bursts = {arm: [] for arm in self._trials}

    def read(self, arm: str) -> ArmSample:
        """Time a few calls of an arm in a row, each on fresh inputs, and take their median."""
        reply = self._ask(arm, self._timed_slots())
        event_ns, wall_ns = max(1, reply.event_ns), reply.wall_ns / self._calls
        self._bursts[arm].append(Burst(median_ns=event_ns, mean_ns=reply.sum_ns / self._calls, wall_ns=wall_ns))
        return ArmSample(event_ns=event_ns, judge_ns=round(wall_ns), submit_ns=reply.submit_ns, calls=self._calls)

    def prove(self, event_ns: float, pairs: int) -> None:
        """Compare the candidate's claims in the last `pairs` with the judge's clock. Raises RefusalError."""
        # The answer to a request that is not timed reports replaced functions.
        self._trials["candidate"].candidate.report()
        empty_ns = min(self._empty_ns(draws=self._calls if event_ns <= TARGET_NS else 0) for _ in range(SINGLES))
        overhead = request_overhead(self._bursts["reference"], empty_ns / self._calls)
        mine = self._bursts["candidate"]
        attested = attest_bursts(event_ns, mine[-pairs:], overhead, before=mine[:-pairs])
        outputs = () if self._fetches else self._trials["candidate"].arena.outputs(0)
        copied_bytes = sum(output.nbytes for output in outputs)
        lost_ns = LOST_NS if overhead.congested else 0.0
        verdict = attest_claim(event_ns, attested, copied_bytes=copied_bytes, lost_ns=lost_ns / self._calls)
        if verdict == "failed":
            raise self._refuted(event_ns, attested.ns)
        if self._calls > 1:
            in_a_row_ns = max(event_ns, attested.ns)
            single_ns, by_one = self._single(in_a_row_ns, empty_ns + overhead.saved_ns, lost_ns)
            if by_one == "failed":
                raise self._refuted(event_ns, single_ns)
            verdict = by_one if by_one != "held" else verdict
        missing = missing_ns(event_ns, attested, overhead)
        self._conclusion = Conclusion(
            clock="judge" if missing else "host",
            attestation="weak" if overhead.congested else verdict,
            attested=attested,
            missing_ns=missing,
            wall_ns={arm: statistics.median(each.median_ns for each in bursts) for arm, bursts in self._bursts.items()},
            flags=frozenset({"congested"} if overhead.congested else ()),
        )

    def _empty_ns(self, *, draws: int) -> float:
        """Return the time of a request without calls after `draws`, which make caches as cold as before calls.

        Long calls need no draws, because a request takes only 1 ms.
        """
        reference = self._trials["reference"].reference
        for _ in range(draws):
            reference.expect(reference.arguments(secret_seed()))
        return self._ask("reference", []).wall_ns

    def _single(self, in_a_row_ns: float, overhead_ns: float, lost_ns: float) -> tuple[float, str]:
        """Return the time of one call alone, and the verdict about calls in a row.

        The overhead is the reference's, because a candidate could lengthen its empty requests.
        """
        one = math.inf
        for _ in range(SINGLES):
            one = min(one, self._ask("candidate", [self._trials["candidate"].arena.random_slot()]).wall_ns)
            single_ns = one - overhead_ns
            verdict = attest_single(in_a_row_ns, single_ns, lost_ns=lost_ns)
            if verdict == "held":
                break
        return single_ns, verdict

    def _refuted(self, claim_ns: float, judge_ns: float) -> RefusalError:
        refusal = RefusalError(
            Status.TIMING_UNATTESTED,
            f"the solution claims {claim_ns / 1e3:.1f} µs a call; the judge's clock measured {judge_ns / 1e3:.1f} µs",
            self._trials["candidate"].candidate.log,
        )
        refusal.excess = judge_ns / max(1.0, claim_ns)
        return refusal

    def conclude(self, event_ns: float) -> Conclusion:  # noqa: ARG002
        """Return the conclusion that was reached while the candidate lived."""
        assert self._conclusion is not None, "proved before"
        return self._conclusion

    def kill_verify(self) -> None:
        """Kill the worker after a last request that looks like any other; then check the results.

        A random number of requests comes before it, and all of them look like timed or single calls.
        """
        trial = self._trials["candidate"]
        # A solution that folded its parameters after they had not changed for a while is wrong here.
        trial.candidate.vary_weights(trial.reference, secret_seed())
        for last in (*[False] * secrets.randbelow(LAST_REQUESTS), True):
            slots = self._timed_slots() if secrets.randbelow(2) else [trial.arena.random_slot()]
            self._ask("candidate", slots, kill=last)

    def slower_beside(self, paired_ns: float) -> bool:  # noqa: ARG002
        """Return False: on a CPU the candidate is stopped while the reference is called."""
        return False

    def doubts_the_reference(self) -> Doubt:
        """Return no doubt: the rule for claims takes a busy machine into account."""
        return Doubt.NONE

    def close(self) -> None:
        """Do nothing: nothing is mapped."""

    def _timed_slots(self) -> list[int]:
        count = self._trials["candidate"].arena.count
        start = secrets.randbelow(count)
        return [(start + n) % count for n in range(self._calls)]

    def _ask(self, arm: str, slots: list[int], *, kill: bool = False) -> Reply:
        trial = self._trials[arm]
        reference = trial.reference
        expected = [reference.expect(reference.arguments(secret_seed())) for _ in slots]
        time.sleep(REST_S)
        reply = trial.call(
            expected, poison=False, slots=slots, reports_places=self._fetches, kill=kill and not self._fetches
        )
        if self._fetches:
            if not reference.aliased:
                for slot in slots:  # a result may be the inputs' own memory, mapped once more
                    trial.arena.overwrite_inputs(slot, but=reference.mutates)
            with trial.candidate.understood():
                fetch(trial.candidate.pid, reply, [trial.arena.outputs(slot) for slot in slots])
            if kill:
                trial.candidate.kill()
        for slot, wanted in zip(slots, expected, strict=True):
            if arm == "candidate":
                trial.judge_values(slot, wanted)
            else:  # compared as well, so that both arms find the same caches
                trial.compare(trial.results(slot), wanted, None)
        return reply


def calls_of_a_sample(fastest_ns: float, slots: int) -> int:
    """Return the number of calls of one sample, each on its own slot; `fastest_ns` is the time of the faster arm."""
    return max(1, min(slots, CALLS, int(TARGET_NS / max(1.0, fastest_ns))))
