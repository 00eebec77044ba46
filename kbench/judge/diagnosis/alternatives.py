"""The reference in other forms, each of which a solution may have taken for the right one."""

import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from kbench.devices.timer import tensor_leaves
from kbench.judge.diagnosis import rewrites
from kbench.judge.diagnosis.rewrites import Change, rewriting
from kbench.judge.diagnosis.rounding import Arithmetic, arithmetics, computing_in
from kbench.judge.reference.drawing import over_tensors

MOST_TENSORS, MOST_NUMBERS = 12, 6
"""Most tensors and numbers of a reference that are left out, one at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One other form: what it is called if it fits, and how to compute its outputs."""

    code: str
    sentence: str
    evidence: str
    run: Callable[[], list[Tensor]]
    """Returns the tensors of the result; raises what the model raises."""


class Forms:
    """A copy of a reference's model, run on copies of one call's arguments in whatever form is asked for."""

    def __init__(self, model: nn.Module, arguments: Sequence[Any]):
        self._model = copy.deepcopy(model)
        self._arguments = list(arguments)
        self.state: dict[str, Tensor] = dict([*self._model.named_parameters(), *self._model.named_buffers()])
        self.seen = rewrites.Rewritable()

    def run(
        self, state: Mapping[str, Tensor] | None = None, change: Callable[[int, Tensor], Tensor] | None = None
    ) -> list[Tensor]:
        """Run the model with some of its state replaced, and its tensor arguments changed by their numbers."""
        numbers = iter(range(1 << 30))

        def given(tensor: Tensor) -> Tensor:
            number = next(numbers)
            return tensor.clone() if change is None else change(number, tensor).clone()

        whole = {name: tensor.detach().clone() for name, tensor in self.state.items()} | dict(state or {})
        with torch.no_grad():
            arguments = [over_tensors(a, given) for a in self._arguments]
            return tensor_leaves(torch.func.functional_call(self._model, whole, tuple(arguments)))

    def look(self) -> list[Tensor]:
        """Run the model as it is, and keep what could be changed in it."""
        with rewriting(Change()) as self.seen:
            return self.run()

    def changed(self, change: Change) -> list[Tensor]:
        """Run the model with one of its operations changed."""
        with rewriting(change):
            return self.run()

    def left_out(self) -> Iterator[Alternative]:
        """Yield the reference without a bias, a scale, an affine, a summand or a factor."""
        vectors = {
            n: t for n, t in self.state.items() if t.is_floating_point() and t.numel() == max(t.shape, default=1)
        }
        vectors = dict(list(vectors.items())[:MOST_TENSORS])
        zeros = {name: torch.zeros_like(tensor) for name, tensor in vectors.items()}
        ones = {name: torch.ones_like(tensor) for name, tensor in vectors.items()}
        for name in vectors:
            yield self._without("missing_bias", f"leaves out `{name}`", {name: zeros[name]})
            yield self._without("missing_scale", f"leaves out `{name}`", {name: ones[name]})
        biases = {name: value for name, value in zeros.items() if name.endswith("bias")}
        if len(biases) > 1:
            yield self._without("missing_bias", "leaves out every bias", biases)
        for weight in vectors:
            bias = weight.removesuffix("weight") + "bias"
            if weight.endswith("weight") and bias in vectors:
                both = {weight: ones[weight], bias: zeros[bias]}
                yield self._without("missing_scale", f"leaves out `{weight}` and `{bias}`", both)
        yield from self._inputs_left_out()
        for kind, number in list(self.seen.numbers)[:MOST_NUMBERS]:
            what = "summand" if kind == "bias" else "factor"
            yield Alternative(
                code=f"missing_{kind}",
                sentence=f"leaves out the {what} {number:g}",
                evidence=f"the reference without the {what} {number:g}",
                run=functools.partial(self.changed, Change(without=(kind, number))),
            )

    def _without(self, code: str, sentence: str, state: Mapping[str, Tensor]) -> Alternative:
        value = "1" if code == "missing_scale" else "0"
        named = " and ".join(f"`{name}`" for name in state)
        evidence = f"the reference with {named} = {value}"
        if len(state) > 1 and code == "missing_scale":
            evidence = f"the reference with {named} = 1 and 0"
        return Alternative(code=code, sentence=sentence, evidence=evidence, run=functools.partial(self.run, state))

    def _inputs_left_out(self) -> Iterator[Alternative]:
        """Yield the reference without an input that is a vector beside larger ones: a bias or scale that is passed."""
        leaves = tensor_leaves(self._arguments)
        largest = max((t.numel() for t in leaves), default=0)
        for number, leaf in enumerate(leaves):
            if not leaf.is_floating_point() or leaf.numel() != max(leaf.shape, default=1) or leaf.numel() == largest:
                continue
            for code, value in (("missing_bias", 0.0), ("missing_scale", 1.0)):

                def filled(place: int, tensor: Tensor, at: int = number, value: float = value) -> Tensor:
                    return tensor.clone().fill_(value) if place == at else tensor

                yield Alternative(
                    code=code,
                    sentence=f"leaves out input tensor {number}",
                    evidence=f"the reference with input tensor {number} = {value:g}",
                    run=functools.partial(self.run, None, filled),
                )

    def statistics(self) -> Iterator[Alternative]:
        """Yield the reference with another epsilon, or another divisor of its variances."""
        if self.seen.variances:
            yield Alternative(
                code="biased_variance",
                sentence="divides the variance by n - 1 where the reference divides by n, or the reverse",
                evidence="the reference with that divisor",
                run=functools.partial(self.changed, Change(other_variance=True)),
            )
        if not self.seen.epsilons:
            return
        true = ", ".join(f"{number:g}" for number in sorted(self.seen.epsilons))
        near = [e for e in rewrites.EPSILONS if not any(abs(e - own) <= 1e-3 * own for own in self.seen.epsilons)]
        for epsilon in near:
            yield Alternative(
                code="epsilon",
                sentence=f"adds another epsilon than the reference's {true}: about {epsilon:g}",
                evidence=f"the reference with epsilon = {epsilon:g}",
                run=functools.partial(self.changed, Change(epsilon=epsilon)),
            )
        if self.seen.variances:
            yield Alternative(
                code="epsilon",
                sentence=f"adds the epsilon {true} to the deviation, where the reference adds it to the variance",
                evidence="the reference with its epsilon outside the root",
                run=functools.partial(self.changed, Change(epsilon=min(self.seen.epsilons), outside=True)),
            )

    def other_functions(self) -> Iterator[Alternative]:
        """Yield the reference with GELU in its other form."""
        if self.seen.has_gelu:
            yield Alternative(
                code="gelu_form",
                sentence="computes GELU by tanh where the reference does so by erf, or the reverse",
                evidence="the reference with GELU in its other form",
                run=functools.partial(self.changed, Change(other_gelu=True)),
            )

    def turned(self) -> Iterator[Alternative]:
        """Yield the reference with the last two dimensions of one square operand exchanged."""
        for name, tensor in list(self.state.items())[:MOST_TENSORS]:
            if _is_square(tensor):
                yield Alternative(
                    code="transposed",
                    sentence=f"takes `{name}` transposed",
                    evidence=f"the reference with `{name}` transposed",
                    run=functools.partial(self.run, {name: tensor.detach().mT.contiguous()}),
                )
        for number, leaf in enumerate(tensor_leaves(self._arguments)[:MOST_TENSORS]):
            if _is_square(leaf):

                def turned(place: int, tensor: Tensor, at: int = number) -> Tensor:
                    return tensor.mT if place == at else tensor

                yield Alternative(
                    code="transposed",
                    sentence=f"takes input tensor {number} transposed",
                    evidence=f"the reference with input tensor {number} transposed",
                    run=functools.partial(self.run, None, turned),
                )

    def frozen(self, before: Mapping[str, Tensor], when: str) -> Iterator[Alternative]:
        """Yield the reference with some or all of its state as it was before."""
        old = {n: t for n, t in before.items() if n in self.state and not torch.equal(t, self.state[n])}
        groups = [list(old)]
        if len(old) > 1:
            groups += [[name] for name in old]
        if len(old) > 2:
            prefixes = dict.fromkeys(name.rpartition(".")[0] for name in old)
            groups += [[n for n in old if n.rpartition(".")[0] == prefix] for prefix in prefixes]
            groups += [[n for n in old if n != name] for name in old]
        for names in groups[: 2 * MOST_TENSORS] if old else []:
            which = "all weights" if len(names) == len(old) else ", ".join(f"`{name}`" for name in names)
            yield Alternative(
                code="frozen_weights",
                sentence=f"right with the weights {when}, wrong once they change",
                evidence=f"the reference with {which} as before",
                run=functools.partial(self.run, {name: old[name] for name in names}),
            )

    def rounded(self) -> Iterator[Alternative]:
        """Yield the reference in coarser arithmetics."""
        for arithmetic in arithmetics():

            def run(arithmetic: Arithmetic = arithmetic) -> list[Tensor]:
                given = arithmetic.given

                def round_it(tensor: Tensor) -> Tensor:
                    return given(tensor) if given is not None and tensor.dtype == torch.float32 else tensor

                state = {name: round_it(tensor.detach()) for name, tensor in self.state.items()}
                with computing_in(arithmetic):
                    found = self.run(state, lambda _, tensor: round_it(tensor))
                last = arithmetic.result
                return [last(t) if last is not None and t.dtype == torch.float32 else t for t in found]

            name = {"tf32": "TF32"}.get(arithmetic.code, arithmetic.code)
            yield Alternative(
                code=arithmetic.code,
                sentence=f"computes in {name}, or stores values in it" if name != "TF32" else "multiplies in TF32",
                evidence=f"the reference with {arithmetic.words}",
                run=run,
            )


def _is_square(tensor: Tensor) -> bool:
    return bool(tensor.dim() >= 2 and tensor.shape[-1] == tensor.shape[-2] > 1)
