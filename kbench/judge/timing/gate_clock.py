"""The judge's clock on a GPU: it starts rounds of calls and sees their end (rule: `kbench.core.clocks`).

Candidate and reference each have a worker, and the same rounds. Calls that launch more than the device's
queue holds are queued as CUDA graphs. Calls that wait for the device cannot be queued at all: both arms are then timed
by plain loops.
"""

import contextlib
import math
import secrets
import statistics
from collections.abc import Sequence
from dataclasses import replace

from kbench.core import clocks
from kbench.core.clocks import (
    Attested,
    BaselineDelays,
    Constant,
    InputExposure,
    QuotedClock,
    Round,
    attest,
    attest_queued_single,
    baseline_delays,
    clock_to_quote,
    constant_of,
    in_full_ns,
    measured_delays,
    per_call_ns,
    widened_delays,
)
from kbench.core.model import Status
from kbench.devices.cuda import L2Cache
from kbench.devices.cuda_driver import Driver
from kbench.judge.exchange import Trial, secret_seed
from kbench.judge.refusal import RefusalError
from kbench.judge.timing.plain_loops import empty_loop_ns, wall_ns
from kbench.judge.timing.readings import ArmSample, Conclusion, Doubt
from kbench.judge.timing.recorded_draws import RecordedDraws
from kbench.judge.timing.rounds import QUEUED_WITHIN_S, LateError, RoundResult, Rounds, UnmappableError

TARGET_NS = 1_000_000
"""Time of all calls in a round: fifty times the gain of a polling process."""
EMPTY_ROUNDS = 7
EMPTY_EVERY = 8
"""Average number of samples between two empty rounds: the constant changes as the device warms up."""
VARY_EVERY = 16
"""Average number of samples between changes of the parameters, so that a change does not announce the kill."""
SIZINGS = 8
"""Attempts to find the number of calls of a round."""
HASTY_S = 0.05
"""Chosen. Time to queue the calls of a round while rounds are sized. A wrong guess costs half of the calls, or a second
attempt with QUEUED_WITHIN_S. With that limit alone, waiting for the device was recognised after 3.4 s (H100)."""
ALONE_ROUNDS = 3
AFTER_ROUNDS = 7
"""Chosen. Rounds of the reference after the candidate's death: they also show how much early reads vary."""
INTERFERENCE = 0.03
WALL_CALLS = 4
"""Calls in a round of a solution that waits for the device: they share the uncertainty of one request."""
HOST_BOUND_ABOVE = 1.1
UNQUEUED = {"candidate": "host_synchronising", "reference": "reference_unqueued"}
"""Flags, by the arm whose calls cannot be queued."""
WHOSE = {"candidate": "the solution's", "reference": "the reference's"}
REPLAYED = {"candidate": "replayed", "reference": "reference_replayed"}
"""Flags, by the arm whose calls are queued as CUDA graphs."""


class NotReplayableError(Exception):
    """Calls of an arm can neither be queued nor recorded, for this reason; the attempt may have broken the worker."""

    def __init__(self, arm: str, reason: str):
        super().__init__(reason)
        self.arm = arm


class DeviceClock:
    """Times both arms on one GPU; `cold` makes the L2 cache cold before each round.

    With `replays`, calls that cannot be queued are recorded as CUDA graphs; an arm that is known to be `unqueued` can
    neither be queued nor recorded.
    """

    def __init__(self, candidate: Trial, reference: Trial, *, cold: bool, replays: bool, unqueued: str = ""):
        cache = L2Cache(Driver()) if cold else None
        draws = RecordedDraws(candidate)
        self._rounds = {
            "candidate": Rounds(candidate, cache, draws, judged=True),
            "reference": Rounds(reference, cache, draws, judged=False),
        }
        self._calls = {"candidate": 1, "reference": 1}
        self._seen: dict[str, list[Round]] = {"candidate": [], "reference": []}
        self._claimed: dict[str, list[int]] = {"candidate": [], "reference": []}
        self._empty: list[Round] = []
        self._constant = Constant(ns=0.0, half_width_ns=0.0)
        self._after: list[Round] = []
        self._shown: list[InputExposure] = []
        self._wall_ns: dict[str, float] = {}
        self._single_verdict = "held"
        self._gated = not unqueued
        self._replays = replays and not unqueued
        self._unqueued = unqueued
        self.flags: set[str] = set()
        """Flags so far: the ways in which both arms are timed."""
        self.l2 = "flushed" if cold else "warm"

    def warm_up(self) -> None:
        """Make the first call of the reference's process, which loads libraries and needs no exclusive device."""
        self._rounds["reference"].plain(1)

    def prepare(self) -> None:
        """Find the number of calls of a round, the time of an empty round, and the reference's time alone.

        Raises NotReplayableError if an arm has to be timed by plain loops, in a fresh worker.
        """
        for arm in self._rounds:
            if arm == self._unqueued or not self._can_be_queued(arm):
                self._gated = False
                self.flags.add(UNQUEUED[arm])
        if not self._gated:
            for arm, rounds in self._rounds.items():
                rounds.delivers = True
                self._calls[arm] = min(WALL_CALLS, rounds.trial.arena.count)
        for _ in range(EMPTY_ROUNDS):
            self._add_empty()
        if not self._empty:
            raise RefusalError(Status.HARNESS_ERROR, "the reference's process queued no round without calls in time")
        if self._gated and any(rounds.delivers for rounds in self._rounds.values()):
            self._deliver_both()

    def read(self, arm: str) -> ArmSample:
        """Time one round of an arm."""
        if secrets.randbelow(EMPTY_EVERY) == 0:
            self._add_empty()
        if arm == "candidate" and secrets.randbelow(VARY_EVERY) == 0:
            trial = self._rounds[arm].trial
            trial.candidate.vary_weights(trial.reference, secret_seed())
        done = self._round(arm)
        self._seen[arm].append(done.seen)
        self._claimed[arm].append(done.event_ns)
        judge_ns = round(per_call_ns(done.seen, self._constant))
        event_ns = round(done.event_ns - self._constant.copy_ns) if self._gated else judge_ns
        return ArmSample(event_ns=max(1, event_ns), judge_ns=judge_ns, submit_ns=done.submit_ns, calls=done.seen.calls)

    def prove(self, event_ns: float, pairs: int) -> None:  # noqa: ARG002 - all rounds are alike
        """Do the checks that need the live candidate: refuse gross claims and joint computing, and time plain loops.

        Raises:
            RefusalError: events that claim much less than the judge's clock saw, or calls computed as one.
        """
        if not self._gated:
            return
        usual = measured_delays(self._seen["reference"], self._shown_again())
        mine = attest(self._seen["candidate"], self._constant, usual)
        self._quote(event_ns, mine)
        self._require_separate(mine, usual)
        self._wall_ns = self._walls()

    def kill_verify(self) -> None:
        """Kill the worker at the end of a round that looks like any other, check its results, and calibrate again.

        A live candidate can keep the device busy outside its turn, to make the constant, the usual lateness or the
        reference seem longer.
        """
        trial = self._rounds["candidate"].trial
        trial.candidate.vary_weights(trial.reference, secret_seed())
        if self._gated:
            self._round("candidate", kill=True)
        else:
            self._rounds["candidate"].plain(self._calls["candidate"], kill=True)
        self._after = [self._round("reference").seen for _ in range(AFTER_ROUNDS)]
        if self._gated:
            before, self._empty = self._constant, []
            for _ in range(EMPTY_ROUNDS):
                self._add_empty()
            if before.ns - self._constant.ns <= clocks.SWITCH_NS:
                self._constant = before
            self._shown = self._shown_again()

    def conclude(self, event_ns: float) -> Conclusion:
        """Return the conclusion of the judge's clock about the process, after the candidate's death.

        Raises:
            RefusalError: events that claim much less than the judge's clock saw.
        """
        if not self._gated:
            return Conclusion(clock="wall", attestation="weak", wall_ns=self._seen_ns(), flags=frozenset(self.flags))
        usual = baseline_delays(self._seen["reference"], self._after, self._shown)
        attested = {arm: attest(seen, self._constant, usual) for arm, seen in self._seen.items()}
        mine = attested["candidate"]
        clock = self._quote(event_ns, mine)
        # A plain loop takes at least the device's work in it, whatever end a worker reports.
        walls = {arm: max(wall, attested[arm].ns) for arm, wall in self._wall_ns.items()}
        if walls["candidate"] > HOST_BOUND_ABOVE * mine.ns:
            self.flags.add("host_bound")
        vague = mine.half_width_ns > clocks.HELD_WITHIN * mine.ns
        attestation = "weak" if vague or self._rounds["candidate"].delivers else self._single_verdict
        return Conclusion(
            clock=clock.value, attestation=attestation, attested=mine, wall_ns=walls, flags=frozenset(self.flags)
        )

    def slower_beside(self, paired_ns: float) -> bool:
        """Return whether the reference was slower beside the candidate than it is alone, afterwards."""
        alone_ns = statistics.median(per_call_ns(each, self._constant) for each in self._after)
        return paired_ns > (1 + INTERFERENCE) * alone_ns

    def _quote(self, event_ns: float, mine: Attested) -> QuotedClock:
        """Return the clock to report. Raises RefusalError if the events are refuted."""
        clock = clock_to_quote(event_ns, mine)
        if clock is None:
            refusal = RefusalError(
                Status.TIMING_UNATTESTED,
                f"it claims {event_ns / 1e3:.2f} µs a call; the judge's clock measured {mine.ns / 1e3:.2f} µs",
                self._rounds["candidate"].trial.candidate.log,
            )
            refusal.excess = mine.ns / max(1.0, event_ns)
            raise refusal
        return clock

    def _require_separate(self, mine: Attested, usual: BaselineDelays) -> None:
        """Compare the time of calls in a row with rounds of one call.

        Raises RefusalError if the calls are computed together.
        """
        if self._calls["candidate"] == 1:
            return
        single_ns = min(self._singles_ns("candidate", widened_delays(self._seen["candidate"], usual)))
        self._single_verdict = attest_queued_single(single_ns, mine)
        if self._single_verdict == "failed":
            raise RefusalError(
                Status.TIMING_UNATTESTED,
                f"one call alone took {single_ns / 1e3:.1f} µs, {self._calls['candidate']} queued calls "
                f"{mine.ns / 1e3:.1f} µs each: they are computed together",
                self._rounds["candidate"].trial.candidate.log,
            )

    def doubts_the_reference(self) -> Doubt:
        """Kill the candidate, then return whether the clock refutes the reference too, whose claims are true.

        In that case another program uses the device at times: events do not count these, and a single call waits for
        its turn. A solution that is refused before the reference was timed is refused by other rules than its claims.
        """
        if not self._gated or not self._seen["reference"]:
            return Doubt.NONE
        trial = self._rounds["candidate"].trial
        trial.candidate.kill()
        trial.take_back(dead=True)  # it may have been refused in the middle of a round
        self._empty = []
        for _ in range(EMPTY_ROUNDS):
            self._add_empty()
        results = [self._round("reference") for _ in range(AFTER_ROUNDS)]
        rounds = [each.seen for each in results]
        usual = measured_delays(rounds, self._shown_again())
        alone = attest(rounds, self._constant, usual)
        if self._refutes([each.event_ns for each in results], alone):
            return Doubt.ALONE
        if attest_queued_single(max(self._singles_ns("reference", widened_delays(rounds, usual))), alone) == "failed":
            return Doubt.ALONE
        # Another program may have used the device during nearly all pairs, and not during one round of the reference.
        beside = replace(attest(self._seen["reference"], self._constant, usual), least_ns=math.inf)
        return Doubt.BESIDE if self._refutes(self._claimed["reference"], beside) else Doubt.NONE

    def _refutes(self, events_ns: Sequence[int], attested: Attested) -> bool:
        return clock_to_quote(statistics.median(events_ns) - self._constant.copy_ns, attested) is None

    def close(self) -> None:
        """End the mappings of both workers' memory."""
        for rounds in self._rounds.values():
            rounds.close()

    def _can_be_queued(self, arm: str) -> bool:
        """Size the rounds of an arm: of its calls or, if these cannot be queued, of CUDA graphs of them.

        Raises NotReplayableError if they cannot be recorded either.
        """
        with contextlib.suppress(LateError):
            self._size(arm)
            return True
        if not self._replays:
            return False
        rounds = self._rounds[arm]
        rounds.replays = True
        try:
            self._size(arm)
            # A kernel on another stream is not part of the graph: it ran once, on the first weights.
            rounds.trial.candidate.vary_weights(rounds.trial.reference, secret_seed())
            rounds.gated(self._calls[arm])
        except LateError as error:
            raise NotReplayableError(arm, f"{WHOSE[arm]} graph was not queued in time") from error
        except RefusalError as error:
            raise NotReplayableError(arm, f"recording {WHOSE[arm]} calls failed: {error.reason}") from error
        self.flags.add(REPLAYED[arm])
        return True

    def _size(self, arm: str) -> None:
        """Find the number of calls of a round of TARGET_NS, within the slots and the device's queue.

        Raises LateError if not even one call can be queued. One short attempt is enough if the other arm cannot be
        queued either, or as graphs only.
        """
        rounds, arena = self._rounds[arm], self._rounds[arm].trial.arena
        little = not self._gated or bool(self.flags)
        patience_s = (HASTY_S,) if little and not rounds.replays else (HASTY_S, QUEUED_WITHIN_S)
        calls, most, late = 1, arena.queue, 0
        for _ in range(SIZINGS):
            self._calls[arm] = calls
            try:
                rounds.plain(calls)  # compiles, allocates and loads what a gated round must find ready
                result = rounds.gated(calls, within_s=patience_s[late])
            except LateError:
                late += calls == 1
                if late == len(patience_s):
                    raise
                if calls > 1:
                    calls = most = calls // 2
                continue
            except UnmappableError:
                rounds.delivers, most = True, arena.count
                calls = min(calls, most)
                continue
            # A claim of long calls must not shorten the rounds, where the half-width is largest.
            call_ns = min(result.event_ns, result.seen.total_ns / calls)
            wanted = min(most, math.ceil(TARGET_NS / max(1_000, call_ns)))
            if wanted <= 1.25 * calls:
                return
            calls = wanted

    def _round(self, arm: str, calls: int | None = None, *, kill: bool = False) -> RoundResult:
        """Time one round of `calls` calls, by default the usual number.

        A queue that was full, or that another program delayed, gets half of the calls.

        Raises:
            RefusalError: calls that could be queued in the first rounds, and cannot any more.
        """
        rounds = self._rounds[arm]
        if not self._gated:
            return rounds.plain(self._calls[arm])
        for _ in range(2):
            try:
                return rounds.gated(calls or self._calls[arm], kill=kill)
            except UnmappableError:
                reason = "its results had their own memory in the first rounds, and share it now"
                break
            except LateError:
                reason = "its calls could be queued in the first rounds, and now wait for the device"
                self._calls[arm] = max(1, self._calls[arm] // 2)
                rounds.plain(self._calls[arm])
        if arm == "reference":
            raise RefusalError(Status.HARNESS_ERROR, f"the reference: {reason}", rounds.trial.candidate.log)
        reason += ", so the judge's clock cannot time them"
        raise RefusalError(Status.TIMING_UNATTESTED, reason, rounds.trial.candidate.log)

    def _deliver_both(self) -> None:
        """Copy results of both arms inside the rounds, and measure the time of a copy on the reference."""
        self.flags.add("copies_results")
        alone_ns = self._alone()
        for arm, rounds in self._rounds.items():
            rounds.delivers = True
            self._calls[arm] = min(self._calls[arm], rounds.trial.arena.count)
            rounds.plain(self._calls[arm])
        copied_ns = self._alone()
        self._constant = replace(self._constant, copy_ns=max(0.0, copied_ns - alone_ns))

    def _add_empty(self) -> None:
        """Time a round without calls; a round that another program delayed is left out."""
        rounds = self._rounds["reference"]
        try:
            result = rounds.gated(0) if self._gated else rounds.plain(0)
        except LateError:
            return
        self._empty.append(result.seen)
        self._constant = replace(constant_of(self._empty), copy_ns=self._constant.copy_ns)

    def _singles_ns(self, arm: str, usual: BaselineDelays) -> list[float]:
        """Return times of single calls, in full; a busy machine can only lengthen them."""
        return [in_full_ns(self._round(arm, 1).seen, self._constant, usual) for _ in range(ALONE_ROUNDS)]

    def _shown_again(self) -> list[InputExposure]:
        """Return how long no inputs, and those of the largest round, are visible without cheating."""
        rounds = self._rounds["reference"]
        most = max([*self._calls.values(), *(each.calls for seen in self._seen.values() for each in seen)])
        return [rounds.show_again(calls) for calls in (0, most) for _ in range(AFTER_ROUNDS)]

    def _alone(self) -> float:
        """Return the reference's time per call while nothing alternates with it."""
        return self._per_call_ns([self._round("reference") for _ in range(ALONE_ROUNDS)])

    def _per_call_ns(self, results: Sequence[RoundResult]) -> float:
        return statistics.median(per_call_ns(each.seen, self._constant) for each in results)

    def _walls(self) -> dict[str, float]:
        """Return the time of a call in a plain loop, by arm."""
        empty_ns, device_ns = empty_loop_ns(self._rounds["reference"]), self._seen_ns()
        return {arm: wall_ns(self._rounds[arm], device_ns[arm], self._calls[arm], empty_ns) for arm in self._rounds}

    def _seen_ns(self) -> dict[str, float]:
        """Return the median time per call of all rounds so far, by arm."""
        constant = self._constant
        return {arm: statistics.median(per_call_ns(r, constant) for r in seen) for arm, seen in self._seen.items()}
