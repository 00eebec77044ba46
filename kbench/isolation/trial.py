"""One exchange after the other between judge and worker: fresh inputs, one call, every output checked."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kbench.core.model import Correctness, Mismatch, Status
from kbench.core.rightness import Ratios, Ruling, rule
from kbench.isolation.arena import Arena
from kbench.isolation.candidate import Candidate, RefusalError, Reply
from kbench.isolation.inputs import Transform
from kbench.isolation.reference import Expected, Reference
from kbench.measure import check
from kbench.measure.timing import tensor_leaves


@dataclass(slots=True)
class Tally:
    """The worst of everything checked so far; becomes a Correctness."""

    max_abs: float = 0.0
    max_rel: float = 0.0
    contract: float = 0.0
    oracle: float | None = None
    reference: float | None = None
    kind: str = "held"
    elements: int = 0
    calls: int = 0
    seeds: set[int] = field(default_factory=set)

    def correctness(self, factor: float, wrong: int = 0, mismatches: tuple[Mismatch, ...] = ()) -> Correctness:
        """Freeze the tally."""
        return Correctness(
            max_abs_err=self.max_abs,
            max_rel_err=self.max_rel,
            contract_ratio=self.contract,
            oracle_ratio=self.oracle,
            reference_ratio=self.reference,
            oracle_factor=factor,
            contract=self.kind,
            elements=self.elements,
            wrong_elements=wrong,
            calls=self.calls,
            seeds=len(self.seeds),
            mismatches=mismatches,
        )


class WrongError(RefusalError):
    """Values that are not right, with what was compared."""

    def __init__(self, status: Status, reason: str, log: str, correctness: Correctness):
        super().__init__(status, reason, log)
        self.correctness = correctness


class Trial:
    """A reference and a candidate bound to one arena."""

    def __init__(self, reference: Reference, candidate: Candidate, arena: Arena):
        self.reference = reference
        self.candidate = candidate
        self.arena = arena
        self.tally = Tally()
        self.ties = False
        """Whether indices differed where they point at equal values."""

    def exchange(self, seed: int, transform: Transform | None = None, *, oracle: bool = False) -> Reply:
        """Make inputs, compute what is expected, call once, check everything. Raises RefusalError."""
        expected = self.reference.expect(self.reference.arguments(seed, transform))
        reply = self.call([expected])
        self.tally.seeds.add(seed)
        self.judge_values(reply.slots[0], expected, oracle=oracle)
        return reply

    def call(
        self,
        expected: list[Expected],
        *,
        flush: bool = True,
        attest: bool = False,
        slots: Sequence[int] | None = None,
        kill: bool = False,
    ) -> Reply:
        """Fill slots, call on them, and check that the inputs are as they were. Values are checked separately.

        With `kill` the worker dies the moment it has answered, before anything is looked at.
        """
        chosen = tuple(slots) if slots is not None else (self.arena.random_slot(),)
        # Stopped, since a thread that watches the shared memory could compute the answer before it is asked.
        with self.candidate.stopped():
            for slot, of_slot in zip(chosen, expected, strict=True):
                self.arena.fill(slot, of_slot)
        reply = self.candidate.call(chosen, expected, flush=flush, attest=attest)
        if kill:
            self.candidate.kill()
        for slot, of_slot in zip(chosen, expected, strict=True):
            if not self.reference.mutates and not self.arena.holds(slot, of_slot):
                raise RefusalError(Status.INPUT_MUTATED, "a call changed its input tensors", self.candidate.log)
        return reply

    def judge_values(self, slot: int, expected: Expected, *, oracle: bool = False) -> Ruling:
        """Apply both rules to the outputs in a slot; raises WrongError unless they are right."""
        outputs = self.arena.outputs(slot)
        ruling, differences = self.compare(outputs, expected, oracle=oracle)
        wrong = [d for d in differences if d.ratio > 1]
        if not ruling.right:
            poisoned = sum(d.poisoned for d in wrong)
            status = Status.UNWRITTEN_OUTPUT if poisoned else Status.WRONG_VALUE
            raise WrongError(
                status,
                describe_wrong(wrong or differences, ruling, poisoned),
                self.candidate.log,
                self.tally.correctness(
                    self.reference.factor,
                    sum(d.wrong for d in wrong),
                    tuple(m for d in wrong for m in d.mismatches),
                ),
            )
        return ruling

    def compare(self, outputs: list[Any], expected: Expected, *, oracle: bool) -> tuple[Ruling, list[check.Difference]]:
        """Compare outputs with the reference's, and with the oracle's where asked or where the contract misses."""
        names = [path for path, leaf in expected.leaves if hasattr(leaf, "untyped_storage")]
        tolerances = [check.tolerance_for(t.dtype, self.reference.problem.tolerance) for t in expected.tensors]
        inputs = tensor_leaves(expected.arguments)
        differences = [
            self.difference(got, want, inputs, name)
            for got, want, name in zip(outputs, expected.tensors, names, strict=True)
        ]
        contract = max((d.ratio for d in differences), default=0.0)
        ratios = Ratios(contract=contract)
        if oracle or contract > 1:
            ratios = self._with_oracle(contract, outputs, expected, tolerances)
        ruling = rule(ratios, self.reference.factor)
        self._account(differences, ratios, ruling)
        return ruling, differences

    def difference(self, got: Any, want: Any, inputs: Sequence[Any], name: str = "output") -> check.Difference:
        """Compare two values of one output; indices that point at equal inputs are as good as equal."""
        found = check.compare(got, want, check.tolerance_for(want.dtype, self.reference.problem.tolerance), name)
        if found.wrong and check.picks_equal(got, want, inputs):
            self.ties = True
            return check.Difference(elements=found.elements)
        return found

    def _with_oracle(
        self, contract: float, outputs: list[Any], expected: Expected, tolerances: list[check.Tolerance]
    ) -> Ratios:
        vacuous = any(
            check.is_vacuous(want, [a for a in expected.arguments if hasattr(a, "untyped_storage")], tolerance)
            for want, tolerance in zip(expected.tensors, tolerances, strict=True)
        )
        pieces = self.reference.oracle(expected)
        if pieces is None:
            return Ratios(contract=contract, vacuous=vacuous)
        ours = theirs = 0.0
        for index, truths in pieces:
            for got, want, truth, tolerance in zip(outputs, expected.tensors, truths, tolerances, strict=True):
                if tolerance.exact or not truth.dtype.is_floating_point:
                    continue
                c, r = (got[index], want[index]) if index else (got, want)
                ours = max(ours, check.oracle_ratio(c, truth, tolerance))
                theirs = max(theirs, check.oracle_ratio(r, truth, tolerance))
        return Ratios(contract=contract, oracle=ours, reference=theirs, vacuous=vacuous)

    def _account(self, differences: list[check.Difference], ratios: Ratios, ruling: Ruling) -> None:
        tally = self.tally
        tally.calls += 1
        tally.elements += sum(d.elements for d in differences)
        tally.max_abs = max([tally.max_abs, *(d.max_abs for d in differences)])
        tally.max_rel = max([tally.max_rel, *(d.max_rel for d in differences)])
        tally.contract = max(tally.contract, ratios.contract)
        if ratios.oracle is not None:
            tally.oracle = max(tally.oracle or 0.0, ratios.oracle)
            tally.reference = max(tally.reference or 0.0, ratios.reference or 0.0)
        if ruling.contract != "held":
            tally.kind = ruling.contract


def describe_wrong(differences: list[check.Difference], ruling: Ruling, poisoned: int) -> str:
    """Say where outputs are wrong, how many elements, and how far off."""
    wrong, elements = sum(d.wrong for d in differences), sum(d.elements for d in differences)
    parts = []
    mismatch = next((m for d in differences for m in d.mismatches), None)
    if mismatch is not None:
        index = ", ".join(map(str, mismatch.index))
        parts.append(f"{mismatch.output}[{index}]: got {mismatch.got:.9g}, want {mismatch.want:.9g}")
        parts.append(f"{wrong:,} of {elements:,} elements wrong")
    parts.append(ruling.reason)
    if poisoned:
        parts.append(f"{poisoned:,} elements were never written")
    return "; ".join(parts)


def secret_seed() -> int:
    """Return a seed that nobody can guess; it never leaves the judge."""
    return secrets.randbits(62)
