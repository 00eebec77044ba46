"""The clock on a CPU: the monotonic clock around each call in either worker, held against the judge's own.

Both arms are called in workers of their own, by the same requests; each is stopped while the other is called.
"""

import secrets
import statistics
import time

from kbench.core.clocks import Attested
from kbench.judge.exchange import Trial, secret_seed
from kbench.judge.timing.attestation import ATTEST_COUNTS, Attestation
from kbench.judge.timing.other_load import OtherLoad
from kbench.judge.timing.readings import ArmSample, Conclusion, Doubt, Reply

CALLS = 15
TARGET_NS = 20_000_000
"""Calls in a row and their median: what ran between two calls has the caches when the first one begins. Of calls of
0.3 ms, `eager --quick` read 0.83 to 1.21 in eight runs with 5 in a row, and 0.94 to 1.05 in six with 15 (2 cores)."""
REST_S = 2e-3
"""Pause before a call, so that the call starts with a time slice of its own."""
SIZING_REQUESTS = 3
LAST_REQUESTS = 4
"""Fewer than this many requests come before the one that ends in the kill; the number is random."""


class HostClock:
    """Times both arms on a CPU."""

    l2 = "none"
    flags: frozenset[str] = frozenset()

    def __init__(self, candidate: Trial, reference: Trial):
        self._trials = {"candidate": candidate, "reference": reference}
        self._calls = 1
        self._conclusion: Conclusion | None = None
        self._claims: dict[str, list[int]] = {"candidate": [], "reference": []}

    def prepare(self) -> None:
        """Find how many calls make one sample."""
        times = {arm: [self.read(arm).event_ns for _ in range(SIZING_REQUESTS)] for arm in self._trials}
        fastest = min(statistics.median(of_arm) for of_arm in times.values())
        self._calls = calls_of_a_sample(fastest, self._trials["candidate"].arena.count)
        self._claims = {"candidate": [], "reference": []}

    def read(self, arm: str) -> ArmSample:
        """Time a few calls of an arm in a row, each on fresh inputs, and take their median."""
        count = self._trials[arm].arena.count
        start = secrets.randbelow(count)
        reply = self._ask(arm, [(start + n) % count for n in range(self._calls)])
        event_ns = max(1, reply.event_ns)
        self._claims[arm].append(event_ns)
        judge_ns = round(reply.wall_ns / self._calls)
        return ArmSample(event_ns=event_ns, judge_ns=judge_ns, submit_ns=reply.submit_ns, calls=self._calls)

    def prove(self, event_ns: float) -> None:  # noqa: ARG002 - the claims themselves are held
        """Hold the candidate's claims against the slope of the judge's wall time. Raises RefusalError."""
        others = OtherLoad(self._trials["reference"].candidate.pid)
        attesting = Attestation(self._trials["candidate"].arena, self.wall, self._claims, others)
        slope_ns, attestation = attesting.run(self._trials["candidate"].candidate.log)
        walls = {arm: statistics.median(claims) for arm, claims in self._claims.items()}
        self._conclusion = Conclusion(
            clock="host",
            attestation=attestation,
            # On a busy machine more calls may seem to take less time than fewer: that says nothing.
            attested=Attested(ns=slope_ns, half_width_ns=attesting.half_width_ns) if slope_ns > 0 else None,
            wall_ns=walls,
            flags=frozenset({"congested"} if attesting.congested else ()),
        )

    def conclude(self, event_ns: float) -> Conclusion:  # noqa: ARG002
        """Return what was proved while the candidate lived."""
        assert self._conclusion is not None, "proved before"
        return self._conclusion

    def kill_verify(self) -> None:
        """After a last request that looks like any other, kill the worker; check what nobody can write any more.

        It comes at random after some more that the judge's clock looks on, and is one of these itself or a timed one.
        """
        trial = self._trials["candidate"]
        # Whoever folded the parameters once and for all, when they had not changed for a while, is found out here.
        trial.candidate.vary_weights(trial.reference, secret_seed())
        counts = [k for k in ATTEST_COUNTS if k <= trial.arena.count]
        for _ in range(secrets.randbelow(LAST_REQUESTS)):
            self._ask("candidate", list(range(secrets.choice(counts))), attest=True)
        attest = bool(secrets.randbelow(2))
        slots = list(range(secrets.choice(counts))) if attest else [trial.arena.random_slot()]
        self._ask("candidate", slots, attest=attest, kill=True)

    def slower_beside(self, paired_ns: float) -> bool:  # noqa: ARG002
        """Return False: on a CPU the candidate is stopped while the reference is called."""
        return False

    def doubts_the_reference(self) -> Doubt:
        """Doubt nothing: a busy machine is part of the rule by which claims are held."""
        return Doubt.NONE

    def close(self) -> None:
        """Do nothing: nothing is mapped."""

    def wall(self, arm: str, calls: int) -> int:
        """Return the judge's wall time of `calls` calls in a row in ns, each on fresh inputs, all outputs checked."""
        return self._ask(arm, list(range(calls)), attest=True).wall_ns

    def _ask(self, arm: str, slots: list[int], *, attest: bool = False, kill: bool = False) -> Reply:
        trial = self._trials[arm]
        reference = trial.reference
        expected = [reference.expect(reference.arguments(secret_seed())) for _ in slots]
        time.sleep(REST_S)
        reply = trial.call(expected, attest=attest, slots=slots, kill=kill)
        for slot, wanted in zip(slots, expected, strict=True):
            if arm == "candidate":
                trial.judge_values(slot, wanted)
            else:  # compared as well, so that both arms find the caches alike
                trial.compare(trial.results(slot), wanted, None)
        return reply


def calls_of_a_sample(fastest_ns: float, slots: int) -> int:
    """Return how many calls make one sample, each on a slot of its own; `fastest_ns` is the time of the faster arm."""
    return max(1, min(slots, CALLS, int(TARGET_NS / max(1.0, fastest_ns))))
