"""Rounds of calls in a worker on a GPU: behind the judge's gate, or in a plain loop; some calls checked in full.

Inputs are new in every call, and hidden until the whole round is queued. Results are read in the worker's memory. If
that is impossible (one buffer for all calls, memory without a handle), the worker copies them inside the round.
"""

import contextlib
import gc
import itertools
import math
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace

from torch import Tensor

from kbench.core.clocks import InputExposure, Round
from kbench.core.model import Status
from kbench.devices.cuda import L2Cache
from kbench.judge.candidate import RoundOptions
from kbench.judge.clock import FEW_READINGS
from kbench.judge.clock.batch import Batch, RecordedDraws, RoundStep, visible
from kbench.judge.clock.mapped_results import EarlyRead, Mapped, MappedResult, UnreadableError
from kbench.judge.exchange import Trial
from kbench.judge.refusal import RefusalError
from kbench.process.channel import Message, WireError, list_of
from kbench.process.channel import field as wire_field
from kbench.process.gate_page import Gate
from kbench.process.shared_memory import view

CHECKED = 4
"""Number of calls of a round that are checked in full, drawn anew in each round. Skipping 10 % of the calls is detected
within ten rounds with 98.5 % probability."""
QUEUED_WITHIN_S = 0.5
"""Chosen. Time to queue the calls of a round, in addition to twice that of a plain loop."""

LOOP_NS = 5_000_000
"""Time of a loop. A request takes 0.2 ms more, and a loop without a call is subtracted."""
FIRST_CALLS, MOST_CALLS = 64, 512
"""Largest number of calls of the first loop, which measures the host's time per call, and of the others."""
PLAIN_LOOP = RoundOptions(gated=False, deliver=False, keep=False, replay=False, report_last=0)


class LateError(Exception):
    """The calls of a round were not queued in time: the solution waits for the device, or the queue is full."""


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Collect no garbage while the clock runs."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Rounds:
    """The rounds of one worker; those of a candidate are `judged`."""

    def __init__(self, trial: Trial, cache: L2Cache | None, draws: RecordedDraws, *, judged: bool):
        self.trial = trial
        self._draws = draws
        self.delivers = False
        """True if the worker copies results inside the round."""
        self.replays = False
        """True if the worker replays CUDA graphs of the calls, which take less room in the device's queue."""
        self._cache = cache
        self._checked = CHECKED if judged else 0
        self._mapped = Mapped()
        self._look = EarlyRead()
        self._plain_ns = 0

    def gated(self, calls: int, *, kill: bool = False, within_s: float = QUEUED_WITHIN_S) -> Round:
        """Queue calls, open the gate, wait for the end, read results early, and check some calls.

        Queueing may take `within_s` in addition to twice the time of a plain loop of the same calls. With `kill` the
        worker is killed at the moment of its flag.

        Raises:
            LateError: the calls were not queued in time.
            UnreadableError: the judge cannot read results in the worker's memory; nothing was timed.
            RefusalError: results are wrong, or were not complete at the flag.
        """
        candidate, look = self.trial.candidate, self._look
        gate, channel = candidate.worker.gate, candidate.worker.channel
        assert gate is not None, "on a GPU"
        batch = Batch(self.trial, calls, self._checked, self._draws, gated=True)
        report, places = self._queued(batch, gate, within_s)
        batch.enter(RoundStep.QUEUED)
        look.aim(self._early_places(batch, places))
        look.take()
        shown = batch.reveal(self._cache)
        batch.enter(RoundStep.OPEN)
        with undisturbed():
            opened_ns = time.perf_counter_ns()
            total_ns = gate.open_and_wait(candidate.limit_s, channel.has_news)
            late_ns = look.take()
        if total_ns is None and channel.has_news():
            candidate.finish_round(calls)  # raises the error
        if total_ns is None:
            raise RefusalError(Status.CALL_TIMEOUT, f"no answer within {candidate.limit_s:.0f} s", candidate.log)
        batch.enter(RoundStep.FLAGGED)
        batch.enter(RoundStep.LOOKED_AT)
        answer = self._ended(calls, kill=kill)
        batch.enter(RoundStep.ENDED)
        with look.final(candidate.log):
            self._judge(batch, report, places)
        self._take_back(dead=kill)
        exposure = self._exposure(calls, shown(opened_ns))
        return self._claimed(Round(calls=calls, total_ns=total_ns, late_ns=late_ns, exposure=exposure), answer)

    def _queued(self, batch: Batch, gate: Gate, within_s: float) -> tuple[Message, dict[int, list[MappedResult]]]:
        """Have the calls queued; return the worker's report, and the places of the results in it."""
        arena, candidate = self.trial.arena, self.trial.candidate
        # A worker that needs no message and sees no input queues its calls while inputs are made.
        fills_beside = arena.all_tensors and not arena.lends and not self.delivers
        if not fills_beside:
            self._fill(batch)
        candidate.begin_round(batch.order, gate.next_round(), self._options(batch, gated=True))
        if fills_beside:
            self._fill(batch)
        report = candidate.announced(within_s + 2e-9 * self._plain_ns)
        try:
            places = self._places(batch, report)
        except (LateError, UnreadableError):
            batch.give_up()
            gate.open()
            candidate.finish_round(len(batch.order))
            self._take_back()
            raise
        assert report is not None, "else it was late"
        return report, places

    def plain(self, calls: int, *, kill: bool = False) -> Round:
        """Make calls in a plain loop; the time is from the request until they are done.

        With `delivers`, it is until the results are in the judge's buffers, where some are checked. With `kill` the
        worker is killed as soon as it has answered.
        """
        batch = Batch(self.trial, calls, self._checked, self._draws, gated=False)
        self._fill(batch)
        batch.reveal(self._cache)
        how = self._options(batch, gated=False)
        look = self._look if self.delivers else None
        if look is not None:
            look.aim(self._early_places(batch, self._delivered(batch)))
        started, ended, answer = self._loop(batch.order, how, kill=kill, look=look)
        self._plain_ns = ended - started
        if look is not None:
            ended = self.trial.candidate.worker.channel.received_ns
            with look.final(self.trial.candidate.log):
                self._judge(batch, answer, {})
            self._take_back(dead=kill)
        return self._claimed(Round(calls=calls, total_ns=ended - started, late_ns=0), answer)

    def show_again(self, calls: int) -> InputExposure:
        """Reveal the inputs of this many calls again, while none is queued, and measure the time of that."""
        self.trial.arena.stage()
        shown = visible(lambda: self.trial.arena.reveal(calls), self._cache)
        return self._exposure(calls, shown(time.perf_counter_ns()))

    def _exposure(self, calls: int, visible_ns: int) -> InputExposure:
        return InputExposure(visible_ns=visible_ns, input_bytes_shown=self.trial.arena.input_bytes[calls])

    def loop(self, calls: int, slots: int) -> int:
        """Return the time in ns of a plain loop of calls over the first slots; outputs are not checked."""
        self.wake()
        started, ended, _ = self._loop([n % slots for n in range(calls)], PLAIN_LOOP)
        return ended - started

    def wake(self) -> None:
        """Make an empty loop and leave the worker awake, so that no time of waking up counts as one of calls."""
        self._loop([], PLAIN_LOOP, rests=False)

    def _loop(
        self,
        order: list[int],
        how: RoundOptions,
        *,
        kill: bool = False,
        look: EarlyRead | None = None,
        rests: bool = True,
    ) -> tuple[int, int, Message]:
        candidate, worker = self.trial.candidate, self.trial.candidate.worker
        assert worker.gate is not None, "on a GPU"
        number, limit_s = worker.gate.next_round(), candidate.limit_s * max(1, len(order))
        started = candidate.begin_round(order, number, how)
        if candidate.announced(limit_s) is None:
            raise RefusalError(Status.CALL_TIMEOUT, f"no answer within {limit_s:.0f} s", candidate.log)
        done_ns, answer = worker.channel.received_ns, self._ended(len(order), kill=False, look=look, rests=rests)
        if kill:
            candidate.kill()
        return started, done_ns, answer

    def close(self) -> None:
        """End the mappings of the worker's memory."""
        self._mapped.close()

    def _options(self, batch: Batch, *, gated: bool) -> RoundOptions:
        last = len(self._reported_slots(batch))
        return RoundOptions(gated=gated, deliver=self.delivers, keep=True, replay=self.replays, report_last=last)

    def _reported_slots(self, batch: Batch) -> list[int]:
        """Return the slots whose results the worker reports: a report of 250 results takes 3 ms.

        A candidate reports all, because it must not know the checked calls. So does a worker that copies results.
        """
        return batch.order if self._checked or self.delivers else batch.order[-CHECKED:]

    def _fill(self, batch: Batch) -> None:
        batch.fill()
        if self.delivers:
            self.trial.make_room(batch.order)

    def _take_back(self, *, dead: bool = False) -> None:
        """Take back memory lent for results, because the other arm's rounds use the same arena."""
        self.trial.take_back(dead=dead)
        if self._checked and not dead:
            self.trial.candidate.pause()

    def _ended(self, calls: int, *, kill: bool, look: EarlyRead | None = None, rests: bool = True) -> Message:
        """Receive the last message, read results early, and stop the worker; or kill it and ignore its messages."""
        candidate = self.trial.candidate
        if kill:
            candidate.kill()
            return {"event_ns": 0, "submit_ns": 0}
        answer = candidate.finish_round(calls)
        if look is not None:
            look.take()
        if self._checked and rests:
            candidate.pause()
        return answer

    def _places(self, batch: Batch, report: Message | None) -> dict[int, list[MappedResult]]:
        """Return the places of the results.

        Raises:
            LateError: the worker reported nothing in time.
            UnreadableError: results share memory, or their memory cannot be mapped.
        """
        if report is None:
            raise LateError
        if self.delivers:
            return self._delivered(batch)
        wanted = self.trial.arena.output_like
        found: dict[int, list[MappedResult]] = {}
        taken: list[tuple[int, int, int]] = []
        with self.trial.candidate.understood():
            handles = wire_field(report, "handles", list)
            slots = self._reported_slots(batch)
            for slot, of_slot in zip(slots, list_of(report, "places", len(slots)), strict=True):
                if not isinstance(of_slot, list) or len(of_slot) != len(wanted):
                    continue  # another structure, which the description of this call will show
                places = [self._mapped.place(each, handles, want) for each, want in zip(of_slot, wanted, strict=True)]
                if any(place is None and want.numel() for place, want in zip(places, wanted, strict=True)):
                    raise UnreadableError
                for each, place in zip(of_slot, places, strict=True):
                    if place is not None:
                        taken.append((each[0], *place[0].span))
                found[slot] = [place for place in places if place is not None]
        taken.sort()
        if any(a[0] == b[0] and b[1] < a[2] for a, b in itertools.pairwise(taken)):
            raise UnreadableError
        return found

    def _delivered(self, batch: Batch) -> dict[int, list[MappedResult]]:
        """Return the places that the worker copies results to."""
        return {slot: self.trial.arena.output_places(slot) for slot in batch.order}

    def _early_places(self, batch: Batch, places: dict[int, list[MappedResult]]) -> list[MappedResult]:
        """Return the results to read early: those of all checked calls, and as many of the reference.

        If there are fewer, memory of the judge is read as well, so that every early read takes the same time.
        """
        slots = batch.checked or batch.order[-CHECKED:]
        found = [place for slot in slots for place in places.get(slot, ())[:1]]
        return found + [self.trial.arena.any_place()] * (CHECKED - len(found))

    def _judge(self, batch: Batch, report: Message, places: dict[int, list[MappedResult]]) -> None:
        """Check the outputs of the checked calls, and that their inputs are unchanged."""
        trial = self.trial
        with trial.candidate.understood():
            slots = self._reported_slots(batch)
            described = dict(zip(slots, list_of(report, "outputs", len(slots)), strict=True))
        for slot, expected in batch.expected():
            trial.keep_scalars(slot, trial.candidate.check_outputs(described[slot], expected))
            trial.require_unchanged(slot, expected)
            outputs = None if self.delivers else self._results(places.get(slot))
            trial.judge_values(slot, expected, outputs=outputs)
            del expected

    def _results(self, places: list[MappedResult] | None) -> list[Tensor]:
        """Return the results at these places; empty results have no place.

        Raises RefusalError if a worker's report has another number of places than of results.
        """
        with self.trial.candidate.understood():
            if places is None:
                raise WireError("places of another number than results")
        found, device = iter(places), self.trial.reference.device
        likes = self.trial.arena.output_like
        return [view(*next(found)) if like.numel() else like.new_empty(like.shape, device=device) for like in likes]

    def _claimed(self, seen: Round, answer: Message) -> Round:
        with self.trial.candidate.understood():
            event_ns, submit_ns = (wire_field(answer, name, int, minimum=0) for name in ("event_ns", "submit_ns"))
        return replace(seen, event_ns=event_ns, submit_ns=submit_ns)


def empty_loop_ns(rounds: Rounds) -> float:
    """Return the time of a loop without a call."""
    return statistics.median(rounds.loop(0, 1) for _ in range(FEW_READINGS))


def wall_ns(rounds: Rounds, device_ns: float, slots: int, empty_ns: float) -> float:
    """Return the median time per call in ns of a few loops over `slots` slots; a call takes the device `device_ns`."""
    times, most = list[float](), FIRST_CALLS
    for _ in range(FEW_READINGS):
        calls = min(most, math.ceil(LOOP_NS / max([device_ns, *times[-1:]])))
        times.append(max(1.0, (rounds.loop(calls, slots) - empty_ns) / calls))
        most = MOST_CALLS
    return statistics.median(times)
