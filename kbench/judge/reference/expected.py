"""What a reference returned: the answer that a solution's is held against."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from kbench.devices.timer import tensor_leaves
from kbench.judge.reference.drawing import Arguments
from kbench.numerics import elements


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the reference returned for one set of arguments."""

    arguments: list[Any]
    """The judge's private copy, that no worker has ever seen; `Arguments` that were let go are empty."""
    leaves: list[tuple[str, Any]]
    changed: tuple[tuple[str, Tensor], ...] = ()
    """Inputs that the reference changes and does not return, as they are after the call."""
    numbers: Mapping[str, Tensor] = field(default_factory=dict)
    """Python numbers with a fraction that it returned, as tensors on the host, by path."""

    @property
    def tensors(self) -> list[Tensor]:
        """The tensor leaves, in order."""
        return [leaf for _, leaf in self.leaves if isinstance(leaf, Tensor)]

    @property
    def judged(self) -> dict[str, Tensor]:
        """All that a solution's is held against, by name: tensors that are returned, changed inputs, numbers."""
        tensors = {path: t for path, t in (*self.leaves, *self.changed) if isinstance(t, Tensor)}
        return {**tensors, **self.numbers}

    @property
    def is_finite(self) -> bool:
        """Whether no element of a floating-point output is NaN or infinite."""
        return all(elements.all_finite(t) for t in self.judged.values() if t.is_floating_point())

    def recalled(self) -> list[Tensor]:
        """Return the arguments, drawn again if they were let go."""
        if isinstance(self.arguments, Arguments):
            self.arguments.recall()
        return self.arguments


def aliased_outputs(expected: Expected) -> frozenset[str]:
    """Return the paths of the outputs that lie in the memory of an argument."""
    inputs = {t.untyped_storage().data_ptr() for t in tensor_leaves(expected.arguments)}
    outputs = [(path, leaf) for path, leaf in expected.leaves if hasattr(leaf, "untyped_storage")]
    return frozenset(path for path, leaf in outputs if leaf.untyped_storage().data_ptr() in inputs)
