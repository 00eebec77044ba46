"""The reference in other forms, each of which a solution may have taken for the right one."""

import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from kbench.devices.timer import tensor_leaves
from kbench.judge.diagnosis.rewrites import EPSILONS, Rewriting, taken_apart
from kbench.judge.diagnosis.rounding import Arithmetic, RoundingMode, arithmetics
from kbench.judge.diagnosis.slips.trials import Slipping, groups
from kbench.judge.reference.drawing import over_tensors
from kbench.judge.reference.expected import is_random
from kbench.numerics.operators import OperatorMode
from kbench.plugins.problem import STATISTICS

MOST_TENSORS, MOST_NUMBERS = 12, 6
"""Most tensors and numbers of a reference that are left out, one at a time."""
MOST_NAMED = 4
"""Most names in a sentence (chosen)."""
INPUT = "input tensor {}"


class Alternative(NamedTuple):
    """One other form, and how to compute its outputs, raising what the model raises."""

    code: str
    sentence: str
    """What the solution does if this fits."""
    how: str
    """Completes `the reference ...`."""
    run: Callable[[], list[Tensor]]


class Forms:
    """A copy of a reference's model, run on copies of one call's arguments in whatever form is asked for."""

    def __init__(self, model: nn.Module, arguments: Sequence[Any]):
        self._model = copy.deepcopy(model)
        self._arguments = list(arguments)
        self._state: dict[str, Tensor] = dict([*self._model.named_parameters(), *self._model.named_buffers()])
        self._inputs = {INPUT.format(n): tensor for n, tensor in enumerate(tensor_leaves(self._arguments))}
        self._operands = self._state | self._inputs
        self.seen = Rewriting()
        """What could be changed, once it has been looked at."""

    def run(self, others: Mapping[str, Tensor] | None = None) -> list[Tensor]:
        """Run the model with other tensors in place of some operands."""
        # Copies of all: what runs in training mode changes its statistics in place.
        given = {name: tensor.detach().clone() for name, tensor in (self._operands | dict(others or {})).items()}
        inputs = (given[name] for name in self._inputs)
        with torch.no_grad():
            arguments = tuple(over_tensors(a, lambda _: next(inputs)) for a in self._arguments)
            state = {name: given[name] for name in self._state}
            return tensor_leaves(torch.func.functional_call(self._model, state, arguments))

    def run_in(self, mode: OperatorMode) -> list[Tensor]:
        """Run the model with its operators seen and changed by a mode."""
        with taken_apart(), mode:
            return self.run()

    def look(self) -> list[Tensor]:
        """Run the model as it is, and keep what could be changed in it."""
        return self.run_in(self.seen)

    def _changed(self, **change: Any) -> Callable[[], list[Tensor]]:
        return functools.partial(self.run_in, Rewriting(**change))

    def left_out(self, before: Mapping[str, Tensor]) -> Iterator[Alternative]:
        """Yield the reference without a bias, scale, affine, summand or factor; `before`: weights of construction."""
        own = [name for name, tensor in self._state.items() if _is_vector(tensor)][:MOST_TENSORS]
        largest = max((tensor.numel() for tensor in self._inputs.values()), default=0)
        # An input that is a vector beside larger ones is a bias or scale that is passed.
        passed = [name for name, tensor in self._inputs.items() if _is_vector(tensor) and tensor.numel() != largest]
        likes = torch.zeros_like, torch.ones_like
        zeros, ones = ({name: like(self._operands[name]) for name in (*own, *passed)} for like in likes)
        biases = {name: zeros[name] for name in own if name.endswith("bias")}
        pairs = {name: name.removesuffix("weight") + "bias" for name in own if name.endswith("weight")}
        alone = {n: [("missing_bias", {n: zeros[n]}), ("missing_scale", {n: ones[n]})] for n in zeros}
        changes = [change for name in own for change in alone[name]]
        changes += [("missing_bias", biases)] if len(biases) > 1 else []
        changes += [("missing_scale", {w: ones[w], b: zeros[b]}) for w, b in pairs.items() if b in own]
        changes += [change for name in passed for change in alone[name]]
        for code, others in changes:
            named = " and ".join(map(_named, others))
            sentence = f"leaves out {'every bias' if others is biases else named}"
            if all(name in before and torch.equal(before[name], tensor) for name, tensor in others.items()):
                sentence += f", or keeps {'it as it was' if len(others) == 1 else 'them as they were'} constructed"
            value = "0" if code == "missing_bias" else "1" if len(others) == 1 else "1 and 0"
            yield Alternative(code, sentence, f"with {named} = {value}", functools.partial(self.run, others))
        for kind, number in list(self.seen.numbers)[:MOST_NUMBERS]:
            what = f"the {'summand' if kind == 'bias' else 'factor'} {number:g}"
            run = self._changed(without=(kind, number))
            yield Alternative(f"missing_{kind}", f"leaves out {what}", f"without {what}", run)

    def rewritten(self) -> Iterator[Alternative]:
        """Yield the reference with another epsilon or divisor of its variances, or without its masks."""
        seen = self.seen
        if seen.has_variance:
            sentence = "divides the variance by n - 1 where the reference divides by n, or the reverse"
            yield Alternative("biased_variance", sentence, "with that divisor", self._changed(other_variance=True))
        own = sorted(seen.epsilons)
        true = ", ".join(f"{number:g}" for number in own)
        for epsilon in EPSILONS if own else ():
            if not any(abs(epsilon - number) <= 1e-3 * number for number in own):
                sentence = f"adds another epsilon than the reference's {true}: about {epsilon:g}"
                yield Alternative("epsilon", sentence, f"with epsilon = {epsilon:g}", self._changed(epsilon=epsilon))
        if own and seen.has_variance:
            sentence = f"adds the epsilon {true} to the deviation, where the reference adds it to the variance"
            yield Alternative("epsilon", sentence, "with its epsilon outside the root", self._changed(outside=own[0]))
        if seen.has_mask:
            run = self._changed(without_mask=True)
            yield Alternative("missing_mask", "leaves out the mask", "without its mask", run)

    def other_mode(self, held: Callable[[], Mapping[str, Tensor]]) -> Iterator[Alternative]:
        """Yield the reference in its other mode, where it keeps running statistics: those that a solution `held`."""
        own = [name for name in self._state if name.endswith(STATISTICS)]
        if own and not any(map(is_random, self._model.modules())):
            now, other = ("training", "eval") if self._model.training else ("eval", "training")
            theirs = held()
            statistics = {name: theirs.get(name, self._state[name]) for name in own}
            sentence = f"computes as in {other} mode, and both sides run in {now} mode"
            run = functools.partial(self._in_other_mode, statistics)
            yield Alternative("other_mode", sentence, f"in {other} mode", run)

    def _in_other_mode(self, state: Mapping[str, Tensor]) -> list[Tensor]:
        training = self._model.training
        try:
            self._model.train(not training)
            return self.run(state)
        finally:
            self._model.train(training)

    def slipping(self) -> Iterator[Alternative]:
        """Yield the reference with one of its operators done otherwise, as the tables of `slips` have it."""
        looking = Slipping()
        self.run_in(looking)
        for code, sentence, numbers, where in groups(looking.places):
            run = functools.partial(self.run_in, Slipping(sentence, numbers))
            yield Alternative(code, sentence, f"that does so{where and f' {where}'}", run)

    def turned(self) -> Iterator[Alternative]:
        """Yield the reference with the last two dimensions of one square operand exchanged."""
        for name in (*list(self._state)[:MOST_TENSORS], *list(self._inputs)[:MOST_TENSORS]):
            if _is_square(self._operands[name]):
                turned = self._operands[name].detach().mT
                others = {name: turned.contiguous() if name in self._state else turned}
                what = f"{_named(name)} transposed"
                yield Alternative("transposed", f"takes {what}", f"with {what}", functools.partial(self.run, others))

    def frozen(self, before: Mapping[str, Tensor]) -> Iterator[Alternative]:
        """Yield the reference with some or all of its state as it was constructed."""
        old = {n: t for n, t in before.items() if n in self._state and not torch.equal(t, self._state[n])}
        for names in _likely_groups(list(old))[: 2 * MOST_TENSORS] if old else []:
            more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
            some = ", ".join(f"`{name}`" for name in names[:MOST_NAMED]) + more
            which = "all weights" if len(names) == len(old) else some
            sentence = "right with the weights it was constructed with, wrong once they change"
            run = functools.partial(self.run, {name: old[name] for name in names})
            yield Alternative("frozen_weights", sentence, f"with {which} as before", run)

    def rounded(self) -> Iterator[Alternative]:
        """Yield the reference in coarser arithmetics."""
        for each in arithmetics():
            is_tf32 = each.code == "tf32"
            sentence = "multiplies in TF32" if is_tf32 else f"computes in {each.code}, or stores values in it"
            yield Alternative(each.code, sentence, f"with {each.words}", functools.partial(self._rounded, each))

    def _rounded(self, arithmetic: Arithmetic) -> list[Tensor]:
        given = {name: arithmetic.at("given", tensor.detach()) for name, tensor in self._operands.items()}
        with taken_apart(), RoundingMode(arithmetic):
            found = self.run(given)
        return [arithmetic.at("result", tensor) for tensor in found]


def _likely_groups(names: Sequence[str]) -> list[list[str]]:
    """Return what may be kept together: all, those of one kind or module, one alone, and all but each of these."""
    kinds = []
    for side in (2, 0):
        parts = [name.rpartition(".")[side] for name in names]
        kinds += [[n for n, own in zip(names, parts, strict=True) if own == part] for part in dict.fromkeys(parts)]
    groups = [[*names]]
    for some in (kinds, [[name] for name in names]):
        groups += [*some, *([name for name in names if name not in one] for one in some)]
    return [list(group) for group in dict.fromkeys(map(tuple, groups)) if group]


def _named(operand: str) -> str:
    return operand if operand.startswith(INPUT.format("")) else f"`{operand}`"


def _is_vector(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.numel() == max(tensor.shape, default=1)


def _is_square(tensor: Tensor) -> bool:
    return bool(tensor.dim() >= 2 and tensor.shape[-1] == tensor.shape[-2] > 1)
