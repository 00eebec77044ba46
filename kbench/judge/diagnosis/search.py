"""Why values are wrong: the explanation that fits is named. It decides no verdict, and its time is bounded."""

import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from kbench.core.diagnosis import Diagnosis
from kbench.judge.diagnosis import faults, likeness
from kbench.judge.diagnosis.alternatives import Alternative, Forms
from kbench.numerics import elements

BUDGET_S = 2.0
"""Time limit for each kind of alternative: all kinds together take about as long as verifying a small problem."""
SLIPS, MOST_SLIPS_S = 50, 10.0
"""Runs of the reference that the search for slips may take beyond its limit, and the time limit of these (chosen): a
chain of functions has 42, and where a call takes long, verifying takes longer still."""
MOST_ELEMENTS = {"cpu": 1 << 24, "cuda": 1 << 29}
"""Most elements of arguments, outputs and state for which the reference is run in other forms: 2 GB on a GPU."""
MOST_LOOKED_AT = 1 << 28
"""Most elements of an output that is searched for unwritten values, which takes a byte for each."""
SIMILAR = 0.005
"""Correlations that differ by less count as equal: the first alternative is chosen."""
CLOSELY = 0.95
"""Correlation of errors below which a slip that explains the outputs goes first (chosen). The error of GELU by tanh is
a function of its input, as the bias of TF32 is, and correlates with that by up to 0.87."""
CLEARLY = 2.0
"""Factor by which an explanation must leave less of the error than an earlier one."""
SURELY = 1e-3
"""An explanation that leaves a smaller share of the error ends the search, unless outputs are few numbers."""
SWITCHED_ERROR = 2.0**-5
"""Largest relative error that a precision switch can explain: that of bf16 times 8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongAnswer:
    """What is known of a call whose outputs are wrong."""

    got: Sequence[Tensor]
    want: Sequence[Tensor]
    """Tensors, of equal shapes and dtypes."""
    tolerances: Sequence[elements.Tolerance]
    arguments: Sequence[Any] = ()
    """Of the reference, on which it returned `want`."""
    model: nn.Module | None = None
    """The reference's, with the weights of this call; None where there is none to run."""
    constructed: Callable[[], Mapping[str, Tensor]] = dict
    """Returns the weights that the solution was constructed with; none where it has these still."""
    confirm: Callable[[], bool | None] = lambda: None
    """Calls the solution again with these: whether it is right; None where it cannot be called."""
    earlier: Sequence[Sequence[Tensor]] = ()
    """Right outputs of earlier calls."""
    held: Callable[[], Mapping[str, Tensor]] = dict
    """Returns what the solution has now of the reference's parameters and buffers, as far as they match."""
    switched: Callable[[], Sequence[str]] = tuple
    """Returns the precision switches that the solution changed."""
    plain: bool = True
    """Whether inputs are as the problem draws them, so that all parts of an output are of one kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongOutput:
    """One output that is wrong."""

    place: int
    """Among all outputs."""
    got: Tensor
    want: Tensor
    tolerance: elements.Tolerance

    def is_wrong(self) -> bool:
        """Return whether it differs from the right one by more than the tolerance."""
        if self.tolerance.exact:
            return not elements.same_bits(self.got, self.want)
        least = self.tolerance.atol * min(1.0, elements.rms(self.want))
        return elements.compare(self.got, self.want, replace(self.tolerance, atol=least)).ratio > 1


Fault = Callable[[Tensor, Tensor, elements.Tolerance], Diagnosis | None]


def diagnose(wrong: WrongAnswer, *, budget_s: float = BUDGET_S) -> Diagnosis | None:
    """Return the first explanation that fits wrong outputs, the surer kinds first; None where none does."""
    return Search(wrong, budget_s).run()


class Search:
    """One attempt: the outputs that are wrong, and the time that is left."""

    def __init__(self, wrong: WrongAnswer, budget_s: float):
        self._wrong = wrong
        self._budget_s = budget_s
        self._deadline_s = 0.0
        triples = zip(wrong.got, wrong.want, wrong.tolerances, strict=True)
        every = (WrongOutput(place=n, got=g, want=w, tolerance=t) for n, (g, w, t) in enumerate(triples))
        self._bad = [one for one in every if one.got.numel() <= MOST_LOOKED_AT and one.is_wrong()]
        self._says_much = sum(bad.got.numel() for bad in self._bad) >= likeness.FEW
        """Whether outputs have enough elements that two explanations hardly fit both: of a loss, dozens may."""
        self._forms: Forms | None = None
        self._run_s = 0.0

    def run(self) -> Diagnosis | None:
        """Try everything in order; an exception of one kind leaves the others."""
        if not self._bad:
            return None
        kinds: list[Callable[[], Diagnosis | None]]
        kinds = [lambda: next(filter(None, (faults.unwritten(bad.got) for bad in self._bad)), None)]
        if sum(bad.got.numel() for bad in self._bad) <= self._most_elements:
            kinds += [self._stale, lambda: self._of_all(faults.transposed, faults.displaced)]
            kinds += [self._other_forms, self._frozen, self._precision, self._slips]
            kinds += [lambda: self._of_all(faults.constant_error, faults.extra_function)]
            # Inputs that stand out in one place make errors there alone larger than the tolerance.
            kinds += [lambda: self._of_all(faults.partial_block)] if self._wrong.plain else []
        for kind in kinds:
            self._deadline_s = time.monotonic() + self._budget_s
            try:
                found = kind()
            except Exception:  # noqa: BLE001, S112 - a problem's own code, in forms that it was not written for
                continue
            if found is not None:
                return found
        return None

    @property
    def _most_elements(self) -> int:
        return MOST_ELEMENTS[self._wrong.got[0].device.type]

    def _of_all(self, *kinds: Fault) -> Diagnosis | None:
        """Return the first fault that every wrong output has."""
        for fault in kinds:
            found = [fault(bad.got, bad.want, bad.tolerance) for bad in self._bad]
            if all(found):
                return found[0]
        return None

    def _stale(self) -> Diagnosis | None:
        if self._is_constant or any(bad.got.numel() < likeness.FEW for bad in self._bad):
            return None  # a mean of many terms is much the same in every call, and so are zeros
        for back, outputs in enumerate(reversed(self._wrong.earlier), start=1):
            if self._has_all(outputs) and self._fits(outputs) and self._says_more_than_a_value(outputs):
                when, calls = ("the call before", "call") if back == 1 else ("an earlier call", "calls")
                evidence = f"equal to what was right {back} verified {calls} before, within the tolerance"
                return Diagnosis(code="stale_output", sentence=f"returns the answer to {when}", evidence=evidence)
        return None

    def _other_forms(self) -> Diagnosis | None:
        if self._is_constant or (forms := self._may_run()) is None:
            return None
        changed = [*forms.rewritten(), *forms.left_out(self._wrong.constructed()), *forms.turned()]
        return self._best(itertools.chain(changed, forms.other_mode(self._wrong.held)))

    def _frozen(self) -> Diagnosis | None:
        if self._is_constant or (forms := self._may_run()) is None:
            return None
        found = self._best(forms.frozen(self._wrong.constructed()))
        confirmed = None if found is None else self._wrong.confirm()
        if found is None or confirmed is False:
            return None
        more = "; called with all of them as before it is right" if confirmed else ""
        return replace(found, evidence=found.evidence + more)

    def _precision(self) -> Diagnosis | None:
        if any(bad.want.dtype not in {torch.float32, torch.float64} for bad in self._bad):
            return None
        switched = list(self._wrong.switched())
        size = max(likeness.relative_error(bad.got, bad.want) for bad in self._bad)
        alike, found = self._rounded()
        if switched and (found is not None or size <= SWITCHED_ERROR):
            evidence = f"relative error {size:.2g}" if found is None else found.evidence
            sentence = f"sets {', '.join(switched)} for its process"
            return Diagnosis(code="precision_switch", sentence=sentence, evidence=evidence)
        if found is not None and alike < CLOSELY:
            return self._slips() or found
        return found or self._stored()

    def _rounded(self) -> tuple[float, Diagnosis | None]:
        """Return the coarser arithmetic whose error is most like that of the outputs, and how alike they are."""
        forms = self._may_run()
        run = self._in_time(forms.rounded() if forms is not None else ())
        tried = [(min(self._each(likeness.rounding_likeness, outputs)), each) for each, outputs in run]
        most = max((alike for alike, _ in tried), default=0.0)
        if not most:
            return 0.0, None
        near = [each for alike, each in tried if most - alike <= SIMILAR]
        best, sentence = near[0], near[0].sentence
        if best.code == "tf32" and any(each.code == "fp16" for each in near):
            sentence += ", or fp16 factors, which have as many bits"
        evidence = f"its error correlates by {most:.2f} with that of the reference {best.how}"
        return most, Diagnosis(code=best.code, sentence=sentence, evidence=evidence)

    def _stored(self) -> Diagnosis | None:
        for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
            if all(likeness.is_stored_as(bad.got, bad.want, dtype) for bad in self._bad):
                evidence = f"every value of the output is one of {name}, which the reference's are not"
                return Diagnosis(code=name, sentence=f"computes in {name}, or stores values in it", evidence=evidence)
        return None

    def _slips(self) -> Diagnosis | None:
        if self._is_constant or (forms := self._may_run()) is None:
            return None
        self._deadline_s = time.monotonic() + self._budget_s + min(SLIPS * self._run_s, MOST_SLIPS_S)
        return self._best(forms.slipping())

    def _may_run(self) -> Forms | None:
        """Return the model's other forms, made once, where it may be run: its own form must give what is wanted."""
        wrong = self._wrong
        if self._forms is not None or wrong.model is None:
            return self._forms
        state = [t for _, t in (*wrong.model.named_parameters(), *wrong.model.named_buffers())]
        tensors = [*wrong.got, *state, *(a for a in wrong.arguments if hasattr(a, "numel"))]
        if sum(t.numel() for t in tensors) <= self._most_elements:
            forms = Forms(wrong.model, wrong.arguments)
            began_s = time.monotonic()
            gives = forms.look()  # one that remembers its calls may give something else
            near = (likeness.is_near(gives[bad.place], bad.want, bad.tolerance) for bad in self._bad)
            if self._has_all(gives) and all(near):
                self._run_s = time.monotonic() - began_s
                self._forms = forms
        return self._forms

    @functools.cached_property
    def _is_constant(self) -> bool:
        return any(bad.got.numel() >= likeness.FEW and likeness.is_one_value(bad.got) for bad in self._bad)

    def _has_all(self, outputs: Sequence[Tensor]) -> bool:
        return len(outputs) > max(bad.place for bad in self._bad)

    def _each(self, measure: Callable[[Tensor, Tensor, Tensor], float], outputs: Sequence[Tensor]) -> list[float]:
        """Measure how well outputs explain each one that is wrong."""
        return [measure(bad.got, bad.want, outputs[bad.place]) for bad in self._bad]

    def _fits(self, outputs: Sequence[Tensor]) -> bool:
        return all(likeness.is_same(bad.got, bad.want, outputs[bad.place], bad.tolerance) for bad in self._bad)

    def _says_more_than_a_value(self, outputs: Sequence[Tensor]) -> bool:
        """Return whether each wrong output is clearly nearer to the one in its place than to the median of that."""
        own = self._each(likeness.rest, outputs)
        medians = self._each(lambda got, want, there: likeness.rest(got, want, likeness.median_of(there)), outputs)
        return all(CLEARLY * one < other for one, other in zip(own, medians, strict=True))

    def _in_time(self, alternatives: Iterable[Alternative]) -> Iterator[tuple[Alternative, list[Tensor]]]:
        """Run alternatives while there is time, and yield those that have all outputs."""
        for alternative in itertools.takewhile(lambda _: time.monotonic() <= self._deadline_s, alternatives):
            try:
                outputs = alternative.run()
            except Exception:  # noqa: BLE001, S112 - as in `run`
                continue
            if self._has_all(outputs):
                yield alternative, outputs

    def _best(self, alternatives: Iterable[Alternative]) -> Diagnosis | None:
        """Return the alternative that the outputs are but for rounding: what leaves least, the first of like ones."""
        best: tuple[float, Alternative] | None = None
        for alternative, outputs in self._in_time(alternatives):
            if not self._fits(outputs):
                continue
            rest = max(self._each(likeness.rest, outputs))
            if best is None or CLEARLY * rest < best[0]:
                best = rest, alternative
            if rest <= SURELY and self._says_much:
                break
        if best is None:
            return None
        rest, found = best
        evidence = f"the reference {found.how} explains {100 * (1 - rest):.2f} % of the error"
        return Diagnosis(code=found.code, sentence=found.sentence, evidence=evidence)
