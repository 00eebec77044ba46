"""Exchanges between judge and worker: fresh inputs, one call, every output checked."""

import collections
import contextlib
import functools
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from kbench.core.diagnosis import UNWRITTEN, Diagnosis
from kbench.core.forecast import steps_take_most
from kbench.core.model import Status
from kbench.core.values import may_be_chance
from kbench.devices.backend import backend
from kbench.judge.arena import Arena, encoded
from kbench.judge.candidate import Candidate, Reply
from kbench.judge.comparison import CheckedCall, Tally, Truth, compare
from kbench.judge.reference.drawing import Arguments, Transform, is_value, secret_seed
from kbench.judge.reference.expected import Expected
from kbench.judge.reference.reference import Reference
from kbench.judge.refusal import RefusalError, WrongError
from kbench.judge.why import explain

KEPT_ANSWERS, KEPT_ELEMENTS = 4, 1 << 20
"""Number and size of earlier answers that are kept, to recognise one that is returned again."""


class Trial:
    """A reference and a candidate bound to one arena."""

    launch_error = ""
    """CUDA's words for an unchecked launch in the last call; empty without one."""

    def __init__(
        self,
        reference: Reference,
        candidate: Candidate,
        arena: Arena,
        tally: Tally | None = None,
    ):
        self.reference = reference
        self.candidate = candidate
        self.arena = arena
        self.tally = Tally() if tally is None else tally
        self._lent = False
        self._numbers: dict[int, tuple[Any, ...]] = {}
        self._sent_scalars: dict[int, Any] = {}
        self.earlier: collections.deque[list[Tensor]] = collections.deque(maxlen=KEPT_ANSWERS)
        """Right answers of the last calls, the oldest first."""
        self.is_timed = False
        """True while hundreds of calls are timed, of which few may miss narrowly."""
        self._timed = self._narrow = 0
        self.peak_bytes = 0
        """Largest peak of memory of the calls so far, beyond inputs and outputs, as the worker reports it."""

    def exchange(self, seed: int | None = None, *, oracle: bool = False) -> Reply:
        """Make inputs, compute the expected outputs, call once, check everything. Raises RefusalError."""
        seed = secret_seed() if seed is None else seed
        expected = self.reference.expect(self.arguments(seed))
        truth = Truth.of(self.reference, expected) if oracle else None
        reply = self.call([expected])
        self.tally.seeds.add(seed)
        self.judge_values(reply.slots[0], expected, truth)
        return reply

    def arguments(
        self, seed: int | None = None, transform: Transform | None = None, applies: Callable[[Any], bool] = is_value
    ) -> Arguments:
        """Make the arguments of the next call, after the memory lent for the last one's outputs is free."""
        self.take_back()
        return self.reference.arguments(seed, transform, applies)

    def take_back(self, *, dead: bool = False) -> None:
        """Take back the memory that was lent for the last call's outputs; a dead worker has closed it."""
        if self._lent and not dead:
            self.candidate.ask({"op": "take_back"})
        if self._lent:
            self.arena.take_back()
        self._lent = False

    def fill(self, slots: Sequence[int], expected: Sequence[Expected]) -> None:
        """Prepare one call. If the arena lends, the judge's own arguments are freed for the outputs."""
        if self._steps_take_most:
            backend(self.reference.device).release_cached()
        for slot, of_slot in zip(slots, expected, strict=True):
            self.send_scalars(slot, of_slot.arguments)
        # Stopped, since a thread that watches the shared memory could compute the answer before it is asked.
        self.candidate.pause()
        for slot, of_slot in zip(slots, expected, strict=True):
            self.arena.fill(slot, of_slot)
        if self.arena.lends:
            for of_slot in expected:
                of_slot.arguments.clear()
            self.make_room(slots)

    @functools.cached_property
    def _steps_take_most(self) -> bool:
        memory_bytes = backend(self.reference.device).identify().memory_bytes
        return steps_take_most(self.reference.between_bytes, memory_bytes)

    def make_room(self, slots: Sequence[int]) -> None:
        """Give the worker poisoned buffers for the outputs of these slots."""
        if self.arena.lends:
            self.candidate.ask(*self.arena.lend())
            self._lent = True
            return
        for slot in slots:
            self.arena.poison(slot)

    def send_scalars(self, slot: int, arguments: list[Any]) -> None:
        """Send the worker the arguments of a slot that are not tensors, unless it has the same ones."""
        tree, _ = encoded(arguments)
        if tree != self._sent_scalars.get(slot, self.arena.arguments):
            self.candidate.ask({"op": "arguments", "slot": slot, "arguments": tree})
            self._sent_scalars[slot] = tree

    def clear_sent_scalars(self) -> None:
        """Forget the sent scalars: a fresh worker has the arguments that it was bound with."""
        self._sent_scalars.clear()

    def call(
        self, expected: list[Expected], *, slots: Sequence[int] | None = None, kill: bool = False, **how: bool
    ) -> Reply:
        """Fill slots, call on them (`how`: Worker.do_call) and check the inputs only; then stop or `kill`."""
        # By default a random slot: results must not depend on where the inputs lie.
        chosen = tuple(slots) if slots is not None else (secrets.randbelow(self.arena.count),)
        if self.reference.drifting:
            self.candidate.push_weights(self.reference)
        self.fill(chosen, expected)
        reply = self.candidate.call(chosen, expected, kill=kill, **how)
        self.launch_error, self.peak_bytes = reply.unchecked, max(self.peak_bytes, reply.peak_bytes)
        for slot, numbers in zip(chosen, reply.numbers, strict=True):
            self.keep_scalars(slot, numbers)
        for slot, of_slot in zip(chosen, expected, strict=True):
            self.require_unchanged(slot, of_slot)
        return reply

    @contextlib.contextmanager
    def beside(self, expected: Expected, misalign: int = 0) -> Iterator["Trial"]:
        """Bind the solution to an arena for one call of another layout inside a `with` block, and to this one again."""
        state = [t for _, t in self.reference.state()]
        arena = Arena(expected, state, self.reference.device, slots=1, misalign=misalign)
        try:
            self.take_back()
            self.candidate.bind(self.reference, arena)
            yield Trial(self.reference, self.candidate, arena)
        finally:
            arena.close()
            with contextlib.suppress(RefusalError):  # a worker that has ended fails in its next call
                self.candidate.bind(self.reference, self.arena)
            self.clear_sent_scalars()

    def require_unchanged(self, slot: int, expected: Expected) -> None:
        """Raise RefusalError unless the inputs of a slot are as they were before the call."""
        reference, may = self.reference, self.reference.mutates
        if reference.gradients is not None:
            may |= reference.gradients.overwritable(reference.blank)
        if changed := self.arena.changed(slot, expected, but=may):
            names = ", ".join(f"`{reference.inputs.tensor_paths[number]}`" for number in changed)
            reason = f"a call changed its input{'' if len(changed) == 1 else 's'} {names}"
            raise RefusalError(Status.INPUT_MUTATED, reason, self.candidate.log)

    def keep_scalars(self, slot: int, numbers: tuple[Any, ...]) -> None:
        """Keep the Python numbers among the results of a call on a slot, which are not in memory."""
        self._numbers[slot] = numbers

    def results(self, slot: int, outputs: Sequence[Tensor] | None = None) -> list[Tensor]:
        """Return a slot's `outputs` (by default the arena's), then inputs that a call changes, then numbers."""
        inputs = self.arena.inputs(slot)
        changed = (inputs[number] for number in sorted(self.reference.mutates))
        return [*(self.arena.outputs(slot) if outputs is None else outputs), *changed, *self._numbers[slot]]

    def judge_values(
        self,
        slot: int,
        expected: Expected,
        truth: Truth | None = None,
        outputs: Sequence[Tensor] | None = None,
        *,
        explains: bool = True,
    ) -> None:
        """Apply both rules to the outputs of a slot. Raises WrongError, with a diagnosis if it `explains` values."""
        outputs = self.results(slot, outputs)
        found = self.compare(outputs, expected, truth)
        self._timed += self.is_timed
        if found.ruling.right:
            self.tally.add(found)
            return
        if self.is_timed and may_be_chance(found.ruling.excess, self._narrow + 1, self._timed):
            self._narrow += 1
            self.tally.add(found)
            self.tally.figures = replace(self.tally.figures, contract="unattainable")
            return
        status = Status.UNWRITTEN_OUTPUT if any(d.poisoned for d in found.wrong) else Status.WRONG_VALUE
        figures = self.tally.correctness(self.reference.factor, found)
        refusal = WrongError(status, found.describe(self.launch_error), self.candidate.log, figures)
        refusal.excess = found.ruling.excess
        refusal.diagnosis = self.explain(outputs, expected) if explains else None
        if refusal.diagnosis is not None and refusal.diagnosis.code == UNWRITTEN:
            refusal.status = Status.UNWRITTEN_OUTPUT
        raise refusal

    def explain(self, outputs: list[Tensor], expected: Expected, *, plain: bool = True) -> Diagnosis | None:
        """Return a diagnosis of wrong outputs, or None; `plain`: the problem drew the inputs."""
        return explain(self.reference, self.candidate, outputs, expected, self.earlier, plain=plain)

    def compare(self, outputs: Sequence[Tensor], expected: Expected, truth: Truth | None = None) -> CheckedCall:
        """Compare outputs, and keep right answers; nothing is counted."""
        found = compare(self.reference, outputs, expected, truth, self.tally)
        if found.ruling.right and sum(t.numel() for t in expected.tensors) <= KEPT_ELEMENTS:
            self.earlier.append(expected.tensors)
        return found

    @property
    def proves_little(self) -> bool:
        """True if zeros, one value or the answer to other inputs is right for each output, or all outputs are empty."""
        outputs = self.arena.output_like
        if outputs and not any(output.numel() for output in outputs):
            return True
        passes = self.tally.trivial_output_passes
        return bool(passes) and all(passes[name] or name in self.reference.repeats for name in passes)
