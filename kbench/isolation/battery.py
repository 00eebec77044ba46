"""The verification battery: integrity, semantics and conditioning, each check one entry of a table.

Integrity and semantics failures end the trial with a RefusalError. Conditioning failures are findings, fatal only with
`--robust`. Every check that could not be made becomes a note: never a silent pass.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import replace

from kbench.core.diagnosis import Diagnosis
from kbench.core.model import Finding, FindingKind, Status
from kbench.core.rightness import UNATTAINABLE_ABOVE
from kbench.isolation.arena import Arena, is_large
from kbench.isolation.candidate import Candidate
from kbench.isolation.expected import Expected
from kbench.isolation.inputs import is_number
from kbench.isolation.inquiry import inquire
from kbench.isolation.layouts import layouts_of
from kbench.isolation.memory import release_cached
from kbench.isolation.reference import Reference
from kbench.isolation.refusal import RefusalError
from kbench.isolation.trial import Trial, secret_seed
from kbench.isolation.truth import Truth
from kbench.isolation.variations import RESEMBLING, VARIATIONS, Variation
from kbench.isolation.wire import printable
from kbench.measure import check, tails

SEEDS = 3
REPEATS = 3
SPREAD_FLOOR = 0.25
"""Tolerances by which outputs of equal inputs may differ where the reference's own error is smaller still."""
SHAPELESS = {
    *(Status.IMPORT_FAILED, Status.IMPORT_TIMEOUT, Status.TOTAL_TIMEOUT, Status.EXITED),
    *(Status.PROTOCOL_ERROR, Status.NOT_VERIFIED, Status.HARNESS_ERROR),
}
FEW, FEW_DRAWS = 64, 8
"""Elements; of fewer, a reference that misses by its rounding may meet the truth by luck, but not in so many draws."""
MOST_OF_A_REASON = 200
COARSELY = 1.0
"""Tolerances from fp64 that half of a 16-bit reference's elements may be on inputs that are to decide."""
NUMBERS_BYTES = 1 << 28
"""Other numbers are tried on inputs up to this size."""


def other_failure(status: Status) -> FindingKind | None:
    """Say what a failure at another shape or layout than the problem's own means; None where it means neither.

    An exception of the solution's own is how a kernel says that it was made for other inputs, which is its right. An
    answer that is wrong, a crash or a hang on inputs that the reference accepts is not.
    """
    if status in {Status.RAISED, Status.INIT_FAILED, Status.BUILD_FAILED}:
        return FindingKind.NOTE
    return None if status in SHAPELESS else FindingKind.SEMANTICS


class Battery:
    """Runs the checks for one candidate. `robust` makes conditioning findings fatal."""

    def __init__(self, candidate: Candidate, *, robust: bool):
        self._candidate = candidate
        self._robust = robust
        self.findings: list[Finding] = []

    def bind(self, reference: Reference, *, lends: bool, queued: bool) -> Trial:
        """Bind candidate and reference to a new arena, laid out after one call; a large one may lend its outputs."""
        expected = reference.expect(reference.arguments(secret_seed()))
        lends = lends and is_large(expected, reference.device) and reference.inputs.follow_seeds()
        if lends:
            release_cached(reference.device)  # small tensors in a large free block would keep it from being lent
        arena = Arena(expected, [t for _, t in reference.state()], reference.device, lends=lends, queued=queued)
        self._candidate.bind(reference, arena)
        return Trial(reference, self._candidate, arena)

    def essentials(self, trial: Trial) -> None:
        """Check secret seeds with fresh parameters, the oracle, repeatability, and parameters left alone."""
        reference, candidate = trial.reference, trial.candidate
        first = secret_seed()
        for number in range(SEEDS):
            candidate.vary_weights(reference, secret_seed())
            trial.exchange(first if number == 0 else secret_seed(), oracle=True)
        self._repeatable(trial, first)
        if reference.inputs.unvaried:
            self.note("unvaried_input", f"the same in every draw: {', '.join(reference.inputs.unvaried)}")
        if trial.proves_little:
            self.note("trivial_passes", "zeros, one value everywhere or the answer to other inputs would pass as well")
        if trial.ties:
            self.note("ties", "indices differ from the reference's where they point at equal values of an input")
        changed = candidate.weights_changed(reference)
        if changed is not None:
            raise RefusalError(Status.PARAMETER_MUTATED, f"a call changed the parameter `{changed}`", candidate.log)
        if candidate.weights == "seed":
            self.note(
                "weights_by_seed",
                "parameters match the reference's by seed only, so they were not randomised",
            )
        if reference.keeps_weights:
            self.note(
                "weights_kept", "other parameters make the reference's results infinite, so they were not randomised"
            )
        if trial.tally.oracle is None and any(t.is_floating_point() or t.is_complex() for t in trial.arena.outputs(0)):
            self.note("no_oracle", "no fp64 reference could be computed; the contract alone decided")

    def _repeatable(self, trial: Trial, seed: int) -> None:
        """Call on equal inputs several times; results may differ by no more than rounding explains."""
        prints: set[tuple[int, ...]] = set()
        spread = 0.0
        for number in range(REPEATS):
            expected = trial.reference.expect(trial.arguments(seed))
            slot = number % trial.arena.count
            trial.call([expected], slots=[slot])
            trial.judge_values(slot, expected)
            outputs = trial.arena.outputs(slot)
            paths = [path for path, leaf in expected.leaves if hasattr(leaf, "untyped_storage")]
            prints.add(tuple(check.fingerprint(t) for t in outputs))
            del expected  # before the next one is made: at full size each is a large share of the memory
            if slot:
                pairs = zip(outputs, trial.arena.outputs(slot - 1), paths, strict=True)
                inputs = functools.partial(trial.arena.inputs, slot)
                spread = max([spread, *(trial.difference(now, then, inputs, path).ratio for now, then, path in pairs)])
        allowed = max(SPREAD_FLOOR, trial.reference.factor * (trial.tally.reference or 0.0))
        if spread > allowed:
            message = f"equal inputs gave outputs {spread:.3g} tolerances apart; rounding explains {allowed:.3g}"
            self._fatal("nondeterministic", FindingKind.INTEGRITY, message, Status.NONDETERMINISTIC)
            raise RefusalError(Status.NONDETERMINISTIC, message, trial.candidate.log)
        if len(prints) > 1:
            self.note("nondeterministic_bits", "equal inputs gave outputs that differ within the tolerance")

    def values(self, trial: Trial, variations: Sequence[Variation] = VARIATIONS) -> None:
        """Check other valid values of the inputs, then badly conditioned ones."""
        for variation in variations:
            if trial.reference.inputs.has(variation.applies):
                self._vary(trial, variation, secret_seed())

    def resembling(self, trial: Trial) -> None:
        """Check inputs that resemble those of the call before, which whoever remembers results may mistake."""
        for variation in RESEMBLING:
            if trial.reference.inputs.has(variation.applies):
                seed = secret_seed()
                trial.exchange(seed)
                self._vary(trial, variation, seed)

    def _vary(self, trial: Trial, variation: Variation, seed: int) -> None:
        reference = trial.reference
        expected = reference.try_expect(trial.arguments(seed, variation.transform, variation.applies))
        if isinstance(expected, Exception):
            self._refused_by_reference(variation.code, expected)
            return
        truth = trial.truth(expected)
        strict = variation.kind is FindingKind.SEMANTICS
        if strict and not self._valid(trial, expected, truth, variation.within):
            self.note(
                f"skipped_{variation.code}",
                f"the reference is not finite or not accurate on {variation.code} inputs",
            )
            return
        few = any(t.numel() < FEW for t in expected.judged.values())
        if few and truth.pieces is not None and variation.within > UNATTAINABLE_ABOVE:
            own = trial.own_errors(variation.transform, variation.applies, FEW_DRAWS)
            truth = replace(truth, own_at_least=own)
        try:
            reply = trial.call([expected])
        except RefusalError as refusal:
            if refusal.status is not Status.WRONG_VALUE:
                raise
            # A number among the outputs, which is held against the reference's as soon as it is told.
            self._found(variation, f"wrong on {variation.inputs}: {refusal.reason}", trial)
            return
        held, tally = trial.tally, type(trial.tally)()
        trial.tally = tally
        ruling, differences = trial.compare(trial.results(reply.slots[0]), expected, truth)
        trial.tally = held
        # Two honest roundings may lie more than a tolerance apart on inputs that the problem did not choose; a
        # different function is far from fp64 too. Exact and non-finite outputs that differ are infinitely far apart.
        if ruling.right or (tally.explained and math.isfinite(tally.contract)):
            return
        said = trial.describe(differences, ruling, expected)
        decides = variation.kind is not FindingKind.CONDITIONING
        diagnosis = inquire(trial, trial.results(reply.slots[0]), expected, plain=False) if decides else None
        self._found(variation, f"wrong on {variation.inputs}: {said}", trial, diagnosis)

    def _found(self, variation: Variation, message: str, trial: Trial, diagnosis: Diagnosis | None = None) -> None:
        conditioning = variation.kind is FindingKind.CONDITIONING
        if conditioning and not self._robust:
            self.findings.append(Finding(code=variation.code, kind=variation.kind, message=message))
            return
        status = Status.FRAGILE if conditioning else Status.WRONG_VALUE
        self._fatal(variation.code, variation.kind, message, status)
        refusal = RefusalError(status, message, trial.candidate.log)
        refusal.diagnosis = diagnosis
        raise refusal

    def _fatal(self, code: str, kind: FindingKind, message: str, status: Status) -> None:
        self.findings.append(Finding(code=code, kind=kind, message=message, fatal=True, status=status))

    @staticmethod
    def _valid(trial: Trial, expected: Expected, truth: Truth, within: float) -> bool:
        """Say whether the reference is finite and itself accurate on these inputs."""
        whole = truth.pieces is not None and all(not index for index, _ in truth.pieces)
        if not expected.is_finite and not whole:
            return False
        for index, exact in truth.pieces or []:
            for want, double in zip(expected.judged.values(), exact, strict=True):
                part = want[index] if index else want
                tolerance = trial.reference.tolerance(want)
                if tolerance.exact or not double.is_floating_point():
                    continue
                if check.overflows(part, double):
                    return False
                if tolerance.coarse:
                    # An element near zero is many tolerances off whatever is done in 16 bits.
                    if tails.median_error(part, double, tolerance, scale=min(1.0, check.rms(double))) > COARSELY:
                        return False
                    continue
                if check.oracle_ratio(part, double, tolerance, scale=check.rms(double)) > within:
                    return False
        return True

    def layouts(self, reference: Reference) -> None:
        """Check inputs that are misaligned, non-contiguous, or channels-last."""
        for code, changed, misalign in layouts_of(reference.arguments(secret_seed())):
            expected = reference.expect(changed) if misalign else reference.try_expect(changed)
            self._bound_anew(reference, code, expected, misalign)

    def numbers(self, reference: Reference) -> None:
        """Check other values of the Python numbers among the inputs, which no seed changes."""
        if not reference.inputs.has(is_number):
            return
        if reference.cost.dram_bytes > NUMBERS_BYTES:
            self.note("skipped_other_numbers", "the inputs are too large to try other values of the numbers among them")
            return
        changed = reference.arguments(secret_seed(), lambda number: 1.25 * number, is_number)
        self._bound_anew(reference, "other_numbers", reference.try_expect(changed))

    def _bound_anew(self, reference: Reference, code: str, expected: Expected | Exception, misalign: int = 0) -> None:
        """Call once on inputs that need an arena of their own; a wrong answer is a finding, and fatal."""
        if isinstance(expected, Exception):
            self._refused_by_reference(code, expected)
            return
        arena = Arena(expected, [t for _, t in reference.state()], reference.device, slots=1, misalign=misalign)
        self._candidate.bind(reference, arena)
        try:
            trial = Trial(reference, self._candidate, arena)
            reply = trial.call([expected])
            trial.judge_values(reply.slots[0], expected)
        except RefusalError as error:
            if self._refuses(error, f"{code.replace('_', ' ')} inputs"):
                return
            self._blame(error, code, f"wrong on {code.replace('_', ' ')} inputs")
            raise
        finally:
            arena.close()

    def explain_shape(self, refusal: RefusalError, shape: str) -> bool:
        """Say whether a refusal at a shape that the problem does not list is a note; if not, it is a finding."""
        if self._refuses(refusal, shape):
            return True
        self._blame(refusal, "other_shape", f"at {shape}")
        return False

    def _blame(self, refusal: RefusalError, code: str, where: str) -> None:
        """Make a finding of a refusal that is due to the shape or layout, and let its reason say so."""
        kind = other_failure(refusal.status)
        if kind is not None:
            message = f"{where}: {refusal.reason}"
            if refusal.diagnosis is None or refusal.diagnosis.code != "needs_other_shape":  # which names it
                refusal.reason = message
            self._fatal(code, kind, message, refusal.status)

    def _refuses(self, refusal: RefusalError, where: str) -> bool:
        """Note it where a solution says itself that it was not made for such inputs."""
        noted = other_failure(refusal.status) is FindingKind.NOTE
        if noted:
            message = f"not made for {where}: {refusal.reason}"
            self.findings.append(Finding.note("specialised", message))
        return noted

    def _refused_by_reference(self, code: str, error: Exception) -> None:
        reason = f"{type(error).__name__}: {printable(str(error)).partition(chr(10))[0]}"[:MOST_OF_A_REASON]
        self.note(f"skipped_{code}", f"the reference raises on {code.replace('_', ' ')} inputs: {reason}")

    def note(self, code: str, message: str) -> None:
        """Record what could not be checked, or is worth knowing, once per code."""
        if all(finding.code != code for finding in self.findings):
            self.findings.append(Finding.note(code, message))
