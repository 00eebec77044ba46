"""Rounds of calls in a worker on a GPU: behind the judge's gate, or in a plain loop; some calls checked in full.

Inputs are new in every call and hidden until all of a round is queued. Results are looked at where they lie, in the
worker's memory; where that cannot be (one buffer for all calls, memory without a handle), the worker copies them
inside the round.
"""

import contextlib
import gc
import itertools
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from kbench.core.clocks import InputExposure, Round
from kbench.core.model import Status
from kbench.devices.cuda import L2Cache
from kbench.judge.exchange import Trial, secret_seed
from kbench.judge.reference.expected import Expected
from kbench.judge.refusal import RefusalError
from kbench.judge.timing.early_read import EarlyRead
from kbench.judge.timing.mapped_results import Mapped, MappedResult
from kbench.judge.timing.readings import RoundOptions
from kbench.judge.timing.recorded_draws import RecordedDraws
from kbench.wire.channel import Message, WireError, list_of
from kbench.wire.channel import field as wire_field
from kbench.wire.shared_memory import view

CHECKED = 4
"""Calls of a round that are checked in full, drawn anew in each: who leaves out one call in ten is seen within ten
rounds with a probability of 99 %."""
QUEUED_WITHIN_S = 0.5
"""Chosen. Time to queue the calls of a round, beside that of a plain loop."""

BUSY_CYCLES = 100_000
"""Chosen. Some 50 us of a device's clock: the copy and the flush take the host half as long to queue."""


class LateError(Exception):
    """The calls of a round were not queued in time: the solution waits for the device, or the queue is full."""


class UnmappableError(Exception):
    """Results of a round share memory, or lie where the judge cannot map them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """One round on the judge's clock, and what the worker claims of each call."""

    seen: Round
    event_ns: int
    submit_ns: int


class Batch:
    """The inputs of one round, new in every slot, and what a few of its calls were to return.

    That is computed after the round: just before it, the work would leave the device hotter than the other arm finds
    it, and slow a long call by 1 to 2 % (docs/adr/0006-gate-clock.md).
    """

    def __init__(self, trial: Trial, calls: int, checked: int, draws: RecordedDraws):
        self._trial = trial
        self._draws = draws
        self.order = sorted(range(calls), key=lambda _: secrets.randbits(32))
        drawn = secrets.SystemRandom().sample(self.order, min(checked, calls))
        if drawn:
            drawn[0] = self.order[-1]
        self.checked = {slot: trial.arguments(secret_seed()) for slot in sorted(set(drawn))}
        """The arguments of the calls that are checked, by slot."""

    def fill(self) -> None:
        """Put all inputs where the worker does not see them yet."""
        trial, arena = self._trial, self._trial.arena
        left = self.checked if self._draws.stage(len(self.order)) else self.order
        for slot in left:
            arguments = self.checked[slot] if slot in self.checked else trial.reference.arguments(secret_seed())
            trial.tell(slot, arguments)
            arena.stage(slot, arguments)
            if arena.lends:
                arguments.clear()

    def expected(self) -> Iterator[tuple[int, Expected]]:
        """Compute what each checked call was to return; only one is in memory at a time."""
        for slot, arguments in self.checked.items():
            arguments.recall()
            expected = self._trial.reference.expect(arguments)
            if self._trial.arena.lends:
                arguments.clear()
            yield slot, expected
            del expected

    def reveal(self, cache: L2Cache | None) -> "Visibility":
        """Reveal the inputs and, with a `cache`, make it cold; return when the device has done so."""
        return Visibility(lambda: self._trial.arena.reveal(len(self.order)), cache)


class Visibility:
    """Reveals inputs and makes the cache cold; knows how long the inputs have been visible since.

    First on the device's clock, then on the judge's: that alone would count how long the judge waits for its turn, with
    a worker that keeps several queues. All is queued while the device is busy with nothing: between two kernels it
    could turn to the worker.
    """

    def __init__(self, reveal: Callable[[], None], cache: L2Cache | None):
        if cache is not None:
            cache.prepare()
        torch.cuda._sleep(BUSY_CYCLES)  # noqa: SLF001 - torch offers no other kernel that leaves the cache alone
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._begin.record()
        reveal()
        if cache is not None:
            cache.flush()
        self._end.record()
        self._end.synchronize()
        self._done_ns = time.perf_counter_ns()

    def until(self, now_ns: int) -> int:
        """Return for how many ns the inputs had been visible at `now_ns` of the judge's clock."""
        on_device_ms: float = self._begin.elapsed_time(self._end)
        return round(on_device_ms * 1e6) + now_ns - self._done_ns


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
        """Whether the worker copies results inside the round."""
        self.replays = False
        """Whether the worker replays CUDA graphs of the calls, which take less room in the device's queue."""
        self._cache = cache
        self._checked = CHECKED if judged else 0
        self._mapped = Mapped()
        self._look = EarlyRead()
        self._plain_ns = 0

    def gated(self, calls: int, *, kill: bool = False, within_s: float = QUEUED_WITHIN_S) -> RoundResult:
        """Have calls queued, let them go, wait for their end, look at results, and check some calls.

        Queueing may take `within_s` in addition to twice the time of a plain loop of the same calls. With `kill` the
        worker is killed the moment it says that all is done.

        Raises:
            LateError: not queued in time.
            UnmappableError: results that the judge cannot look at where they lie; nothing was timed.
            RefusalError: wrong results, or results that were not there when they should be.
        """
        candidate, gate = self.trial.candidate, self.trial.candidate.gate
        assert gate is not None, "on a GPU"
        batch = Batch(self.trial, calls, self._checked, self._draws)
        fills_beside = self._fills_beside
        if not fills_beside:
            self._fill(batch)
        how = self._options(batch, gated=True)
        candidate.begin_round(batch.order, gate.next_round(), how)
        if fills_beside:
            self._fill(batch)
        told = candidate.announced(within_s + 2e-9 * self._plain_ns)
        try:
            places = self._places(batch, told)
        except (LateError, UnmappableError):
            batch.reveal(None)  # what is queued must run before the worker can be asked again
            gate.open()
            candidate.finish_round(calls)
            self._taken_back()
            raise
        look = self._look
        look.aim(self._looked_at(batch, places))
        look.take()
        shown = batch.reveal(self._cache)
        with undisturbed():
            opened_ns = time.perf_counter_ns()
            total_ns = gate.open_and_wait(candidate.limit_s, lambda: candidate.has_news)
            late_ns = look.take()
        if total_ns is None and candidate.has_news:
            candidate.finish_round(calls)  # raises what went wrong
        if total_ns is None:
            raise RefusalError(Status.CALL_TIMEOUT, f"no answer within {candidate.limit_s:.0f} s", candidate.log)
        answer = self._ended(calls, kill=kill)
        assert told is not None, "else it was late"
        with look.final(candidate.log) as require_final:
            self._judge(batch, told, places, require_final)
        self._taken_back(dead=kill)
        seen = Round(
            calls=calls,
            total_ns=total_ns,
            late_ns=late_ns,
            exposure=self._exposure(calls, shown.until(opened_ns)),
        )
        return self._claimed(seen, answer)

    def plain(self, calls: int, *, kill: bool = False) -> RoundResult:
        """Have calls made in a plain loop; the time is from the request until they are done.

        With `delivers`: until their results are in the judge's buffers, where some are checked. With `kill` the worker
        is killed the moment it has answered.
        """
        batch = Batch(self.trial, calls, self._checked, self._draws)
        self._fill(batch)
        batch.reveal(self._cache)
        how = self._options(batch, gated=False)
        look = self._look if self.delivers else None
        if look is not None:
            look.aim(self._looked_at(batch, self._delivered(batch)))
        started, ended, answer = self._loop(batch.order, how, kill=kill, look=look)
        self._plain_ns = ended - started
        if look is not None:
            ended = self.trial.candidate.message_ns
            with look.final(self.trial.candidate.log) as require_final:
                self._judge(batch, answer, {}, require_final)
            self._taken_back(dead=kill)
        return self._claimed(Round(calls=calls, total_ns=ended - started, late_ns=0), answer)

    def show_again(self, calls: int) -> InputExposure:
        """Reveal the inputs of this many calls again, while none is queued, to measure how long that takes."""
        shown = Visibility(lambda: self.trial.arena.reveal_again(calls), self._cache)
        return self._exposure(calls, shown.until(time.perf_counter_ns()))

    def _exposure(self, calls: int, visible_ns: int) -> InputExposure:
        return InputExposure(visible_ns=visible_ns, input_bytes_shown=self.trial.arena.input_bytes(calls))

    def loop(self, calls: int, slots: int) -> int:
        """Return the ns of a plain loop of calls that cycles through the first slots; its outputs are not checked."""
        how = RoundOptions(gated=False, deliver=False, keep=False, replay=False, tell_last=0)
        started, ended, _ = self._loop([n % slots for n in range(calls)], how)
        return ended - started

    def _loop(
        self, order: list[int], how: RoundOptions, *, kill: bool = False, look: EarlyRead | None = None
    ) -> tuple[int, int, Message]:
        candidate, gate = self.trial.candidate, self.trial.candidate.gate
        assert gate is not None, "on a GPU"
        number, limit_s = gate.next_round(), candidate.limit_s * max(1, len(order))
        started = candidate.begin_round(order, number, how)
        if candidate.announced(limit_s) is None:
            raise RefusalError(Status.CALL_TIMEOUT, f"no answer within {limit_s:.0f} s", candidate.log)
        done_ns, answer = candidate.message_ns, self._ended(len(order), kill=False, look=look)
        if kill:
            candidate.kill()
        return started, done_ns, answer

    def close(self) -> None:
        """End the mappings of the worker's memory."""
        self._mapped.close()

    @property
    def _fills_beside(self) -> bool:
        """Whether inputs can be made while the worker queues its calls: it is told nothing and sees none of them."""
        arena = self.trial.arena
        return arena.all_tensors and not arena.lends and not self.delivers

    def _options(self, batch: Batch, *, gated: bool) -> RoundOptions:
        last = len(self._told_of(batch))
        return RoundOptions(gated=gated, deliver=self.delivers, keep=True, replay=self.replays, tell_last=last)

    def _told_of(self, batch: Batch) -> list[int]:
        """Return the slots whose results the worker tells of: telling of 250 results takes it 3 ms.

        A candidate must not know which are looked at. What is delivered is told of as it comes.
        """
        return batch.order if self._checked or self.delivers else batch.order[-CHECKED:]

    def _fill(self, batch: Batch) -> None:
        batch.fill()
        if self.delivers:
            self.trial.make_room(batch.order)

    def _taken_back(self, *, dead: bool = False) -> None:
        """Take back memory lent for results: the other arm's rounds are lent some of the same arena."""
        self.trial.take_back(dead=dead)
        if self._checked and not dead:
            self.trial.candidate.pause()

    def _ended(self, calls: int, *, kill: bool, look: EarlyRead | None = None) -> Message:
        """Receive the last message, look, and stop the worker; or kill it: what it says no longer counts."""
        candidate = self.trial.candidate
        if kill:
            candidate.kill()
            return {"event_ns": 0, "submit_ns": 0}
        answer = candidate.finish_round(calls)
        if look is not None:
            look.take()
        if self._checked:
            candidate.pause()
        return answer

    def _places(self, batch: Batch, told: Message | None) -> dict[int, list[MappedResult]]:
        """Return where the results of the checked calls lie.

        Raises:
            LateError: nothing was told in time.
            UnmappableError: results that do not each have memory of their own, which can be mapped.
        """
        if told is None:
            raise LateError
        if self.delivers:
            return self._delivered(batch)
        wanted = self.trial.arena.output_like
        found: dict[int, list[MappedResult]] = {}
        taken: list[tuple[int, int, int]] = []
        try:
            handles = wire_field(told, "handles", list)
            slots = self._told_of(batch)
            for slot, of_slot in zip(slots, list_of(told, "places", len(slots)), strict=True):
                if not isinstance(of_slot, list) or len(of_slot) != len(wanted):
                    continue  # another structure, which the description of this call will tell
                places = [self._mapped.place(each, handles, want) for each, want in zip(of_slot, wanted, strict=True)]
                if any(place is None and want.numel() for place, want in zip(places, wanted, strict=True)):
                    raise UnmappableError
                for each, place in zip(of_slot, places, strict=True):
                    if place is not None:
                        taken.append((each[0], *place[0].span))
                found[slot] = [place for place in places if place is not None]
        except WireError as error:
            raise self.trial.candidate.nonsense(error) from error
        taken.sort()
        if any(a[0] == b[0] and b[1] < a[2] for a, b in itertools.pairwise(taken)):
            raise UnmappableError
        return found

    def _delivered(self, batch: Batch) -> dict[int, list[MappedResult]]:
        """Return where the worker copies results to."""
        return {slot: self.trial.arena.output_places(slot) for slot in batch.order}

    def _looked_at(self, batch: Batch, places: dict[int, list[MappedResult]]) -> list[MappedResult]:
        """Return results to look at: of all calls that are checked, so that nobody knows which may be late.

        Of the reference as many. Where there are fewer, memory of the judge's own makes every look take the same time.
        """
        slots = batch.checked or batch.order[-CHECKED:]
        found = [place for slot in slots for place in places.get(slot, ())[:1]]
        return found + [self.trial.arena.any_place()] * (CHECKED - len(found))

    def _judge(
        self,
        batch: Batch,
        told: Message,
        places: dict[int, list[MappedResult]],
        require_final: Callable[[], None],
    ) -> None:
        """Check the outputs of the checked calls, and that all inputs of these are as they were."""
        trial = self.trial
        try:
            slots = self._told_of(batch)
            described = dict(zip(slots, list_of(told, "outputs", len(slots)), strict=True))
        except WireError as error:
            raise trial.candidate.nonsense(error) from error
        for slot, expected in batch.expected():
            trial.told(slot, trial.candidate.check_outputs(described[slot], expected))
            trial.require_unchanged(slot, expected)
            outputs = None if self.delivers else self._results(places.get(slot))
            trial.judge_values(slot, expected, outputs=outputs, require_final=require_final)
            del expected

    def _results(self, places: list[MappedResult] | None) -> list[Tensor]:
        """Return the results that lie at these places; empty ones have none.

        Raises RefusalError where a worker describes results and tells other places than these have.
        """
        if places is None:
            raise self.trial.candidate.nonsense(WireError("places of another number than results"))
        found, device = iter(places), self.trial.reference.device
        likes = self.trial.arena.output_like
        return [view(*next(found)) if like.numel() else like.new_empty(like.shape, device=device) for like in likes]

    def _claimed(self, seen: Round, answer: Message) -> RoundResult:
        try:
            return RoundResult(
                seen=seen,
                event_ns=wire_field(answer, "event_ns", int, minimum=0),
                submit_ns=wire_field(answer, "submit_ns", int, minimum=0),
            )
        except WireError as error:
            raise self.trial.candidate.nonsense(error) from error
