"""The judge's clock on a GPU: it starts rounds of calls and sees their end (rule: `kbench.core.clocks`).

Candidate and reference each have a worker, and the same rounds. Calls that launch more than the device's
queue holds are queued as CUDA graphs. Calls that wait for the device cannot be queued at all: both arms are then timed
by plain loops.
"""

import contextlib
import itertools
import math
import secrets
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace

from kbench.core.clocks import (
    HELD_WITHIN,
    REPEATS,
    SINGLES,
    SWITCH_NS,
    BaselineDelays,
    Constant,
    InputExposure,
    Round,
    attest,
    attest_queued_single,
    baseline_delays,
    claim_is_quoted,
    claims_less,
    constant_of,
    in_full_ns,
    is_slower_beside,
    measured_delays,
    per_call_ns,
)
from kbench.core.model import Sample, Status, Timing
from kbench.devices.cuda import L2Cache
from kbench.devices.cuda_driver import Driver
from kbench.judge.clock import unplaced
from kbench.judge.clock.batch import RecordedDraws
from kbench.judge.clock.mapped_results import UnreadableError
from kbench.judge.clock.rounds import (
    QUEUED_WITHIN_S,
    LateError,
    Rounds,
    empty_loop_ns,
    wall_ns,
)
from kbench.judge.exchange import Trial
from kbench.judge.refusal import RefusalError

TARGET_NS = 1_000_000
"""Time of all calls in a round: fifty times the gain of a polling process."""
EMPTY_EVERY = 8
"""Average number of samples between two empty rounds: the constant changes as the device warms up."""
VARY_EVERY = 16
"""Average number of samples between changes of the parameters, so that a change does not announce the kill."""
SIZINGS = 8
"""Attempts to find the number of calls of a round."""
HASTY_S = 0.05
"""Chosen. Time to queue several calls while rounds are sized. A wrong guess costs half of the calls."""
WALL_CALLS = 4
"""Calls in a round of a solution that waits for the device: they share the uncertainty of one request."""
HOST_BOUND_ABOVE = 1.1
UNQUEUED = {"candidate": "host_synchronising", "reference": "reference_unqueued"}
"""Flags, by the arm whose calls cannot be queued."""
WHOSE = {"candidate": "the solution's", "reference": "the reference's"}


class NotQueuedError(Exception):
    """Calls of an arm can neither be queued nor recorded, for this reason; plain loops in a fresh worker time them."""

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
        self._empty: list[Round] = []
        self._constant = Constant(ns=0.0, half_width_ns=0.0)
        self._after: list[Round] = []
        self._shown: list[InputExposure] = []
        self._wall_ns: dict[str, float] = {}
        self._single_ns = 0.0
        """Time of the quickest single call of the candidate, in full."""
        self._gated = not unqueued
        self._replays = replays and not unqueued
        self._unqueued = unqueued
        self.overhead_ns = 0.0  # an empty round is subtracted from each
        self.flags: set[str] = set()
        """Flags so far: the ways in which both arms are timed."""
        self._l2 = "flushed" if cold else "warm"

    def warm_up(self) -> None:
        """Make the first call of the reference's process, which loads libraries and needs no exclusive device."""
        self._rounds["reference"].plain(1)

    def prepare(self) -> None:
        """Find the number of calls of a round, the time of an empty round, and the reference's time alone.

        Raises NotQueuedError if an arm has to be timed by plain loops, in a fresh worker.
        """
        for arm in self._rounds:
            if arm == self._unqueued or not self._can_be_queued(arm):
                self._gated = False
                self.flags.add(UNQUEUED[arm])
        if not self._gated:
            for arm, rounds in self._rounds.items():
                rounds.delivers = True
                self._calls[arm] = min(WALL_CALLS, rounds.trial.arena.count)
        for _ in range(REPEATS):
            self._add_empty()
        if not self._empty:
            raise RefusalError(Status.HARNESS_ERROR, "the reference's process queued no round without calls in time")
        if self._gated and any(rounds.delivers for rounds in self._rounds.values()):
            self._deliver_both()

    def read(self, arm: str) -> Sample:
        """Time one round of an arm; the pairing knows the place of the sample."""
        if secrets.randbelow(EMPTY_EVERY) == 0:
            self._add_empty()
        if arm == "candidate" and secrets.randbelow(VARY_EVERY) == 0:
            trial = self._rounds[arm].trial
            trial.candidate.vary_weights(trial.reference)
        done = self._round(arm)
        self._seen[arm].append(done)
        judge_ns = round(per_call_ns(done, self._constant))
        event_ns = max(1, round(done.event_ns - self._constant.copy_ns)) if self._gated else judge_ns
        return unplaced(arm, event_ns=event_ns, judge_ns=judge_ns, submit_ns=done.submit_ns, calls=done.calls)

    def prove(self, event_ns: float, pairs: int) -> None:  # noqa: ARG002 - all rounds are alike
        """Do what needs the live candidate: time single calls and plain loops."""
        if not self._gated:
            return
        if self._calls["candidate"] > 1:
            usual = measured_delays(self._seen["reference"], self._shown_again())
            mine = attest(self._seen["candidate"], self._constant, usual)
            for quickest_ns in itertools.accumulate(self._singles_ns(usual), min):
                self._single_ns = quickest_ns
                if attest_queued_single(quickest_ns, mine) is None:
                    break
        self._wall_ns = self._walls()

    def kill_verify(self) -> None:
        """Kill the worker at the end of a round that looks like any other, check its results, and calibrate again.

        A live candidate can keep the device busy outside its turn, to make the constant, the usual lateness or the
        reference seem longer.
        """
        trial = self._rounds["candidate"].trial
        trial.candidate.vary_weights(trial.reference)
        if self._gated:
            self._round("candidate", kill=True)
        else:
            self._rounds["candidate"].plain(self._calls["candidate"], kill=True)
        self._after = [self._round("reference") for _ in range(REPEATS)]
        if self._gated:
            before, self._empty = self._constant, []
            for _ in range(REPEATS):
                self._add_empty()
            if before.ns - self._constant.ns <= SWITCH_NS:
                self._constant = before
            self._shown = self._shown_again()

    def conclude(self, event_ns: float) -> Timing:
        """Return what the judge's clock says of the process, after the candidate's death; without samples."""
        if not self._gated:
            wall = Timing(samples=(), timer="wall", l2=self._l2, attestation="weak")
            return self._completed(wall, self._seen_ns())
        usual = baseline_delays(self._seen["reference"], self._after, self._shown)
        attested = {arm: attest(seen, self._constant, usual) for arm, seen in self._seen.items()}
        mine = attested["candidate"]
        vague = mine.half_width_ns > HELD_WITHIN * mine.ns
        longer_alone = attest_queued_single(self._single_ns, mine)
        attestation = "weak" if vague or longer_alone or self._rounds["candidate"].delivers else "held"
        mine = longer_alone or mine
        # A plain loop takes at least the device's work in it, whatever end a worker reports.
        walls = {arm: max(wall, attested[arm].ns) for arm, wall in self._wall_ns.items()}
        if walls["candidate"] > HOST_BOUND_ABOVE * mine.ns:
            self.flags.add("host_bound")
        if claims_less(event_ns, mine):
            self.flags.add("claims_less")
        # A worker that lets few calls be queued widens the interval, and must not profit from it.
        timing = Timing(
            samples=(),
            timer="events" if claim_is_quoted(event_ns, mine) else "judge",
            l2=self._l2,
            attested_ns=mine.ns,
            attested_half_width_ns=mine.half_width_ns,
            attestation=attestation,
        )
        return self._completed(timing, walls)

    def _completed(self, timing: Timing, walls: dict[str, float]) -> Timing:
        ours, theirs = walls["candidate"], walls["reference"]
        return replace(timing, wall_ns=ours, ref_wall_ns=theirs, flags=tuple(sorted(self.flags)))

    def slower_beside(self) -> bool:
        """Return whether the reference was slower beside the candidate than it is alone, afterwards."""
        return is_slower_beside(self._times_ns(self._seen["reference"]), self._times_ns(self._after), "cuda")

    def close(self) -> None:
        """End the mappings of both workers' memory."""
        for rounds in self._rounds.values():
            rounds.close()

    def _can_be_queued(self, arm: str) -> bool:
        """Size the rounds of an arm: of its calls or, if these cannot be queued, of CUDA graphs of them.

        Raises NotQueuedError if they cannot be recorded either.
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
            rounds.trial.candidate.vary_weights(rounds.trial.reference)
            rounds.gated(self._calls[arm])
        except LateError as error:
            raise NotQueuedError(arm, f"{WHOSE[arm]} graph was not queued in time") from error
        except RefusalError as error:
            raise NotQueuedError(arm, f"recording {WHOSE[arm]} calls failed: {error.reason}") from error
        self.flags.add("replayed")
        return True

    def _size(self, arm: str) -> None:
        """Find the number of calls of a round of TARGET_NS, within the slots and the device's queue.

        Raises LateError if not even one call can be queued.
        """
        rounds, arena = self._rounds[arm], self._rounds[arm].trial.arena
        calls, most = 1, arena.queue
        for _ in range(SIZINGS):
            self._calls[arm] = calls
            try:
                rounds.plain(calls)  # compiles, allocates and loads what a gated round must find ready
                result = rounds.gated(calls, within_s=QUEUED_WITHIN_S if calls == 1 else HASTY_S)
            except LateError:
                if calls == 1:
                    raise
                calls = most = calls // 2
                continue
            except UnreadableError:
                rounds.delivers, most = True, arena.count
                calls = min(calls, most)
                continue
            # A claim of long calls must not shorten the rounds, where the half-width is largest.
            call_ns = min(result.event_ns, result.total_ns / calls)
            wanted = min(most, math.ceil(TARGET_NS / max(1_000, call_ns)))
            if wanted <= 1.25 * calls:
                return
            calls = wanted

    def _round(self, arm: str, calls: int | None = None, *, kill: bool = False) -> Round:
        """Time one round of `calls` calls, by default the usual number.

        A queue that was full, or that another program delayed, gets half of the calls.

        Raises:
            NotQueuedError: calls that could be queued in the first rounds cannot be queued any more.
        """
        rounds = self._rounds[arm]
        if not self._gated:
            return rounds.plain(self._calls[arm])
        for _ in range(2):
            try:
                return rounds.gated(calls or self._calls[arm], kill=kill)
            except UnreadableError as error:
                raise NotQueuedError(arm, f"{WHOSE[arm]} results share memory since some rounds") from error
            except LateError:
                self._calls[arm] = max(1, self._calls[arm] // 2)
                rounds.plain(self._calls[arm])
        raise NotQueuedError(arm, f"{WHOSE[arm]} calls were queued in the first rounds, and now wait for the device")

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
            self._empty.append(rounds.gated(0) if self._gated else rounds.plain(0))
        except LateError:
            return
        self._constant = replace(constant_of(self._empty), copy_ns=self._constant.copy_ns)

    def _singles_ns(self, usual: BaselineDelays) -> Iterator[float]:
        """Return times of single calls of the candidate, in full."""
        for _ in range(SINGLES):
            self._rounds["candidate"].wake()  # its tree would wake up while the inputs are shown
            yield in_full_ns(self._round("candidate", 1), self._constant, usual)

    def _shown_again(self) -> list[InputExposure]:
        """Return how long no inputs, and those of the largest round, are visible without cheating."""
        rounds = self._rounds["reference"]
        most = max([*self._calls.values(), *(each.calls for seen in self._seen.values() for each in seen)])
        return [rounds.show_again(calls) for calls in (0, most) for _ in range(REPEATS)]

    def _alone(self) -> float:
        """Return the reference's time per call while nothing alternates with it."""
        return statistics.median(self._times_ns([self._round("reference") for _ in range(REPEATS)]))

    def _times_ns(self, rounds: Sequence[Round]) -> list[float]:
        return [per_call_ns(each, self._constant) for each in rounds]

    def _walls(self) -> dict[str, float]:
        """Return the time of a call in a plain loop, by arm."""
        empty_ns, device_ns = empty_loop_ns(self._rounds["reference"]), self._seen_ns()
        return {arm: wall_ns(self._rounds[arm], device_ns[arm], self._calls[arm], empty_ns) for arm in self._rounds}

    def _seen_ns(self) -> dict[str, float]:
        """Return the median time per call of all rounds so far, by arm."""
        return {arm: statistics.median(self._times_ns(seen)) for arm, seen in self._seen.items()}
