"""The clock on a CPU: the judge's own, around requests of calls in a row, less an empty request.

Both arms are called in workers of their own, by the same requests; each is stopped while the other is called.
"""

import math
import secrets
import statistics
import time

from kbench.core.clocks import (
    BATCHED_NS,
    HELD_WITHIN,
    REFUTED_BELOW,
    Attested,
    attest_requests,
    attest_single,
    claim_is_quoted,
)
from kbench.judge.exchange import Trial, secret_seed
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
EMPTY_REQUESTS = 6
SINGLES = 30
"""Largest number of single calls that are compared with calls in a row; other programs can only lengthen a call."""


class HostClock:
    """Times both arms on a CPU."""

    l2 = "none"
    flags: frozenset[str] = frozenset()

    def __init__(self, candidate: Trial, reference: Trial, *, fetches: bool):
        self._trials = {"candidate": candidate, "reference": reference}
        self._calls = 1
        self._conclusion: Conclusion | None = None
        self._empty: list[float] = []
        self._times: dict[str, list[float]] = {arm: [] for arm in self._trials}
        self._fetches = fetches
        """True if results are read from the worker's memory, outside the timed request; else the workers copy them."""

    def prepare(self) -> None:
        """Find the number of calls of one sample, and the time of a request without calls.

        This method and those below raise UnfetchableError if results cannot be read from the worker's memory.
        """
        self._empty = self._empty_requests()
        times = {arm: [self.read(arm).judge_ns for _ in range(SIZING_REQUESTS)] for arm in self._trials}
        fastest = min(statistics.median(of_arm) for of_arm in times.values())
        self._calls = calls_of_a_sample(fastest, self._trials["candidate"].arena.count)
        self._empty = self._empty_requests()
        self._times = {arm: [] for arm in self._trials}

    def read(self, arm: str) -> ArmSample:
        """Time a few calls of an arm in a row, each on fresh inputs."""
        reply = self._ask(arm, self._timed_slots())
        judge_ns = max(1.0, (reply.wall_ns - statistics.median(self._empty)) / self._calls)
        self._times[arm].append(judge_ns)
        event_ns = max(1, reply.event_ns)
        return ArmSample(event_ns=event_ns, judge_ns=round(judge_ns), submit_ns=reply.submit_ns, calls=self._calls)

    def prove(self, event_ns: float, pairs: int) -> None:
        """Compare the candidate's calls in the last `pairs` with single calls, and its claim with the judge's time."""
        # The answer to a request that is not timed reports replaced functions.
        self._trials["candidate"].candidate.report()
        after = self._empty_requests()
        attested = attest_requests(self._times["candidate"][-pairs:], self._empty, after, self._calls)
        alone = "held"
        if self._calls > 1:
            alone, single_ns = self._single(attested.ns)
            if alone == "together":
                attested = Attested(ns=single_ns, half_width_ns=attested.half_width_ns)
        vague = attested.half_width_ns > HELD_WITHIN * attested.ns or attested.ns < BATCHED_NS
        attestation = "weak" if vague or alone != "held" or not self._fetches else "held"
        flags = {"claims_less"} if event_ns < REFUTED_BELOW * (attested.ns - attested.half_width_ns) else set()
        self._conclusion = Conclusion(
            clock="host" if claim_is_quoted(event_ns, attested, attestation) else "judge",
            attestation=attestation,
            attested=attested,
            wall_ns={arm: statistics.median(times) for arm, times in self._times.items()},
            flags=frozenset(flags if self._fetches else {*flags, "copies_results"}),
        )

    def _empty_requests(self) -> list[float]:
        """Time requests without calls in the reference's worker, since a candidate could lengthen its own.

        Each comes after as many draws as a request with calls, which leave caches as cold. Long calls need none,
        because a request takes only 1 ms.
        """
        reference = self._trials["reference"].reference
        draws = self._calls if self._calls > 1 else 0
        times = []
        for _ in range(EMPTY_REQUESTS):
            for _ in range(draws):
                reference.expect(reference.arguments(secret_seed()))
            times.append(float(self._ask("reference", []).wall_ns))
        return times

    def _single(self, in_a_row_ns: float) -> tuple[str, float]:
        """Return the verdict about calls in a row by single calls, and the shortest single call."""
        empty_ns, single_ns, found = statistics.median(self._empty), math.inf, ""
        for _ in range(SINGLES):
            slots = [self._trials["candidate"].arena.random_slot()]
            single_ns = min(single_ns, self._ask("candidate", slots).wall_ns - empty_ns)
            found = attest_single(single_ns, in_a_row_ns)
            if found == "held":
                break
        return found, single_ns

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
        """Return no doubt: no claim is refused on a CPU."""
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
        reply = trial.call(expected, poison=False, slots=slots, kept=self._fetches, kill=kill and not self._fetches)
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
