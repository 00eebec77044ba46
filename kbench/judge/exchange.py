"""Exchanges between judge and worker: fresh inputs, one call, every output checked."""

import collections
import contextlib
import functools
import math
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from kbench.core.diagnosis import UNWRITTEN, Diagnosis
from kbench.core.forecast import steps_take_most
from kbench.core.model import Status
from kbench.core.values import MAX_BOUNDARY_SHARE, Ratios, Ruling, may_be_chance, rule, rule_all
from kbench.devices.backend import backend
from kbench.judge.arena import Arena, encoded
from kbench.judge.candidate import Candidate
from kbench.judge.clock.readings import Reply
from kbench.judge.reference.boundaries import Boundaries
from kbench.judge.reference.drawing import Arguments, Transform, is_value
from kbench.judge.reference.expected import Expected
from kbench.judge.reference.oracle import has_all_misses, worst_of_entries
from kbench.judge.reference.reference import Reference
from kbench.judge.refusal import RefusalError, WrongError, describe_wrong, failed_launch
from kbench.judge.tally import Tally
from kbench.judge.verify.fp64_errors import Truth, against_oracle
from kbench.numerics import elements

SMALL = 0.5
"""Outputs with a smaller root mean square are compared in every call with a tolerance of their own scale."""
KEPT_ANSWERS, KEPT_ELEMENTS = 4, 1 << 20
"""Number and size of earlier answers that are kept, to recognise one that is returned again."""


Explain = Callable[["Trial", list[Tensor], Expected], Diagnosis | None]


class Trial:
    """A reference and a candidate bound to one arena."""

    _unchecked = ""
    """CUDA's words for an unchecked launch in the last call; empty without one."""

    def __init__(self, reference: Reference, candidate: Candidate, arena: Arena, explain: Explain | None = None):
        self.reference = reference
        self.candidate = candidate
        self.arena = arena
        self.tally = Tally()
        self._lent = False
        self._numbers: dict[int, tuple[Any, ...]] = {}
        self._sent_scalars: dict[int, Any] = {}
        self.earlier: collections.deque[list[Tensor]] = collections.deque(maxlen=KEPT_ANSWERS)
        """Right answers of the last calls, the oldest first."""
        self._explain, self.explains = explain, True
        self.is_timed = False
        """True while hundreds of calls are timed, of which few may miss narrowly."""
        self._timed = self._narrow = 0
        self.peak_bytes = 0
        """Largest peak of memory of the calls so far, beyond inputs and outputs, as the worker reports it."""

    def exchange(self, seed: int, *, oracle: bool = False) -> Reply:
        """Make inputs, compute the expected outputs, call once, check everything. Raises RefusalError."""
        expected = self.reference.expect(self.arguments(seed))
        truth = self.truth(expected) if oracle else None
        reply = self.call([expected])
        self.tally.seeds.add(seed)
        self.judge_values(reply.slots[0], expected, truth)
        return reply

    def arguments(
        self, seed: int, transform: Transform | None = None, applies: Callable[[Any], bool] = is_value
    ) -> Arguments:
        """Make the arguments of the next call, after the memory lent for the last one's outputs is free."""
        self.take_back()
        return self.reference.arguments(seed, transform, applies)

    def take_back(self, *, dead: bool = False) -> None:
        """Take back the memory that was lent for the last call's outputs; a dead worker has closed it."""
        if self._lent and dead:
            self.arena.take_back()
        elif self._lent:
            self.candidate.take_back(self.arena)
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
            self.candidate.lend(self.arena)
            self._lent = True
            return
        for slot in slots:
            self.arena.poison(slot)

    def send_scalars(self, slot: int, arguments: list[Any]) -> None:
        """Send the worker the arguments of a slot that are not tensors, unless it has the same ones."""
        tree, _ = encoded(arguments)
        if tree != self._sent_scalars.get(slot, self.arena.arguments):
            self.candidate.send_scalars(slot, tree)
            self._sent_scalars[slot] = tree

    def clear_sent_scalars(self) -> None:
        """Forget the sent scalars: a fresh worker has the arguments that it was bound with."""
        self._sent_scalars.clear()

    def call(
        self, expected: list[Expected], *, slots: Sequence[int] | None = None, kill: bool = False, **how: bool
    ) -> Reply:
        """Fill slots, call on them (`how`: Worker.do_call) and check the inputs only; then stop or `kill`."""
        chosen = tuple(slots) if slots is not None else (self.arena.random_slot(),)
        if self.reference.drifting:
            self.candidate.push_weights(self.reference)
        self.fill(chosen, expected)
        reply = self.candidate.call(chosen, expected, kill=kill, **how)
        self._unchecked, self.peak_bytes = reply.unchecked, max(self.peak_bytes, reply.peak_bytes)
        for slot, numbers in zip(chosen, reply.numbers, strict=True):
            self.keep_scalars(slot, numbers)
        for slot, of_slot in zip(chosen, expected, strict=True):
            self.require_unchanged(slot, of_slot)
        return reply

    @contextlib.contextmanager
    def beside(self, arena: Arena) -> Iterator["Trial"]:
        """Bind the solution to another arena inside a `with` block, and to this one again after it."""
        self.take_back()
        try:
            self.candidate.bind(self.reference, arena)
            yield Trial(self.reference, self.candidate, arena, self._explain)
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
            which = f"{'' if len(changed) == 1 else 's'} {', '.join(map(str, changed))}"
            raise RefusalError(Status.INPUT_MUTATED, f"a call changed its input tensor{which}", self.candidate.log)

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
        require_final: Callable[[], None] = lambda: None,
    ) -> Ruling:
        """Apply both rules to the outputs of a slot. Raises WrongError, after `require_final`."""
        outputs = self.results(slot, outputs)
        ruling, differences = self.compare(outputs, expected, truth)
        wrong = [d for d in differences if d.ratio > 1]
        self._timed += self.is_timed
        if not ruling.right and not self._may_be_chance(ruling):
            status = Status.UNWRITTEN_OUTPUT if any(d.poisoned for d in wrong) else Status.WRONG_VALUE
            mismatches = tuple(m for d in wrong for m in d.mismatches)
            figures = self.tally.correctness(self.reference.factor, sum(d.wrong for d in wrong), mismatches)
            refusal = WrongError(status, self.describe(differences, ruling, expected), self.candidate.log, figures)
            refusal.excess = ruling.excess
            require_final()
            if self._explain is not None and self.explains:
                refusal.diagnosis = self._explain(self, outputs, expected)
                if refusal.diagnosis is not None and refusal.diagnosis.code == UNWRITTEN:
                    refusal.status = Status.UNWRITTEN_OUTPUT
            raise refusal
        return ruling

    def _may_be_chance(self, ruling: Ruling) -> bool:
        if not self.is_timed or not may_be_chance(ruling.excess, self._narrow + 1, self._timed):
            return False
        self._narrow += 1
        self.tally.figures = replace(self.tally.figures, contract="unattainable")
        return True

    def describe(self, differences: list[elements.Difference], ruling: Ruling, expected: Expected) -> str:
        """Describe wrong outputs, and the allowed error."""
        pairs = list(zip(differences, map(self.reference.tolerance, expected.judged.values()), strict=True))
        wrong = [(d, tolerance) for d, tolerance in pairs if d.ratio > 1] or [pairs[ruling.output]]
        described = describe_wrong([d for d, _ in wrong], ruling, wrong[0][1])
        return f"{failed_launch(self._unchecked)}{described}"

    def compare(
        self, outputs: list[Tensor], expected: Expected, truth: Truth | None
    ) -> tuple[Ruling, list[elements.Difference]]:
        """Compare outputs with the reference's, and with the truth where it is known or the contract misses."""
        names, wanted = list(expected.judged), list(expected.judged.values())
        differences = [
            elements.compare(got, want, self.reference.tolerance(want), name)
            for got, want, name in zip(outputs, wanted, names, strict=True)
        ]
        ratios = [Ratios(contract=d.ratio) for d in differences]
        missed = [number for number, d in enumerate(differences) if d.ratio > 1]
        if missed and (truth is None or not truth.is_whole):
            truth = self.truth(expected, outputs)
        elif truth is None and self._doubtful(outputs, wanted):
            truth = self.truth(expected)
        if truth is not None:
            outputs, self.tally.scales = list(outputs), truth.scales
            boundaries = functools.cache(lambda: self.reference.boundaries(expected))
            for n in missed if truth.is_whole else [n for n in missed if self.reference.tolerance(wanted[n]).exact]:
                outputs[n] = self._by_boundaries(boundaries, n, outputs[n], wanted[n], differences[n])
                differences[n] = elements.compare(outputs[n], wanted[n], self.reference.tolerance(wanted[n]), names[n])
            ratios = truth.ratios(differences, outputs, expected, self.reference.tolerance)
            self._try_trivial(ratios, expected, truth)
        ruling = rule_all(ratios, self.reference.factor)
        if truth is not None and not ruling.right and all(d.ratio <= 1 for d in differences):
            number = ruling.output
            place = truth.furthest(outputs[number], number, self.reference.tolerance(wanted[number]), names[number])
            differences[number] = replace(differences[number], mismatches=place)
        self.tally.add(differences, ratios, ruling, self.reference.factor)
        if ruling.right and sum(t.numel() for t in expected.tensors) <= KEPT_ELEMENTS:
            self.earlier.append(expected.tensors)
        return ruling, differences

    def _by_boundaries(
        self, boundaries: Callable[[], Boundaries], number: int, got: Tensor, want: Tensor, found: elements.Difference
    ) -> Tensor:
        """Return an output with the reference's values at elements that are right because a boundary is near."""
        tolerance = self.reference.tolerance(want)
        few = found.wrong <= max(1, MAX_BOUNDARY_SHARE * found.elements)
        if not tolerance.exact and not (self.reference.decides and few):
            return got
        output, picks, at_boundary = boundaries().near(number, got, want, tolerance)
        self.tally.picks = max(self.tally.picks, picks)
        self.tally.boundary = max(self.tally.boundary, (at_boundary, found.elements))
        return output

    def truth(self, expected: Expected, outputs: Sequence[Tensor] | None = None) -> Truth:
        """Compute fp64 outputs and scales; if large `outputs` are given, for the entries that they miss most."""
        inputs = [a for a in expected.recalled() if hasattr(a, "untyped_storage")]
        wanted = [(want, self.reference.tolerance(want)) for want in expected.judged.values()]
        found = [elements.vacuous_and_rms(want, inputs, tolerance) for want, tolerance in wanted]
        is_cut = outputs is not None and not self.reference.is_small(expected)
        tolerances, scales = [t for _, t in wanted], [scale for _, scale in found]
        worst = worst_of_entries(outputs or (), expected, tolerances, scales) if is_cut else None
        pieces = self.reference.oracle(expected, worst)
        return Truth(
            pieces=pieces,
            vacuous=tuple(v for v, _ in found),
            scales=tuple(scales),
            has_all_misses=pieces is not None and (worst is None or has_all_misses(pieces, worst)),
        )

    def reference_errors(self, transform: Transform, applies: Callable[[Any], bool], draws: int) -> tuple[float, ...]:
        """Return the reference's largest error of each output over `draws` draws."""
        worst: tuple[float, ...] = ()
        for _ in range(draws):
            expected = self.reference.try_expect(self.arguments(secret_seed(), transform, applies))
            if not isinstance(expected, Exception):
                own = [*expected.judged.values()]
                none = [elements.Difference()] * len(own)
                ratios = self.truth(expected).ratios(none, own, expected, self.reference.tolerance)
                now = [ratio.reference or 0.0 for ratio in ratios]
                worst = tuple(map(max, now, worst or now))
        return worst

    def _doubtful(self, outputs: list[Tensor], wanted: list[Tensor]) -> bool:
        """Return whether small outputs differ by more than the oracle rule allows, though they pass the contract.

        Zeros may meet the contract, too. The distance of two values is at most the sum of their allowed errors, so the
        truth is not computed for every call.
        """
        for got, want, scale, own in zip(outputs, wanted, self.tally.scales, self.tally.reference_errors, strict=False):
            tolerance = self.reference.tolerance(want)
            if tolerance.exact or scale > SMALL:
                continue
            allowed = max(1.0, self.reference.factor * own) + own
            if elements.compare(got, want, replace(tolerance, atol=tolerance.near_zero(scale))).ratio > allowed:
                return True
        return False

    def _try_trivial(self, ratios: list[Ratios], expected: Expected, truth: Truth) -> None:
        """Find the outputs for which zeros, or one value everywhere, are right on these inputs."""
        for number, (name, want) in enumerate(expected.judged.items()):
            if self.tally.trivial_output_passes.get(name, True) is False or not want.numel():
                continue
            if self.reference.tolerance(want).exact:
                self.tally.trivial_output_passes[name] = False  # only equal values are right
                continue
            kind = rule(ratios[number], self.reference.factor).contract
            self.tally.trivial_output_passes[name] = kind != "held"
            if kind != "held" and truth.pieces is not None:
                constants = want.new_zeros(()), elements.mean(want)
                tried = (self._passes(value.expand(want.shape), number, expected, truth) for value in constants)
                self.tally.trivial_output_passes[name] = any(tried)

    def _passes(self, got: Tensor, number: int, expected: Expected, truth: Truth) -> bool:
        want, found = list(expected.judged.values())[number], Ratios(contract=math.inf, vacuous=True)
        for index, exact in truth.pieces or ():
            found = against_oracle(found, got[index], want[index], exact[number], self.reference.tolerance(want))
        return rule(found, self.reference.factor).right

    @property
    def proves_little(self) -> bool:
        """True if zeros, one value or the answer to other inputs is right for each output, or all outputs are empty."""
        outputs = self.arena.output_like
        if outputs and not any(output.numel() for output in outputs):
            return True
        passes = self.tally.trivial_output_passes
        return bool(passes) and all(passes[name] or name in self.reference.repeats for name in passes)


def secret_seed() -> int:
    """Return a seed that cannot be guessed; it never leaves the judge."""
    return secrets.randbits(62)
