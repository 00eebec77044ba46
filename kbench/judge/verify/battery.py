"""The verification battery: each check is one method, which raises a RefusalError or records a note."""

import itertools
import math
import secrets
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from kbench.catalog.problem import variable
from kbench.core.model import Finding, Status
from kbench.core.traces import summary_of
from kbench.core.values import COARSE_ERROR, DRAWS, MANY_DRAWS, UNATTAINABLE_ABOVE
from kbench.devices.backend import backend
from kbench.judge.comparison import Truth
from kbench.judge.exchange import Trial
from kbench.judge.reference import first_call
from kbench.judge.reference.drawing import is_number, secret_seed
from kbench.judge.reference.expected import FEW, Expected
from kbench.judge.reference.oracle import tolerance_within
from kbench.judge.reference.reference import Reference
from kbench.judge.refusal import HARMLESS, RefusalError, WrongError
from kbench.judge.verify.variations import MIXED, SCALE_UP, UNDER_SMALL_WEIGHTS, VALID, Variation, few_places, unseen
from kbench.numerics import elements, tails
from kbench.process.layouts import MOST_BYTES, layouts_of

SPREAD_FLOOR = 0.25
"""Tolerances by which outputs of equal inputs may differ even if the reference's own error is smaller."""
LAYOUTS = {"alignment": "misaligned", "strides": "strided", "channels_last": "channels_last"}
"""Inputs of other layouts in words, by the property of a solution that is wrong on them."""


def is_nearly_one_value(output: Tensor) -> bool:
    """Return whether all but a few elements of an output have one value, as zeros behind a ReLU do."""
    if not output.is_floating_point() or output.numel() < FEW:
        return False
    wide = output.double()
    return int((wide != wide.median()).sum().item()) < min(FEW, output.numel() // 2)


def separating(names: Collection[str]) -> list[set[str]]:
    """Return sets of names such that of any two, one set has the first and not the second.

    Each name gets a secret code of m bits, half of them ones; set k has the names whose k-th bit is one. No smaller
    such system exists (Sperner 1928; Spencer 1970): 2 sets of 2 names, 4 of 6, 8 of 70; none of one.
    """
    bits = next(m for m in itertools.count() if math.comb(m, m // 2) >= len(names))
    codes = list(itertools.combinations(range(bits), bits // 2))
    coded = list(zip(names, secrets.SystemRandom().sample(codes, len(names)), strict=True))
    return [{name for name, code in coded if bit in code} for bit in range(bits)]


def _reference_errors(trial: Trial, variation: Variation) -> tuple[float, ...]:
    """Return the reference's largest error of each output over several draws of a variation."""
    reference, worst = trial.reference, tuple[float, ...]()
    for _ in range(MANY_DRAWS):
        expected = reference.try_changed(trial.arguments(None, variation.transform, variation.applies))
        if not isinstance(expected, Exception):
            own = [*expected.judged.values()]
            none = [elements.Difference()] * len(own)
            ratios = Truth.of(reference, expected).ratios(none, own, expected, reference)
            now = [ratio.reference or 0.0 for ratio in ratios]
            worst = tuple(map(max, now, worst or now))
    return worst


class Battery:
    """Runs the checks for one candidate."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def essentials(self, trial: Trial) -> None:
        """Check secret seeds, each with new parameters if the solution follows them; then repeatability (`settled`)."""
        seeds = [secret_seed() for _ in range(DRAWS)]
        for seed in seeds:
            trial.candidate.vary_weights(trial.reference)
            trial.exchange(seed, oracle=True)
        self.settled(trial, seeds[0])

    def right_once(self, trial: Trial) -> None:
        """Check one call, with new parameters if the solution follows them."""
        trial.candidate.vary_weights(trial.reference)
        trial.exchange(oracle=True)

    def settled(self, trial: Trial, seed: int) -> None:
        """Check repeatability on inputs of a seed, and that parameters are unchanged; note trivial results."""
        reference = trial.reference
        self._repeatable(trial, seed)
        # Other inputs at the same address: an answer that is remembered by address is wrong.
        expected = reference.expect(trial.arguments())
        trial.call([expected], slots=[0])
        trial.judge_values(0, expected)
        del expected
        self._note_inputs(reference)
        if trial.proves_little:
            self.note("trivial_passes", "zeros, one value everywhere or the answer to other inputs would pass as well")
        trial.candidate.require_weights_unchanged(trial.reference)
        has_fractions = any(t.is_floating_point() or t.is_complex() for t in trial.arena.outputs(0))
        if has_fractions and trial.tally.figures.oracle_ratio is None:
            why = "it raises there, or is too large for it and entries of its batch depend on each other"
            self.note("no_oracle", f"the reference has no values in fp64: {why}; the contract alone decided")

    def _note_inputs(self, reference: Reference) -> None:
        """Note the limits of the inputs: values that never vary, and structure that is kept."""
        inputs, indices = reference.inputs, reference.indices.as_drawn
        unvaried = [f"equal in every draw: {', '.join(inputs.unvaried)}"] if inputs.unvaried else []
        if as_drawn := [path for n, path in enumerate(inputs.paths) if n in indices and path not in inputs.unvaried]:
            unvaried.append(f"integers only as `get_inputs` draws them: {', '.join(as_drawn)}")
        if unvaried:
            self.note("unvaried_input", "; ".join(unvaried))
        kept = {inputs.paths[n]: [each.name for each in found] for n, found in inputs.structures.items()}
        for n in sorted(inputs.computed - inputs.drawn):
            kept.setdefault(inputs.paths[n], ["computed from drawn numbers"])
        if kept:
            of_each = "; ".join(f"{path} is {' and '.join(names)}" for path, names in kept.items())
            self.note("kept_structure", f"in every draw, and therefore in all inputs: {of_each}")

    def weights(self, trial: Trial, *, apart: bool = True) -> None:
        """Check parameters that change after construction, and that only the judge changes them, from here on.

        All change at first, then each `apart` from each other: a value computed from two parameters may be renewed only
        when one of them changes (published 2/50). In all but one of these calls some elements keep their values, at
        first those of construction, so that a comparison of the first element shows no change. If one answer proves
        little (nearly all zeros in published 2/9), there are more calls. Up to DRAWS unexplained wrong answers do not
        end the check, because the next one may have a diagnosis.
        """
        trial.candidate.follows = True
        names = variable(trial.reference.model)
        parts = (separating(names) or [set(names)]) if apart else []
        proves_little = trial.proves_little or any(is_nearly_one_value(t) for outputs in trial.earlier for t in outputs)
        more = [set(names)] * (MANY_DRAWS if proves_little else 0)
        unexplained: list[WrongError] = []
        for number, part in enumerate([set(names), *parts, *more]):
            trial.candidate.vary_weights(trial.reference, part, but_samples=number != 1)
            try:
                # If a copy of an input meets the contract, a stale value may lie within the tolerance.
                oracle = part == set(names) or trial.tally.figures.contract == "vacuous"
                trial.exchange(oracle=oracle)
            except WrongError as refusal:
                if refusal.diagnosis is not None:
                    raise
                unexplained.append(refusal.without_frames())
                if len(unexplained) == DRAWS and not proves_little:
                    break
        if unexplained:
            raise unexplained[0]
        trial.candidate.require_weights_unchanged(trial.reference)
        if trial.reference.keeps_weights:
            message = "other parameters make the reference's results infinite, so they were not randomised"
            self.note("weights_kept", message)

    def small_weights(self, trial: Trial) -> None:
        """Check smaller parameters: functions that saturate with the usual ones may hide other arithmetic."""
        trial.reference.randomise(scale=1 / SCALE_UP)
        trial.candidate.push_weights(trial.reference)
        self.vary(trial, UNDER_SMALL_WEIGHTS)
        trial.candidate.vary_weights(trial.reference)

    def updated_in_place(self, trial: Trial) -> None:
        """Check parameters that are changed in place, as an optimiser does, without loading a checkpoint."""
        trial.reference.randomise()
        trial.candidate.push_weights(trial.reference, in_place=True)
        trial.exchange(oracle=True)

    def kept_results(self, trial: Trial) -> None:
        """Check that the result of a call is unchanged after the next call."""
        if trial.arena.count < 2:
            self.note("skipped_overwritten_output", "the memory does not hold the inputs of two calls")
            return
        slots = secrets.SystemRandom().sample(range(trial.arena.count), 2)
        expected = [trial.reference.expect(trial.arguments()) for _ in slots]
        trial.call(expected, slots=slots, late=True)
        for slot, of_slot in zip(slots, expected, strict=True):
            trial.judge_values(slot, of_slot, explains=False)  # each call alone is right

    def _repeatable(self, trial: Trial, seed: int) -> None:
        """Call on equal inputs several times; results may differ by rounding only."""
        prints: set[tuple[int, ...]] = set()
        spread, expected = 0.0, trial.reference.expect(trial.arguments(seed))
        for number in range(DRAWS):
            trial.take_back()
            expected.recalled()  # a second draw of the seed may differ
            slot = number % trial.arena.count
            trial.call([expected], slots=[slot])
            trial.judge_values(slot, expected)
            outputs = trial.arena.outputs(slot)
            prints.add(tuple(elements.fingerprint(t) for t in outputs))
            if slot:
                for now, then in zip(outputs, trial.arena.outputs(slot - 1), strict=True):
                    tolerance = trial.reference.tolerance(then)
                    least = tolerance.near_zero(elements.rms(then)) if tolerance.coarse else 0.0
                    if not tolerance.exact:  # exact results that differ were each found right
                        near = replace(tolerance, atol=max(tolerance.atol, least))
                        spread = max(spread, elements.compare(now, then, near).ratio)
        allowed = max(SPREAD_FLOOR, trial.reference.factor * (trial.tally.figures.reference_ratio or 0.0))
        if spread > allowed:
            message = f"equal inputs gave outputs {spread:.3g} tolerances apart; rounding explains {allowed:.3g}"
            raise RefusalError(Status.NONDETERMINISTIC, message, trial.candidate.log)
        if len(prints) > 1:
            compared = trial.arena.count > 1
            apart = "that differ within the tolerance" if compared else "of different bits, all within the tolerance"
            self.note("nondeterministic_bits", f"equal inputs gave outputs {apart}")

    def resembling(self, trial: Trial, variation: Variation) -> None:
        """Check inputs that resemble the last call's, at its place; a miss of others of that kind as well `is_lack`."""
        seed = secret_seed()
        slots = trial.exchange(seed).slots
        try:
            self.vary(trial, variation, [seed], slots)
        except RefusalError as refusal:
            if refusal.status in {Status.WRONG_VALUE, Status.RAISED}:
                try:
                    self.vary(trial, variation, [secret_seed()])
                except RefusalError as again:
                    again.is_lack = again.status is refusal.status
                    raise
            raise

    def values(self, trial: Trial, *, one_kind: bool) -> None:
        """Check all kinds of values in one call, then `one_kind` alone.

        Each kind is checked alone if these cannot decide, or are wrong: the miss of one says more.
        """
        kinds, missed = [*VALID], None
        try:
            if self.vary(trial, MIXED):
                kinds = [secrets.choice(VALID)] * one_kind
        except RefusalError as refusal:
            if refusal.status not in HARMLESS:
                raise
            missed = refusal.without_frames()
        for kind in kinds:
            if kind.changes(trial.reference.inputs):
                self.vary(trial, kind)
        if missed is not None:
            raise missed

    def in_few_places(self, trial: Trial, draws: int) -> None:
        """Check a few elements of another sign, level or size, at places that samples seldom include."""
        few = few_places(trial.reference.inputs)
        for _ in range(draws):
            any(self.vary(trial, variation) for variation in few)

    def vary(
        self, trial: Trial, variation: Variation, seeds: Sequence[int] = (), slots: Sequence[int] | None = None
    ) -> bool:
        """Check other values with the first seed whose inputs can decide; return whether there is one."""
        drawn = self._draw(trial, variation, seeds or [secret_seed() for _ in range(MANY_DRAWS)])
        if drawn is None:
            return False
        expected, truth = drawn
        if variation.is_usual:
            # A copy of an input may meet the contract here alone, as for a tanh of small values.
            truth = replace(truth, vacuous=(False,) * len(truth.vacuous))
        if expected.has_few and truth.pieces is not None and variation.within > UNATTAINABLE_ABOVE:
            truth = replace(truth, least_reference_errors=_reference_errors(trial, variation))
        try:
            reply = trial.call([expected], slots=slots)
        except RefusalError as refusal:
            refusal.reason = f"on {variation.inputs}: {refusal.reason}"
            raise
        found = trial.compare(trial.results(reply.slots[0]), expected, truth)
        # Two honest roundings may lie more than a tolerance apart on inputs that the problem did not choose; a
        # different function is far from fp64 too. Exact and non-finite outputs that differ are infinitely far apart.
        if found.ruling.right or found.is_rounding:
            return True
        reason = f"on {variation.inputs}: {found.describe(trial.launch_error)}"
        wrong = RefusalError(Status.WRONG_VALUE, reason, trial.candidate.log)
        if variation.is_usual and variation.is_last:
            wrong.diagnosis = trial.explain(trial.results(reply.slots[0]), expected, plain=False)
        wrong.excess = found.ruling.excess
        raise wrong

    def _draw(self, trial: Trial, variation: Variation, seeds: Sequence[int]) -> tuple[Expected, Truth] | None:
        """Return the first draw that can decide; None, with a note, if none can. Small outputs get several draws."""
        for seed in seeds:
            expected = trial.reference.try_changed(trial.arguments(seed, variation.transform, variation.applies))
            if isinstance(expected, Exception):
                if variation.is_last:
                    self._refused_by_reference(variation.name, expected)
                return None
            truth = Truth.of(trial.reference, expected)
            if variation.may_overflow or self._valid(trial, expected, truth, variation.within):
                return expected, truth
            if not expected.has_few:
                break
        if variation.is_last:
            message = f"skipped {variation.inputs}: the reference itself is not finite or not accurate on them"
            self.note(f"skipped_{variation.name}", message)
        return None

    @staticmethod
    def _valid(trial: Trial, expected: Expected, truth: Truth, within: float) -> bool:
        """Return whether the reference is finite and itself accurate on these inputs."""
        whole = truth.pieces is not None and all(index is ... for index, _ in truth.pieces)
        if not expected.is_finite and (not whole or trial.reference.is_finite()):
            return False  # the reference is not defined there, as a logarithm of negative values
        for index, exact in truth.pieces or []:
            for want, double in zip(expected.judged.values(), exact, strict=True):
                part = want[index]
                tolerance = tolerance_within(trial.reference.rounds_to, want, trial.reference.tolerance(want))
                if tolerance.exact or not double.is_floating_point():
                    continue
                overflows, scale = elements.overflow_and_rms(part, double)
                if overflows:
                    return False
                if tolerance.coarse:  # in 16 bits a few elements are always many tolerances off
                    is_off = tails.quantile_error(part, double, tolerance, 0.5) > COARSE_ERROR
                else:
                    is_off = bool(elements.worst_errors([part], double, tolerance, [tolerance.atol * scale]) > within)
                if is_off:
                    return False
        return True

    def other_numbers(self, trial: Trial) -> None:
        """Check other values of the Python numbers among the inputs, which no seed changes."""
        if trial.reference.cost.dram_bytes > MOST_BYTES:
            self.note("skipped_other_numbers", "the inputs are too large to try other values of the numbers among them")
            return
        arguments = trial.reference.arguments(None, lambda number: 1.25 * number, is_number)
        self._beside(trial, "other_numbers", arguments)

    def unseen_integers(self, trial: Trial) -> None:
        """Check indices that are drawn from all entries of a parameter, everywhere and in few places."""
        reference = trial.reference
        for places in (None, unseen, unseen):
            arguments = reference.indices.over_all_entries(reference.inputs, places)
            if backend(reference.device).has_own_memory:
                fits = first_call.fits_host(reference.model, arguments)
                if not fits or first_call.raised_on_host(reference.model, arguments):
                    self.note("skipped_other_indices", "the reference does not take indices beyond those drawn")
                    return
            self._beside(trial, "unseen_integers", arguments)

    def laid_out(self, trial: Trial, lack: str) -> None:
        """Check inputs in the layout of a lack, if they admit it."""
        for name, arguments, misalign in layouts_of(trial.reference.arguments()):
            if name == lack:
                self._beside(trial, LAYOUTS[lack], arguments, misalign)

    def _beside(self, trial: Trial, code: str, arguments: list[Any], misalign: int = 0) -> None:
        """Call once on inputs that need another arena, unless the reference refuses them."""
        reference = trial.reference
        expected = reference.expect(arguments) if misalign else reference.try_changed(arguments)
        if isinstance(expected, Exception):
            self._refused_by_reference(code, expected)
            return
        try:
            with trial.beside(expected, misalign) as other:
                other.judge_values(other.call([expected]).slots[0], expected)
        except RefusalError as error:
            error.reason = f"on {code.replace('_', ' ')} inputs: {error.reason}"
            raise

    def _refused_by_reference(self, code: str, error: Exception) -> None:
        why = summary_of(error)
        self.note(f"skipped_{code}", f"skipped {code.replace('_', ' ')} inputs: the reference raises on them: {why}")

    def note(self, code: str, message: str) -> None:
        """Record a note, once per code."""
        if all(finding.code != code for finding in self.findings):
            self.findings.append(Finding.note(code, message))

    def withdraw(self, code: str) -> None:
        """Remove a note."""
        self.findings = [finding for finding in self.findings if finding.code != code]
