"""Alternative references: the problem's model computed again as a wrong solution may have computed it."""

import copy
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from kbench.catalog.containers import tensors
from kbench.catalog.problem import STATISTICS
from kbench.core.levels import PROPERTIES
from kbench.judge.matching import listed
from kbench.judge.reference.drawing import over_tensors
from kbench.judge.reference.expected import is_random
from kbench.numerics.operators import OperatorMode

MAX_OPERANDS, MAX_GROUPS = 8, 24
"""Operands that are changed one at a time, groups of weights that are kept (chosen)."""
PRODUCTS = {
    "addmm": 0,
    "baddbmm": 0,
    "addmv": 0,
    "convolution": 2,
    "linear": 2,
    **dict.fromkeys(("mm", "bmm", "mv", "dot"), -1),
}
"""Operators that tensor cores compute, with the position of the summand that is added to a product (-1: none)."""

Change = Callable[[Any, Sequence[Any], dict[str, Any]], Any]
"""Computes an operator in another way: (operator, arguments, keyword arguments) to its result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One row of the table: the mistake of a solution whose outputs equal those of `run`."""

    code: str
    sentence: str
    how: str
    """Completes `the reference ...`."""
    run: Callable[[], list[Tensor]]
    """Computes the outputs; raises what the model raises."""
    rounds: bool = False
    """True for a coarser arithmetic, which is not repeated exactly in every element."""


class Recomputing:
    """A copy of a reference's model that is called again and again on copies of one call's arguments."""

    def __init__(self, model: nn.Module, arguments: Sequence[Any], constructed: Mapping[str, Tensor]):
        self.model = copy.deepcopy(model)
        self.constructed = constructed
        """Weights of construction; nothing if they have not changed since."""
        self._arguments = list(arguments)
        self.state: dict[str, Tensor] = dict([*self.model.named_parameters(), *self.model.named_buffers()])
        self.inputs = {f"input tensor {n}": tensor for n, tensor in enumerate(tensors(self._arguments))}
        self.operands = self.state | self.inputs

    def run(
        self,
        others: Mapping[str, Tensor] | None = None,
        *,
        change: Change = lambda func, args, given: func(*args, **given),
        result: Callable[[Tensor], Tensor] = lambda tensor: tensor,
        flips_mode: bool = False,
    ) -> list[Tensor]:
        """Run the model with other operands, changed operators or results, or in its other mode."""
        # Copies of all: a call in training mode changes statistics in place.
        given = {name: tensor.detach().clone() for name, tensor in (self.operands | dict(others or {})).items()}
        inputs, state = (given[name] for name in self.inputs), {name: given[name] for name in self.state}
        arguments = tuple(over_tensors(a, lambda _: next(inputs)) for a in self._arguments)
        trains = self.model.training
        self.model.train(trains != flips_mode)
        try:
            with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), OperatorMode(change):
                return [*map(result, tensors(torch.func.functional_call(self.model, state, arguments)))]
        finally:
            self.model.train(trains)


def alternatives(model: Recomputing) -> Iterator[Alternative]:
    """Yield the table, usual mistakes first."""
    run = functools.partial(model.run, change=_other_gelu)
    sentence = "computes GELU by tanh where the reference has erf, or the reverse"
    yield Alternative(code="gelu_form", sentence=sentence, how="with the other form of GELU", run=run)
    yield from _left_out(model)
    yield from _kept(model)
    yield from _rounded(model)
    if any(name.endswith(STATISTICS) for name in model.state) and not any(map(is_random, model.model.modules())):
        now, other = ("training", "eval") if model.model.training else ("eval", "training")
        sentence = f"computes as in {other} mode, and both sides run in {now} mode"
        run = functools.partial(model.run, flips_mode=True)
        yield Alternative(code="other_mode", sentence=sentence, how=f"in {other} mode", run=run)
    flat = {
        name: t.as_strided(t.shape, torch.empty(t.shape, device="meta").stride())
        for name, t in model.inputs.items()
        if not t.is_contiguous() and t.untyped_storage().nbytes() >= t.nbytes + t.storage_offset() * t.element_size()
    }
    if flat:
        sentence, run = "reads its inputs as if they were contiguous", functools.partial(model.run, flat)
        yield Alternative(code="layout", sentence=sentence, how="on inputs read so", run=run)
    for name, tensor in itertools.islice(model.operands.items(), 2 * MAX_OPERANDS):
        if tensor.dim() >= 2 and tensor.shape[-1] == tensor.shape[-2] > 1:
            what, run = f"{_named(name)} transposed", functools.partial(model.run, {name: tensor.detach().mT})
            yield Alternative(code="transposed", sentence=f"takes {what}", how=f"with {what}", run=run)


def _left_out(model: Recomputing) -> Iterator[Alternative]:
    """Yield the reference without one bias, scale or affine."""
    largest = max((tensor.numel() for tensor in model.inputs.values()), default=0)
    vectors = {
        n: t for n, t in model.operands.items() if t.is_floating_point() and t.numel() == max(t.shape, default=1)
    }
    names = [name for name, t in vectors.items() if name in model.state or t.numel() < largest][:MAX_OPERANDS]
    zeros, ones = ({n: like(model.operands[n]) for n in names} for like in (torch.zeros_like, torch.ones_like))
    changes = [(code, {n: to[n]}) for n in names for code, to in (("missing_bias", zeros), ("missing_scale", ones))]
    affine = {name: name.removesuffix("weight") + "bias" for name in names if name.endswith("weight")}
    changes += [("missing_scale", {w: ones[w], b: zeros[b]}) for w, b in affine.items() if b in zeros]
    for code, others in changes:
        named, values = " and ".join(map(_named, others)), " and ".join(f"{t.flatten()[0]:g}" for t in others.values())
        is_kept = all(n in model.constructed and torch.equal(model.constructed[n], t) for n, t in others.items())
        sentence = f"leaves out {named}{', or keeps the values of construction' if is_kept else ''}"
        run = functools.partial(model.run, others)
        yield Alternative(code=code, sentence=sentence, how=f"with {named} = {values}", run=run)


def _kept(model: Recomputing) -> Iterator[Alternative]:
    """Yield the reference with some or all of its weights as they were constructed."""
    old = {n: t for n, t in model.constructed.items() if n in model.state and not torch.equal(t, model.state[n])}
    for names in likely_groups(list(old))[:MAX_GROUPS]:
        which = "all weights" if len(names) == len(old) else listed([*map(_named, names)])
        sentence = PROPERTIES["frozen_weights"].title
        run = functools.partial(model.run, {name: old[name] for name in names})
        yield Alternative(code="frozen_weights", sentence=sentence, how=f"with {which} as before", run=run)


def likely_groups(names: Sequence[str]) -> list[list[str]]:
    """Return groups of weights that may be kept together: all, a kind, a module, one weight, and all but each."""
    groups = [[*names]]
    for parts in ([n.rpartition(".")[2] for n in names], [n.rpartition(".")[0] for n in names], names):
        some = [[n for n, own in zip(names, parts, strict=True) if own == part] for part in dict.fromkeys(parts)]
        groups += [*some, *([name for name in names if name not in one] for one in some)]
    return [list(group) for group in dict.fromkeys(map(tuple, groups)) if group]


def _rounded(model: Recomputing) -> Iterator[Alternative]:
    """Yield the reference in coarser arithmetics."""
    for words, rounder in (("rounded", to_tf32), ("cut off", functools.partial(to_tf32, half=0))):
        sentence = f"multiplies in TF32{', or in fp16, which has as many bits' if words == 'rounded' else ''}"
        run = functools.partial(model.run, change=functools.partial(_round_products, rounder, False))
        how = f"with the factors of products {words} to 11 bits"
        yield Alternative(code="tf32", sentence=sentence, how=how, run=run, rounds=True)
    for code, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
        to = functools.partial(_through, dtype)
        rounded = {name: to(tensor.detach()) for name, tensor in model.operands.items()}
        stored = {n: t.detach().to(dtype) for n, t in model.operands.items() if t.is_floating_point()}
        factors, products = (functools.partial(_round_products, to, both) for both in (False, True))
        ways: dict[str, Callable[[], list[Tensor]]] = {
            "the factors of products in": functools.partial(model.run, change=factors),
            "the factors and results of products in": functools.partial(model.run, change=products),
            "the result in": functools.partial(model.run, result=to),
            "inputs and weights in": functools.partial(model.run, rounded),
            "inputs, weights and the result in": functools.partial(model.run, rounded, result=to),
            "every value in": functools.partial(model.run, stored),
        }
        for words, way in ways.items():
            sentence, how = f"computes in {code}, or stores values in it", f"with {words} {code}"
            yield Alternative(code=code, sentence=sentence, how=how, run=way, rounds=True)


def rearranged(want: Sequence[Tensor]) -> Iterator[Alternative]:
    """Yield the outputs with two dimensions exchanged in memory, or an image's channels last or first."""

    def written(order: Sequence[int]) -> list[Tensor]:
        return [t.permute(*order).reshape(t.shape) if t.dim() == len(order) else t for t in want]

    own = tuple(range(max((t.dim() for t in want), default=0)))
    orders = [tuple({a: b, b: a}.get(d, d) for d in own) for a, b in itertools.combinations(own, 2)]
    orders += [(0, *own[2:], 1), (0, own[-1], *own[1:-1])] if len(own) > 2 else []
    for order in orders:
        sentence = f"writes the output with its dimensions in the order {', '.join(map(str, order))}"
        run = functools.partial(written, order)
        yield Alternative(code="transposed", sentence=sentence, how="with its output written so", run=run)


def to_tf32(tensor: Tensor, half: int = 1 << 12) -> Tensor:
    """Round fp32 to TF32, which lacks 13 bits; with 0 for half a unit, cut them off, as tensor cores do."""
    if tensor.dtype != torch.float32:
        return tensor
    kept = torch.bitwise_and(tensor.contiguous().view(torch.int32) + half, -(1 << 13)).view(torch.float32)
    return torch.where(tensor.isfinite(), kept, tensor)


def _through(dtype: torch.dtype, tensor: Tensor) -> Tensor:
    return tensor.to(dtype).to(tensor.dtype) if tensor.dtype == torch.float32 else tensor


def _round_products(to: Any, results: bool, func: Any, args: Sequence[Any], given: dict[str, Any]) -> Any:
    """Round the factors of a product; with `results` its summand and result as well."""
    name = func.overloadpacket.__name__
    if name not in PRODUCTS:
        return func(*args, **given)
    exact = -1 if results else PRODUCTS[name]
    found = func(*(to(a) if isinstance(a, Tensor) and n != exact else a for n, a in enumerate(args)), **given)
    return to(found) if results else found


def _other_gelu(func: Any, args: Sequence[Any], given: dict[str, Any]) -> Any:
    if func.overloadpacket is torch.ops.aten.gelu:
        given = given | {"approximate": "none" if given.get("approximate") == "tanh" else "tanh"}
    return func(*args, **given)


def _named(operand: str) -> str:
    return operand if operand.startswith("input tensor ") else f"`{operand}`"
