"""Diagnoses of wrong answers: never written, an earlier one, an alternative reference's, or wrong in one region."""

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from kbench.core.diagnosis import UNWRITTEN, Diagnosis
from kbench.core.values import FACTOR_PRODUCTS
from kbench.devices.poison import is_poison
from kbench.judge.alternatives import Alternative, Recomputing, alternatives, rearranged
from kbench.judge.candidate import Candidate
from kbench.judge.reference.expected import FEW, Expected
from kbench.judge.reference.reference import Reference
from kbench.numerics import elements
from kbench.numerics.tails import SURE

BUDGET_S = 3.0
"""Chosen. Time for all alternatives together, about that of verifying a small problem."""
MAX_ELEMENTS = {"cpu": 1 << 24, "cuda": 1 << 29}
"""Largest number of elements of outputs, arguments and state to compute the reference again: 2 GB on a GPU."""
MAX_REST, MAX_REST_ROUNDED = 0.1, 0.31
"""Largest share of the error (root mean square) that an alternative, or a coarser arithmetic, may leave: 99 % or 90 %
of its square is explained. TF32 explained up to 76 % of an error that GELU by tanh had made."""
NEGLIGIBLE_REST, MAX_ROUNDING = 3e-3, 2.0
"""Chosen. Share of the error below which the rest need not be rounding; tolerances between two honest computations."""
CHANCE, MIN_FILLED, MAX_WRONG = 1e-6, 0.3, 0.75
"""Chosen. Largest probability that scattered elements all fall into a region; least wrong share of a region; largest
wrong share of an output."""
MIN_RELATIVE_ERROR = 0.02
"""Share of the right values that half of a region's errors must exceed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongAnswer:
    """A call with wrong outputs, and the model to compute it again."""

    got: Sequence[Tensor]
    want: Sequence[Tensor]
    """Tensors of equal shapes and dtypes."""
    tolerances: Sequence[elements.Tolerance]
    model: Callable[[], Recomputing | None] = lambda: None
    """Returns the reference's model with the weights and arguments of this call; None if it is too large."""

    @property
    def wrong(self) -> list[int]:
        """Numbers of the wrong outputs."""
        triples = zip(self.got, self.want, self.tolerances, strict=True)
        return [place for place, triple in enumerate(triples) if is_wrong(*triple)]


def explain(
    reference: Reference,
    candidate: Candidate,
    outputs: Sequence[Tensor],
    expected: Expected,
    earlier: Iterable[Sequence[Tensor]],
    *,
    plain: bool = True,
) -> Diagnosis | None:
    """Return a diagnosis of wrong outputs, or None; never raises.

    `plain`: the problem drew the inputs. Otherwise one large input makes errors large in one place, and no region is
    named.
    """
    if sum(t.numel() for t in expected.tensors) > MAX_ELEMENTS[reference.device]:
        return None
    try:
        answer = _answer(reference, candidate, outputs, expected)
        found = next(filter(None, map(unwritten, answer.got)), None)
        # If outputs do not depend on the inputs, every answer is an earlier one as well.
        found = found or earlier_answer(answer, [] if reference.repeats else [*earlier]) or alternative(answer)
        return found or (partial_blocks(answer) if plain else None)
    except Exception:  # noqa: BLE001 - the values are wrong, whatever fails here
        return None


def _answer(reference: Reference, candidate: Candidate, outputs: Sequence[Tensor], expected: Expected) -> WrongAnswer:
    want, arguments = expected.tensors, expected.recalled()
    got = outputs[: len(want)]
    tensors = [*got, *(a for a in arguments if isinstance(a, Tensor)), *(t for _, t in reference.state())]
    fits = sum(t.numel() for t in tensors) <= MAX_ELEMENTS[reference.device]

    def model() -> Recomputing | None:
        if not fits:
            return None
        changed = candidate.follows and candidate.matches and not reference.keeps_weights
        return Recomputing(reference.model, arguments, reference.constructed_state() if changed else {})

    return WrongAnswer(got=got, want=want, tolerances=[reference.tolerance(t) for t in want], model=model)


def unwritten(got: Tensor) -> Diagnosis | None:
    """Name the region of an output that still holds the poison that kbench filled it with."""
    bad = is_poison(got)
    count, total, region = int(bad.sum().item()), bad.numel(), region_of(bad)
    if not count or (count < total and not region):
        return None
    sentence = f"never writes {region}" if region else "writes nothing of the output"
    evidence = f"{count:,} of {total:,} elements hold kbench's filling"
    return Diagnosis(code=UNWRITTEN, sentence=sentence, evidence=evidence)


def earlier_answer(answer: WrongAnswer, earlier: Sequence[Sequence[Tensor]]) -> Diagnosis | None:
    """Return the diagnosis if wrong outputs are a right answer to one of the `earlier` calls, oldest first; or None."""
    wrong = answer.wrong
    # A mean of many terms is nearly equal in every call, and so are zeros.
    if any(is_one_value(answer.got[n]) or answer.got[n].numel() < SURE for n in wrong):
        return None
    for back, outputs in enumerate(reversed(earlier), start=1):
        if wrong and len(outputs) > wrong[-1] and all(_is_earlier(answer, n, outputs[n]) for n in wrong):
            when, calls = ("the call before", "call") if back == 1 else ("an earlier call", "calls")
            evidence = f"equal to the right answer {back} verified {calls} before, within the tolerance"
            return Diagnosis(code="stale_output", sentence=f"returns the answer to {when}", evidence=evidence)
    return None


def _is_earlier(answer: WrongAnswer, place: int, other: Tensor) -> bool:
    """Return whether an output equals another answer, and is twice as near to it as to its median everywhere."""
    got, want = answer.got[place], answer.want[place]
    left = unexplained(got, want, other, answer.tolerances[place])
    values = _flat(other)
    median = values[values.isfinite()].median().to(other.dtype).expand(other.shape)
    return left < math.inf and 2 * left < _rest(got, want, median)


def alternative(answer: WrongAnswer, *, budget_s: float = BUDGET_S) -> Diagnosis | None:
    """Return the first alternative that explains the errors of all wrong outputs; None if none does."""
    wrong, deadline_s = answer.wrong, time.monotonic() + budget_s
    if not wrong or any(is_one_value(answer.got[place]) for place in wrong):
        return None
    with contextlib.suppress(Exception):  # a model that cannot be copied
        for row in itertools.takewhile(lambda _: time.monotonic() <= deadline_s, _table(answer, wrong)):
            others = _outputs(row.run, len(answer.want))
            trios = ((answer.got[n], answer.want[n], others[n], answer.tolerances[n]) for n in wrong if others)
            left = max((unexplained(*trio, rounds=row.rounds) for trio in trios), default=math.inf)
            if left < math.inf:
                evidence = f"the reference {row.how} explains {100 * (1 - left**2):.2f} % of the error"
                return Diagnosis(code=row.code, sentence=row.sentence, evidence=evidence)
    return None


def _table(answer: WrongAnswer, wrong: Sequence[int]) -> Iterator[Alternative]:
    """Yield alternatives of the model, if it gives the wanted outputs again, then of the outputs."""
    model = answer.model()
    again = _outputs(model.run, len(answer.want)) if model is not None else []
    is_same = again and not any(is_wrong(again[n], answer.want[n], answer.tolerances[n]) for n in wrong)
    if model is not None and is_same:
        yield from alternatives(model)
    if all(math.isclose(elements.rms(answer.got[n]), elements.rms(answer.want[n]), rel_tol=MAX_REST) for n in wrong):
        yield from rearranged(answer.want)


def _outputs(run: Callable[[], list[Tensor]], count: int) -> list[Tensor]:
    """Return outputs; none if the model raises or returns another number of them."""
    try:
        found = run()
    except Exception:  # noqa: BLE001 - a problem's own code, in forms that it was not written for
        return []
    return found if len(found) == count else []


def unexplained(
    got: Tensor, want: Tensor, other: Tensor, tolerance: elements.Tolerance, *, rounds: bool = False
) -> float:
    """Return the share of an error that another output leaves; infinite if it does not explain the error."""
    left = _rest(got, want, other)
    if tolerance.exact:
        fits = left == 0
    elif rounds:
        fits = left <= MAX_REST_ROUNDED and got.numel() >= FEW
    else:
        fits = left <= MAX_REST and got.numel() >= SURE
        fits = fits and (left <= NEGLIGIBLE_REST or _rounding_apart(got, other, tolerance) <= MAX_ROUNDING)
    return left if fits else math.inf


def _rest(got: Tensor, want: Tensor, other: Tensor) -> float:
    """Return rms(got - other) / rms(got - want); infinite if shapes or finite places differ."""
    if other.shape != want.shape:
        return math.inf
    a, b, c = (_flat(t) for t in (got, want, other))
    here, both = a.isfinite(), a.isfinite() & b.isfinite()
    if bool((here != c.isfinite()).any()) or not bool(here.any()):
        return math.inf
    error, left = _rms((a - b)[both]), _rms((a - c)[here])
    if error == 0.0:
        return 0.0 if left == 0.0 and not bool(both.all()) else math.inf
    return left / error


def _rounding_apart(got: Tensor, other: Tensor, tolerance: elements.Tolerance) -> float:
    """Return the root mean square of the distance of two outputs in tolerances of their own scale."""
    wide = other.to(torch.promote_types(other.dtype, torch.float64))
    return _rms(elements.errors(got, wide, tolerance, _scaled_atol(other, tolerance)))


def _scaled_atol(want: Tensor, tolerance: elements.Tolerance) -> float:
    return tolerance.atol * min(1.0, elements.rms(want))


def is_wrong(got: Tensor, want: Tensor, tolerance: elements.Tolerance) -> bool:
    """Return whether an output misses a tolerance of its own scale."""
    if tolerance.exact:
        return not elements.same_bits(got, want)
    return elements.compare(got, want, replace(tolerance, atol=_scaled_atol(want, tolerance))).ratio > 1


def is_one_value(tensor: Tensor) -> bool:
    """Return whether all elements of a tensor of some size are equal."""
    return tensor.numel() >= SURE and bool((tensor == tensor.flatten()[0]).all())


def _flat(tensor: Tensor) -> Tensor:
    """Return all elements as doubles, complex numbers as two."""
    wide = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return wide.detach().double().flatten()


def _rms(values: Tensor) -> float:
    return float(values.square().mean().sqrt().item()) if values.numel() else 0.0


def partial_blocks(answer: WrongAnswer) -> Diagnosis | None:
    """Name the region of the first wrong output, if each wrong output is wrong in one region only."""
    found = [partial_block(answer.got[n], answer.want[n], answer.tolerances[n]) for n in answer.wrong]
    return found[0] if found and all(found) else None


def partial_block(got: Tensor, want: Tensor, tolerance: elements.Tolerance) -> Diagnosis | None:
    """Name the region in which an output is far off, if it is right everywhere else."""
    if tolerance.exact:
        bad = got != want
    else:
        bad = elements.errors(got, want, tolerance, _scaled_atol(want, tolerance)) > FACTOR_PRODUCTS
    region, held = region_of(bad), got[bad]
    if not region or held.numel() > MAX_WRONG * bad.numel():
        return None
    error = (_flat(held) - _flat(want[bad])).abs()
    if bool(error.isfinite().all()) and error.median().item() < MIN_RELATIVE_ERROR * _rms(_flat(want[bad])):
        return None
    evidence = f"{held.numel():,} of {bad.numel():,} elements are wrong"
    return Diagnosis(code="partial_block", sentence=f"wrong in {region}, right elsewhere", evidence=evidence)


def region_of(bad: Tensor) -> str:
    """Name the region that holds all true elements of a mask: a tail, every n-th row, a block; empty if scattered."""
    count, total = int(bad.sum().item()), bad.numel()
    for words, inside, size in _regions(bad, count) if count not in {0, total} else ():
        if words and inside >= MIN_FILLED * size and inside * math.log(size / total) < math.log(CHANCE):
            return words
    return ""


def _regions(bad: Tensor, count: int) -> Iterator[tuple[str, int, int]]:
    """Yield regions with all true elements: words (empty without a pattern), number of elements, size."""
    in_a_row, total, width = bad.flatten(), bad.numel(), bad.shape[-1]
    few = min(count, total - count)
    for words, run in (("last", in_a_row[total - count :]), ("first", in_a_row[:count])):
        if bool(run.all()) and (bad.dim() == 1 or count % width):
            yield f"the {words} {count:,} of {total:,} elements", few, few
    sides = [bad.unsqueeze(-1).transpose(0, dim).flatten(1) for dim in range(bad.dim())]
    places = [side.any(dim=1).nonzero()[:, 0] for side in sides]
    named = [(dim, _entries_in_words(entries, bad.shape[dim])) for dim, entries in enumerate(places)]
    parts = [f"{words} of dimension {dim}" for dim, words in named if len(places[dim]) < bad.shape[dim]]
    yield " and ".join(parts) if all(words for _, words in named) else "", count, math.prod(map(len, places))
    rows = bad.reshape(-1, width).any(dim=1).nonzero()[:, 0]
    yield _entries_in_words(rows, total // width).replace("entries", "rows"), count, len(rows) * width


def _entries_in_words(entries: Tensor, size: int) -> str:
    """Name sorted entries of one dimension: a run, or equally far apart through the whole; empty if neither."""
    first, last, count = int(entries[0]), int(entries[-1]), len(entries)
    if last - first == count - 1:
        if first and last < size - 1:
            return f"entries {first} to {last} of {size}"
        return f"the {'last' if first else 'first'}{f' {count}' * (count > 1)} of {size} entries"
    step = int(entries[1]) - first
    through = torch.arange(first, size, step, device=entries.device)
    return f"1 in {step} of {size} entries" if first < step and count > 2 and torch.equal(entries, through) else ""
