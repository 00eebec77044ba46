"""A call of forward and backward in both processes: outputs, and gradients of inputs and parameters by name."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.catalog import problem as problems
from kbench.catalog.containers import over_leaves, tensors
from kbench.catalog.problem import LoadedProblem, TellStep, unheard
from kbench.core.timed import FORWARD
from kbench.process.channel import flatten

if TYPE_CHECKING:
    from torch import Tensor, nn

OUTPUT = "forward"
"""Key of the outputs in the result; gradients have keys of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradients:
    """The gradients that a call returns."""

    inputs: Mapping[str, int] = field(default_factory=dict)
    """Number of the argument, by name of the gradient."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Name of the parameter in the model, by name of the gradient."""
    copies: bool = False
    """True if the reference changes its inputs, so that calls get copies: a leaf of autograd cannot change."""

    def overwritable(self, arguments: Sequence[Any]) -> frozenset[int]:
        """Return the numbers of the tensors in a call's arguments that a backward pass may write over.

        Those are the inputs that it differentiates and the gradients of the outputs: kernels save memory in this way.
        """
        before = [len(tensors(arguments[:number])) for number in (*self.inputs.values(), len(arguments) - 1)]
        return frozenset((*before[:-1], *range(before[-1], len(tensors(arguments)))))

    def call(
        self, forward: Callable[..., Any], state: "Mapping[str, Tensor]", arguments: Sequence[Any]
    ) -> dict[str, Any]:
        """Run forward and backward; the last argument holds the gradients of the floating-point outputs.

        A gradient that does not exist is zero. Each gradient has memory of its own, as `.grad` of a leaf has.
        """
        import torch

        *inputs, seeds = arguments
        for number in self.inputs.values():
            inputs[number] = inputs[number].detach().requires_grad_()
        leaves = {name: inputs[number] for name, number in self.inputs.items()}
        leaves |= {name: state[parameter] for name, parameter in self.parameters.items()}
        with torch.enable_grad():
            returned = forward(*(over_leaves(value, copied) for value in inputs) if self.copies else inputs)
            floats = [t for _, t in flatten(returned) if isinstance(t, torch.Tensor) and t.is_floating_point()]
            # An output of another form has no gradient here: the comparison of outputs says what is wrong with it.
            pairs = [
                (output, seed)
                for output, seed in zip(floats, seeds, strict=False)
                if output.requires_grad and (output.shape, output.device) == (seed.shape, seed.device)
            ]
            wanted = [leaf for leaf in leaves.values() if leaf.requires_grad] if pairs else []
            outputs, weights = zip(*pairs, strict=True) if wanted else ((), ())
            found = torch.autograd.grad(outputs, wanted, weights, allow_unused=True) if wanted else ()
        by_leaf = dict(zip(map(id, wanted), found, strict=True))
        taken = {each.untyped_storage().data_ptr() for each in tensors(arguments)}
        gradients = {name: _own(by_leaf.get(id(leaf)), leaf, taken) for name, leaf in leaves.items()}
        return {OUTPUT: over_leaves(returned, detached), **gradients}


def copied(leaf: Any) -> Any:
    """Return a tensor in memory of its own, which is no leaf of autograd; other leaves as they are."""
    return leaf.clone() if hasattr(leaf, "untyped_storage") else leaf


def detached(leaf: Any) -> Any:
    """Return a new tensor object for the same memory, without its graph; other leaves as they are."""
    return leaf.detach() if hasattr(leaf, "untyped_storage") else leaf


def _own(gradient: "Tensor | None", leaf: "Tensor", taken: set[int]) -> "Tensor":
    """Return a gradient that shares its memory with none of those `taken`, nor with itself, as `expand` does."""
    import torch

    if gradient is None:
        return torch.zeros_like(leaf, requires_grad=False)
    if gradient.untyped_storage().data_ptr() in taken or 0 in gradient.stride():
        gradient = gradient.clone(memory_format=torch.contiguous_format)
    taken.add(gradient.untyped_storage().data_ptr())
    return gradient


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferentiatedProblem(LoadedProblem):
    """A problem whose model returns gradients as well, and whose last argument holds those of the outputs."""

    known: "dict[str, Any]" = field(default_factory=dict)
    """Results of one look at a call: the `gradients`, and the `outputs` as tensors without memory."""

    @property
    def gradients(self) -> Gradients:
        """Gradients of the floating-point arguments and of the parameters."""
        if not self.known:
            self._look()
        gradients: Gradients = self.known["gradients"]
        return gradients

    def _look(self) -> None:
        import torch

        model, inputs = LoadedProblem.model(self, 0), LoadedProblem.inputs(self, 0)
        floats = [n for n, a in enumerate(inputs) if isinstance(a, torch.Tensor) and a.is_floating_point()]
        names = problems.argument_names(model.forward)
        named = [(n, names[n] if n < len(names) else "") for n in floats]
        before = [t._version for t in tensors(inputs)]  # noqa: SLF001 - torch's only count of changes
        with torch.no_grad():
            leaves = [leaf for _, leaf in flatten(model(*inputs)) if isinstance(leaf, torch.Tensor)]
        self.known["outputs"] = [leaf.to("meta") for leaf in leaves if leaf.is_floating_point()]
        self.known["gradients"] = Gradients(
            copies=before != [t._version for t in tensors(inputs)],  # noqa: SLF001
            inputs={f"gradient of input {n}{f' (`{name}`)' if name else ''}": n for n, name in named},
            parameters={
                f"gradient of parameter `{name}`": name for name, p in model.named_parameters() if p.requires_grad
            },
        )

    def inputs(self, seed: int | None = None) -> list[Any]:
        """Make the arguments of `forward`, then the gradients of its floating-point outputs."""
        import torch

        _, outputs = self.gradients, self.known["outputs"]
        made = LoadedProblem.inputs(self, seed)
        seeds = [torch.randn(like.shape, dtype=like.dtype, device=self.device) for like in outputs]
        return [*made, seeds]

    def model(self, seed: int, on: str | None = None) -> "nn.Module":
        """Construct `Model`, as a class of its own whose calls are forward and backward."""
        model = LoadedProblem.model(self, seed, on)
        kind, gradients = type(model), self.gradients

        @functools.wraps(kind.forward)
        def forward(self: Any, *arguments: Any) -> dict[str, Any]:
            return gradients.call(functools.partial(kind.forward, self), dict(self.named_parameters()), arguments)

        model.__class__ = type(kind.__name__, (kind,), {"forward": forward, "__module__": kind.__module__})
        return model


def load(
    path: Path, overrides: Mapping[str, Any], device: str, report: TellStep = unheard, *, timed: str = FORWARD
) -> LoadedProblem:
    """Import a problem file as `catalog.problem.load` does, for calls of what is `timed`."""
    plain = problems.load(path, overrides, device, report)
    if timed == FORWARD:
        return plain
    return DifferentiatedProblem(module=plain.module, device=device, script=plain.script, report=report)


def gradients_of(problem: LoadedProblem) -> Gradients | None:
    """Return the gradients that calls of a problem's model return; None for a plain call."""
    return problem.gradients if isinstance(problem, DifferentiatedProblem) else None
