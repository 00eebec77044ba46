"""One round on a GPU: its inputs, the steps that it takes in one order, and how long the inputs are visible."""

import secrets
import time
from collections.abc import Callable, Iterator
from enum import StrEnum

import torch

from kbench.devices.cuda import L2Cache
from kbench.judge.clock.recorded_draws import RecordedDraws
from kbench.judge.exchange import Trial, secret_seed
from kbench.judge.reference.expected import Expected

BUSY_CYCLES = 100_000
"""Chosen. About 50 µs of the device's clock: the host needs half of that to queue the copy and the flush."""

Visibility = Callable[[int], int]


class RoundStep(StrEnum):
    """Steps of a round. That a solution can neither see inputs early nor finish results late rests on their order."""

    FILLED = "filled"  # the inputs are in memory that the worker does not see
    QUEUED = "queued"  # the worker has announced that all calls wait behind the gate
    SHOWN = "shown"  # the inputs are in the worker's memory
    OPEN = "open"
    FLAGGED = "flagged"  # the worker has said that the calls have run
    LOOKED_AT = "looked at"  # the judge has read some of the results
    ENDED = "ended"  # the candidate's worker is stopped or killed: nobody writes any more
    CHECKED = "checked"


GATED = (*RoundStep,)
PLAIN = tuple(step for step in RoundStep if step not in {RoundStep.QUEUED, RoundStep.LOOKED_AT})
"""A plain loop has no queue: its inputs are visible before the worker is asked, and its time is never `held`."""


class Batch:
    """The inputs of one round, new in every slot, and the expected outputs of its checked calls.

    Expected outputs are computed after the round. Before it, that work would heat the device for one arm only, and slow
    a long call by 1 to 2 % (docs/adr/0006-gate-clock.md).
    """

    def __init__(self, trial: Trial, calls: int, checked: int, draws: RecordedDraws, *, gated: bool):
        self._left = iter(GATED if gated else PLAIN)
        self._trial = trial
        self._draws = draws
        self.order = sorted(range(calls), key=lambda _: secrets.randbits(32))
        drawn = secrets.SystemRandom().sample(self.order, min(checked, calls))
        if drawn:
            drawn[0] = self.order[-1]
        self.checked = {slot: trial.arguments(secret_seed()) for slot in sorted(set(drawn))}
        """Arguments of the checked calls, by slot."""

    def enter(self, step: RoundStep) -> None:
        """Take the next step. Raises RuntimeError if another one comes next."""
        if (wanted := next(self._left, None)) is not step:
            raise RuntimeError(f"a round comes to `{step}`, and its next step is `{wanted}`")

    def fill(self) -> None:
        """Write all inputs to memory that the worker does not see yet."""
        self.enter(RoundStep.FILLED)
        trial, arena = self._trial, self._trial.arena
        left = self.checked if self._draws.stage(len(self.order)) else self.order
        for slot in left:
            arguments = self.checked[slot] if slot in self.checked else trial.reference.arguments(secret_seed())
            trial.send_scalars(slot, arguments)
            arena.stage(slot, arguments)
            if arena.lends:
                arguments.clear()

    def expected(self) -> Iterator[tuple[int, Expected]]:
        """Compute the expected outputs of each checked call; only one is in memory at a time."""
        self.enter(RoundStep.CHECKED)
        for slot, arguments in self.checked.items():
            arguments.recall()
            expected = self._trial.reference.expect(arguments)
            if self._trial.arena.lends:
                arguments.clear()
            yield slot, expected
            del expected

    def reveal(self, cache: L2Cache | None) -> Visibility:
        """Reveal the inputs and, with a `cache`, make it cold; return when the device has done so."""
        self.enter(RoundStep.SHOWN)
        return visible(lambda: self._trial.arena.reveal(len(self.order)), cache)

    def give_up(self) -> None:
        """Reveal the inputs of a round that nobody judges: queued calls must run before the worker answers again."""
        self._left = iter((RoundStep.SHOWN,))
        self.reveal(None)


def visible(reveal: Callable[[], None], cache: L2Cache | None) -> Visibility:
    """Reveal inputs and make a `cache` cold; return how long, in ns, they had been visible at a time of the judge's.

    The time is measured on the device's clock first, then on the judge's. The judge's clock alone would include its
    wait for a device that serves a worker with several queues. The work is queued behind an idle loop of the device,
    because the device could turn to the worker between two kernels.
    """
    if cache is not None:
        cache.prepare()
    torch.cuda._sleep(BUSY_CYCLES)  # noqa: SLF001 - torch offers no other kernel that leaves the cache alone
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    reveal()
    if cache is not None:
        cache.flush()
    end.record()
    end.synchronize()
    done_ns = time.perf_counter_ns()
    on_device_ms: float = begin.elapsed_time(end)
    return lambda now_ns: round(on_device_ms * 1e6) + now_ns - done_ns
