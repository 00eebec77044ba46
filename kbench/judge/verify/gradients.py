"""Gradients of inputs and parameters, compared with fp64 autograd by the rule for outputs (`--backward`)."""

import contextlib
import copy
import inspect
from typing import Any

import torch
from torch import Tensor, nn

from kbench.core.model import Status
from kbench.core.values import Ratios, rule
from kbench.judge.arena import Arena
from kbench.judge.exchange import Trial, secret_seed
from kbench.judge.reference.expected import Expected
from kbench.judge.reference.oracle import widened, widening
from kbench.judge.reference.reference import Reference
from kbench.judge.refusal import RefusalError, describe_wrong
from kbench.judge.verify.fp64_errors import against_oracle
from kbench.numerics import elements
from kbench.process.autograd import differentiable, owned

DRAWS = 3


def check_gradients(trial: Trial) -> None:
    """Compare the gradients of random linear functions of the outputs with fp64. Raises RefusalError."""
    candidate = trial.candidate
    if candidate.weights == "seed":
        reason = "parameters match the reference's by seed only, so their gradients cannot be assigned: use its names"
        raise RefusalError(Status.NOT_VERIFIED, reason, candidate.log)
    for _ in range(DRAWS):
        candidate.vary_weights(trial.reference, secret_seed())
        _check_draw(trial)


def _check_draw(trial: Trial) -> None:
    reference, candidate = trial.reference, trial.candidate
    arguments = reference.arguments(secret_seed())
    expected = reference.expect(arguments)
    torch.manual_seed(secret_seed())
    seeds = [torch.randn_like(t) for t in expected.tensors if t.is_floating_point()]
    names = [name for name, p in reference.model.named_parameters() if p.requires_grad]
    ours = gradients(reference.model, arguments, seeds, names, double=False)
    truth = gradients(reference.model, arguments, seeds, names, double=True)
    labels = [*_input_names(reference.model, arguments), *(f"parameter `{name}`" for name in names)]
    leaves = [(f"seed {n}", seed) for n, seed in enumerate(seeds)] + list(zip(labels, ours, strict=True))
    layout = Expected(arguments=arguments, leaves=leaves)
    arena = Arena(layout, [t for _, t in reference.state()], reference.device, slots=1)
    with trial.beside(arena):
        arena.fill(0, layout)
        for view, seed in zip(arena.outputs(0), seeds, strict=False):
            view.copy_(seed)
        results = arena.outputs(0)[len(seeds) :]
        given = candidate.backward(0, names, len(seeds), len(results))
        for label, delivered, got, want, exact in zip(labels, given, results, ours, truth, strict=True):
            if fault := fault_of(reference, label, delivered, got, want, exact):
                raise RefusalError(Status.WRONG_GRADIENT, fault, candidate.log)


def fault_of(reference: Reference, label: str, delivered: bool, got: Tensor, want: Tensor, exact: Tensor) -> str:
    """Return the fault of one gradient by the rule for outputs; empty for none."""
    if not delivered:  # the reference may have none either
        why = "something between it and the outputs is detached, or its `backward` returns None"
        return f"{label} gets no gradient, and the reference's is not zero: {why}" if want.any() else ""
    tolerance = reference.tolerance(want)
    difference = elements.compare(got, want, tolerance, "gradient")
    ruling = rule(against_oracle(Ratios(contract=difference.ratio), got, want, exact, tolerance), reference.factor)
    if ruling.right:
        return ""
    return f"the gradient of {label} is wrong: {describe_wrong([difference], ruling, tolerance)}"


def _input_names(model: nn.Module, arguments: list[Any]) -> list[str]:
    """Return the names of the arguments that get a gradient, by the parameters of `forward`."""
    with contextlib.suppress(TypeError, ValueError):
        bound = inspect.signature(model.forward).bind(*arguments)
        named = [f"input {number} (`{name}`)" for number, name in enumerate(bound.arguments)]
        if len(named) == len(arguments):
            return [label for label, a in zip(named, arguments, strict=True) if _is_differentiable(a)]
    return [f"input {number}" for number, a in enumerate(arguments) if _is_differentiable(a)]


def _is_differentiable(argument: Any) -> bool:
    return isinstance(argument, Tensor) and argument.is_floating_point()


def gradients(
    model: nn.Module, arguments: list[Any], seeds: list[Tensor], names: list[str], *, double: bool
) -> list[Tensor]:
    """Return the gradients of the floating-point arguments, then of the named parameters, by torch's autograd."""
    model = copy.deepcopy(model)
    if double:
        model, seeds = model._apply(widened), [widened(seed) for seed in seeds]  # noqa: SLF001 - as in `oracle.Double`
    leaves = list(arguments)
    places = [n for n, a in enumerate(arguments) if _is_differentiable(a)]
    for n in places:
        leaves[n] = (widened(leaves[n]) if double else leaves[n].clone()).detach().requires_grad_()
    parameters = dict(model.named_parameters())
    wanted = [leaves[n] for n in places] + [parameters[name] for name in names]
    with torch.enable_grad(), widening() if double else contextlib.nullcontext():
        pairs = differentiable(model(*owned(leaves)), seeds)
        outputs, weights = [output for output, _ in pairs], [seed for _, seed in pairs]
        found = torch.autograd.grad(outputs, wanted, weights, allow_unused=True) if pairs else [None] * len(wanted)
    return [torch.zeros_like(w) if g is None else g for g, w in zip(found, wanted, strict=True)]
