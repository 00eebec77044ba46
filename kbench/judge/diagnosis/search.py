"""Why values are wrong: the usual explanations are tried on them, and the one that fits is named.

Nothing here decides a verdict. Whatever goes wrong in a trial ends that trial, and time is bounded.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from kbench.core.diagnosis import Diagnosis
from kbench.judge.diagnosis import faults, likeness
from kbench.judge.diagnosis.alternatives import Alternative, Forms
from kbench.numerics import elements

BUDGET_S = 2.0
"""Time limit for each kind of alternative: all kinds together take about as long as verifying a small problem."""
MOST_ELEMENTS = {"cpu": 1 << 24, "cuda": 1 << 29}
"""Most elements of arguments, outputs and state for which the reference is run in other forms: 2 GB on a GPU."""
MOST_LOOKED_AT = 1 << 28
"""Most elements of an output that is searched for unwritten values, which takes a byte for each."""
SIMILAR = 0.005
"""Correlations that differ by less count as equal: the first alternative is chosen."""
CLEARLY = 2.0
"""Factor by which an explanation must leave less of the error than an earlier one."""
SURELY = 1e-3
"""An explanation that leaves a smaller share of the error ends the search."""
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
    weights_before: Mapping[str, Callable[[], Mapping[str, Tensor]]] = field(default_factory=dict)
    """Weights that the solution had earlier, by what they are called in words."""
    confirm: Callable[[str], bool | None] = lambda _: None
    """Calls the solution again with weights of that name: whether it is right; None where it cannot be called."""
    earlier: Sequence[Sequence[Tensor]] = ()
    """Right outputs of earlier calls."""
    switched: Callable[[], Sequence[str]] = tuple
    """Returns the precision switches that the solution changed."""
    plain: bool = True
    """Whether inputs are as the problem draws them, so that all parts of an output are of one kind."""


def diagnose(wrong: WrongAnswer, *, budget_s: float = BUDGET_S) -> Diagnosis | None:
    """Return the first explanation that fits wrong outputs, the surer kinds first; None where none does."""
    return Search(wrong, budget_s).run()


class Search:
    """One attempt: the outputs that are wrong, and the time that is left."""

    def __init__(self, wrong: WrongAnswer, budget_s: float):
        self._wrong = wrong
        self._budget_s = budget_s
        self._deadline_s = 0.0
        self._places: list[int] = []
        self._forms: Forms | None = None

    def run(self) -> Diagnosis | None:
        """Try everything in order; an exception of one kind leaves the others."""
        places = [n for n, (g, w) in enumerate(self._pairs()) if g.numel() <= MOST_LOOKED_AT and self._is_wrong(n)]
        self._places = places
        if not places:
            return None
        kinds = [self._unwritten]
        if sum(self._wrong.got[p].numel() for p in places) <= MOST_ELEMENTS[self._wrong.got[0].device.type]:
            kinds += [self._stale, self._transposed, self._other_forms, self._frozen, self._precision, self._region]
        for kind in kinds:
            self._deadline_s = time.monotonic() + self._budget_s
            try:
                found = kind()
            except Exception:  # noqa: BLE001, S112 - a problem's own code, in forms that it was not written for
                continue
            if found is not None:
                return found
        return None

    def _pairs(self) -> Iterator[tuple[Tensor, Tensor]]:
        return zip(self._wrong.got, self._wrong.want, strict=True)

    def _is_wrong(self, place: int) -> bool:
        got, want, tolerance = self._wrong.got[place], self._wrong.want[place], self._wrong.tolerances[place]
        if tolerance.exact:
            return not elements.same_bits(got, want)
        return (
            elements.compare(got, want, replace(tolerance, atol=tolerance.atol * min(1.0, elements.rms(want)))).ratio
            > 1
        )

    def _unwritten(self) -> Diagnosis | None:
        return next((d for p in self._places if (d := faults.unwritten(self._wrong.got[p]))), None)

    def _stale(self) -> Diagnosis | None:
        if self._is_constant() or any(self._wrong.got[p].numel() < likeness.FEW for p in self._places):
            return None  # a mean of many terms is much the same in every call, and so are zeros
        for back, outputs in enumerate(reversed(self._wrong.earlier), start=1):
            if self._fits(outputs):
                when = "the call before" if back == 1 else "an earlier call"
                return Diagnosis(
                    code="stale_output",
                    sentence=f"returns the answer to {when}",
                    evidence=f"equal to what was right {back} verified calls before, within the tolerance",
                )
        return None

    def _transposed(self) -> Diagnosis | None:
        wrong = self._wrong
        found = [faults.transposed(wrong.got[p], wrong.want[p], wrong.tolerances[p]) for p in self._places]
        return found[0] if all(found) else None

    def _other_forms(self) -> Diagnosis | None:
        forms = self._may_run()
        if forms is None or self._is_constant():
            return None
        alternatives = [*forms.statistics(), *forms.other_functions(), *forms.left_out(), *forms.turned()]
        return self._best(alternatives)

    def _frozen(self) -> Diagnosis | None:
        forms = self._may_run()
        if forms is None or self._is_constant():
            return None
        for when, weights in self._wrong.weights_before.items():
            found = self._best(forms.frozen(weights(), when))
            if found is None:
                continue
            confirmed = self._wrong.confirm(when)
            if confirmed is False:
                continue
            more = "; called with all of them as before it is right" if confirmed else ""
            return replace(found, evidence=found.evidence + more)
        return None

    def _precision(self) -> Diagnosis | None:
        wrong = self._wrong
        if any(not str(wrong.want[p].dtype).endswith(("float32", "float64")) for p in self._places):
            return None
        switched = list(wrong.switched())
        size = max(likeness.relative_error(wrong.got[p], wrong.want[p]) for p in self._places)
        found = self._rounded()
        if switched and (found is not None or size <= SWITCHED_ERROR):
            evidence = f"relative error {size:.2g}" if found is None else found.evidence
            return Diagnosis(
                code="precision_switch", sentence=f"sets {', '.join(switched)} for its process", evidence=evidence
            )
        return found or self._stored()

    def _rounded(self) -> Diagnosis | None:
        forms = self._may_run()
        if forms is None:
            return None
        tried = [(self._alike(alternative), alternative) for alternative in self._in_time(forms.rounded())]
        most = max((alike for alike, _ in tried), default=0.0)
        if not most:
            return None
        near = [each for alike, each in tried if most - alike <= SIMILAR]
        best, sentence = near[0], near[0].sentence
        if best.code == "tf32" and any(each.code == "fp16" for each in near):
            sentence += ", or fp16 factors, which have as many bits"
        evidence = f"its error correlates by {most:.2f} with that of {best.evidence}"
        return Diagnosis(code=best.code, sentence=sentence, evidence=evidence)

    def _alike(self, alternative: Alternative) -> float:
        wrong, outputs = self._wrong, self._outputs(alternative)
        if outputs is None or any(p >= len(outputs) for p in self._places):
            return 0.0
        return min(likeness.rounding_likeness(wrong.got[p], wrong.want[p], outputs[p]) for p in self._places)

    def _stored(self) -> Diagnosis | None:
        for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
            if all(likeness.is_stored_as(self._wrong.got[p], self._wrong.want[p], dtype) for p in self._places):
                evidence = f"every value of the output is one of {name}, which the reference's are not"
                return Diagnosis(code=name, sentence=f"computes in {name}, or stores values in it", evidence=evidence)
        return None

    def _region(self) -> Diagnosis | None:
        if not self._wrong.plain:
            return None  # inputs that stand out in one place make errors there alone larger than the tolerance
        wrong = self._wrong
        found = [faults.partial_block(wrong.got[p], wrong.want[p], wrong.tolerances[p]) for p in self._places]
        return found[0] if all(found) else None

    def _may_run(self) -> Forms | None:
        """Return the model's other forms, made once, where it may be run: its own form must give what is wanted."""
        wrong = self._wrong
        if wrong.model is None:
            return None
        if self._forms is None:
            state = [t for _, t in (*wrong.model.named_parameters(), *wrong.model.named_buffers())]
            tensors = [*wrong.got, *state, *(a for a in wrong.arguments if hasattr(a, "numel"))]
            if sum(t.numel() for t in tensors) > MOST_ELEMENTS[wrong.got[0].device.type]:
                return None
            forms = Forms(wrong.model, wrong.arguments)
            if not self._gives(forms.look()):
                return None
            self._forms = forms
        return self._forms

    def _gives(self, outputs: Sequence[Tensor]) -> bool:
        """Return whether a run of the model gives what is wanted: one that remembers its calls may not."""
        wrong = self._wrong
        pairs = [(outputs[p], wrong.want[p], wrong.tolerances[p]) for p in self._places if p < len(outputs)]
        alike = (o.shape == w.shape and likeness.rounding_apart(o, w, t) <= likeness.ROUNDING for o, w, t in pairs)
        return len(pairs) == len(self._places) and all(alike)

    def _is_constant(self) -> bool:
        """Return whether an output is one value everywhere, which many forms of a reference come down to."""
        gots = [self._wrong.got[p].flatten() for p in self._places]
        return any(g.numel() >= likeness.FEW and bool((g == g[0]).all()) for g in gots)

    def _in_time(self, alternatives: Iterable[Alternative]) -> Iterator[Alternative]:
        for alternative in alternatives:
            if time.monotonic() > self._deadline_s:
                return
            yield alternative

    def _best(self, alternatives: Iterable[Alternative]) -> Diagnosis | None:
        """Return the alternative that the outputs are but for rounding: what leaves least, the first of like ones."""
        best: tuple[float, Alternative] | None = None
        for alternative in self._in_time(alternatives):
            outputs = self._outputs(alternative)
            if outputs is None or not self._fits(outputs):
                continue
            rest = self._rest_of(outputs)
            if best is None or CLEARLY * rest < best[0]:
                best = rest, alternative
            if rest <= SURELY:
                break
        if best is None:
            return None
        rest, found = best
        evidence = f"{found.evidence} explains {100 * (1 - rest):.2f} % of the error"
        return Diagnosis(code=found.code, sentence=found.sentence, evidence=evidence)

    def _outputs(self, alternative: Alternative) -> list[Tensor] | None:
        try:
            return alternative.run()
        except Exception:  # noqa: BLE001 - as in `run`
            return None

    def _rest_of(self, outputs: Sequence[Tensor]) -> float:
        """Return the largest share of the error of a wrong output that the outputs of an alternative leave."""
        wrong = self._wrong
        if any(p >= len(outputs) for p in self._places):
            return float("inf")
        return max(likeness.rest(wrong.got[p], wrong.want[p], outputs[p]) for p in self._places)

    def _fits(self, outputs: Sequence[Tensor]) -> bool:
        wrong = self._wrong
        return all(
            p < len(outputs)
            and outputs[p].shape == wrong.want[p].shape
            and likeness.is_same(wrong.got[p], wrong.want[p], outputs[p], wrong.tolerances[p])
            for p in self._places
        )
