"""One round on a GPU: its inputs, the steps that it takes in one order, and how long the inputs are visible."""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from kbench.catalog.containers import tensors
from kbench.catalog.problem import seed_torch
from kbench.core.values import DRAWS
from kbench.devices.cuda import L2Cache, recorded
from kbench.judge.exchange import Trial
from kbench.judge.reference.drawing import secret_seed
from kbench.judge.reference.expected import Expected
from kbench.numerics import elements
from kbench.numerics.operators import OperatorMode

BUSY_CYCLES = 100_000
"""Chosen. About 50 µs of the device's clock: the host needs half of that to queue the copy and the flush."""

LEAST = 8
"""Chosen. Least number of draws to record; fewer are faster one by one."""
RECORDABLE = frozenset(
    """
    rand rand_like randn randn_like randint randint_like uniform_ normal_ random_ bernoulli bernoulli_
    empty empty_like empty_strided new_empty new_zeros new_ones zeros zeros_like ones ones_like full full_like
    arange linspace eye fill_ zero_ copy_ clone _to_copy
    add add_ sub sub_ rsub mul mul_ div div_ neg abs sign exp log sqrt pow clamp clamp_ sigmoid tanh relu
    _softmax _log_softmax lt le gt ge eq ne where sum mean triu tril
    view _unsafe_view reshape unsqueeze squeeze expand transpose t permute slice select cat stack detach alias
    """.split()  # noqa: SIM905 - as lines they can be read
)
"""Operations of torch that run on the device alone for all values, so that a CUDA graph may contain them."""

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


class RecordedDraws:
    """Draws of a trial's inputs for the slots of its arena: `get_inputs` as a CUDA graph for each number of slots.

    A graph draws the inputs of a round of 256 short calls in 2.2 ms, and single draws take 14 to 28 ms (H100). Only
    operations of torch on the device can be recorded. Each recording must draw the right values for a few secret seeds.
    """

    def __init__(self, trial: Trial):
        self._inputs = trial.reference.inputs
        self._arena = trial.arena
        self._device = trial.reference.device
        self._recordings: dict[int, Callable[[], None]] = {}
        self._can_record: bool | None = None

    def stage(self, calls: int) -> bool:
        """Stage new inputs in the first `calls` slots; return False if they have to be drawn one by one."""
        if calls < LEAST or not self.can_record:
            return False
        if calls not in self._recordings:
            self._recordings[calls] = recorded(lambda: self._draw(calls))
        seed_torch(secret_seed(), self._device)
        self._recordings[calls]()
        return True

    @property
    def can_record(self) -> bool:
        """True if a recording draws what `get_inputs` draws; tested once."""
        if self._can_record is None:
            alone = self._arena.all_tensors and not self._arena.lends and not self._inputs.jitter
            self._can_record = alone and self._is_recordable() and self._is_faithful()
        return self._can_record

    def _draw(self, calls: int) -> None:
        for slot in range(calls):
            self._arena.stage(slot, self._inputs.unseeded())

    def _is_recordable(self) -> bool:
        """Return whether all operations of a draw may be part of a CUDA graph."""
        recordable = True

        def watch(func: Any, args: Any, given: dict[str, Any]) -> Any:
            nonlocal recordable
            made = func(*args, **given)
            touched = [leaf for leaf in pytree.tree_leaves((args, given, made)) if isinstance(leaf, Tensor)]
            recordable &= func.overloadpacket.__name__ in RECORDABLE
            recordable &= all(tensor.device.type == self._device for tensor in touched)
            return made

        with OperatorMode(watch):
            made = self._inputs.unseeded()
        self._arena.stage(0, made)  # allocates the arena's own memory, which must not be the recording's
        return recordable

    def _is_faithful(self) -> bool:
        places = [torch.empty_like(leaf) for leaf in tensors(self._inputs.unseeded())]
        draw = recorded(lambda: _copy(tensors(self._inputs.unseeded()), places))

        def agrees(seed: int) -> bool:
            wanted = tensors(self._inputs.draw(seed))
            seed_torch(seed, self._device)
            draw()
            return all(map(elements.same_bits, wanted, places))

        return all(agrees(secret_seed()) for _ in range(DRAWS))  # one may agree by chance if a branch depends on it


def _copy(tensors: Sequence[Tensor], places: Sequence[Tensor]) -> None:
    for tensor, place in zip(tensors, places, strict=True):
        place.copy_(tensor)


class Batch:
    """The inputs of one round, new in every slot, and the expected outputs of its checked calls.

    Expected outputs are computed after the round. Before it, that work would heat the device for one arm only, and slow
    a long call by 1 to 2 % (docs/adr/0006-gate-clock.md).
    """

    def __init__(self, trial: Trial, calls: int, checked: int, draws: RecordedDraws, *, gated: bool):
        self._left: Iterator[RoundStep] | None = iter(RoundStep) if gated else None
        """Steps that follow; None for a plain loop, whose time is never `held`."""
        self._trial = trial
        self._draws = draws
        self.order = sorted(range(calls), key=lambda _: secrets.randbits(32))
        drawn = secrets.SystemRandom().sample(self.order, min(checked, calls))
        if drawn:
            drawn[0] = self.order[-1]
        self.checked = {slot: trial.arguments() for slot in sorted(set(drawn))}
        """Arguments of the checked calls, by slot."""

    def enter(self, step: RoundStep) -> None:
        """Take the next step of a gated round. Raises RuntimeError if another one comes next."""
        if self._left is not None and (wanted := next(self._left, None)) is not step:
            raise RuntimeError(f"a round comes to `{step}`, and its next step is `{wanted}`")

    def fill(self) -> None:
        """Write all inputs to memory that the worker does not see yet."""
        self.enter(RoundStep.FILLED)
        trial, arena = self._trial, self._trial.arena
        left = self.checked if self._draws.stage(len(self.order)) else self.order
        for slot in left:
            arguments = self.checked[slot] if slot in self.checked else trial.reference.arguments()
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
