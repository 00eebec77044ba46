"""Fresh arguments for every call, also where a problem's `get_inputs` does not follow the seed that it is given."""

import secrets
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from kbench.core.errors import PluginError
from kbench.devices.timer import tensor_leaves
from kbench.numerics import elements
from kbench.plugins.containers import fields_of, with_fields
from kbench.wire.channel import flatten
from kbench.wire.shared_memory import layout_of

Transform = Callable[[Any], Any]

PLAIN = (bool, int, float, complex, str, type(None))
"""What may stand in arguments and results beside tensors: it can be copied between processes, and compared."""
JITTER = 0.2
"""Width of each element's random factor, and of the factor that all elements of a tensor share."""
FIRST = 64
"""Elements that are looked at to tell values from labels (chosen): enough for nearly every tensor."""


class Arguments(list[Any]):
    """The arguments of one call; where they take too much memory they may be let go, and drawn again when needed."""

    def __init__(self, draw: Callable[[], list[Any]]):
        super().__init__(draw())
        self._draw = draw

    def recall(self) -> None:
        """Draw them again if they were let go (`clear`)."""
        if not self:
            self.extend(self._draw())


class Inputs:
    """Draws the arguments of one case; what never changes between two draws is known by name."""

    def __init__(self, problem: Any):
        self._problem = problem
        self._kinds: dict[Callable[[Any], bool], bool] = {}
        self._follow: bool | None = None
        self.jitter = False
        """Whether a random factor is put on floating-point tensors, since nothing else varies."""
        self.vary(jitter=False)

    def vary(self, *, jitter: bool) -> None:
        """Draw twice, with that random factor or without, and see what is the same."""
        self.jitter = jitter
        first, second = (flatten(self.draw(secrets.randbits(31)), "input") for _ in range(2))
        require_supported(first, "of the problem")
        pairs = zip(first, second, strict=False)
        self.unvaried = tuple(path for (path, one), (_, other) in pairs if equal(one, other))
        """What is the same in both draws, by path."""
        self.repeat = len(self.unvaried) == len(first) == len(second)
        """Whether all is: an answer that is remembered would be right in every call."""

    def has(self, applies: Callable[[Any], bool]) -> bool:
        """Return whether any leaf is of a kind; drawn and looked at once."""
        if applies not in self._kinds:
            self._kinds[applies] = any(applies(leaf) for _, leaf in flatten(self.draw(secrets.randbits(31))))
        return self._kinds[applies]

    def follow_seeds(self) -> bool:
        """Return whether equal seeds give equal arguments, so that they can be drawn again. Tried once."""
        if self._follow is None:
            seed = secrets.randbits(31)
            first, second = ([elements.fingerprint(leaf) for leaf in tensor_leaves(self.draw(seed))] for _ in range(2))
            self._follow = first == second
        return self._follow

    def draw(self, seed: int) -> list[Any]:
        """Make the arguments; equal seeds give equal ones."""
        made: list[Any] = self._problem.inputs(seed)
        if self.jitter:
            torch.manual_seed(seed)
            made = [over_leaves(value, jittered) for value in made]
        return made

    def unseeded(self) -> list[Any]:
        """Make the arguments with the random generators as they are, and without `jitter`."""
        made: list[Any] = self._problem.unseeded_inputs()
        return made


def jittered(value: Any) -> Any:
    """Return a floating-point tensor with a random factor on it and on each of its elements; others as they are."""
    if not is_value(value):
        return value
    common = 1 + JITTER * (torch.rand(()).item() - 0.5)

    def on_each(x: Tensor) -> Tensor:
        factors = torch.empty(x.shape, dtype=x.abs().dtype, device=x.device)
        return x * common * factors.uniform_(1 - JITTER / 2, 1 + JITTER / 2)

    return transformed(value, on_each)


def transformed(leaf: Any, change: Transform) -> Any:
    """Return a leaf changed; of 8-bit values, which no arithmetic is made for, in fp32 and as far as they reach."""
    if not hasattr(leaf, "untyped_storage") or not leaf.is_floating_point() or leaf.element_size() > 1:
        return change(leaf)
    reach = torch.finfo(leaf.dtype)
    return change(leaf.float()).clamp(reach.min, reach.max).to(leaf.dtype)


def over_leaves(value: Any, change: Transform) -> Any:
    """Return a value with `change` applied to everything in it, however deep in containers (`fields_of`)."""
    if isinstance(value, dict):
        return {key: over_leaves(item, change) for key, item in value.items()}
    if isinstance(value, tuple | list):
        items = [over_leaves(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if fields := fields_of(value):
        return with_fields(value, {name: over_leaves(item, change) for name, item in fields.items()})
    return change(value)


def over_tensors(value: Any, change: Transform) -> Any:
    """Return a value with `change` applied to every tensor in it."""
    return over_leaves(value, lambda leaf: change(leaf) if hasattr(leaf, "untyped_storage") else leaf)


def is_value(leaf: Any) -> bool:
    """Return whether a leaf is a floating-point or complex tensor, and not one of labels."""
    if not hasattr(leaf, "untyped_storage"):
        return False
    return leaf.is_complex() or (leaf.is_floating_point() and not is_labels(leaf))


def is_number(leaf: Any) -> bool:
    """Return whether a leaf is a Python number with a fraction; one without may be a size or an axis."""
    return isinstance(leaf, float)


def is_constant_mask(leaf: Any) -> bool:
    """Return whether a leaf is a boolean tensor of one value only: no structure, and nothing that a seed would vary."""
    if not hasattr(leaf, "untyped_storage") or leaf.dtype != torch.bool or leaf.numel() < 2:
        return False
    return bool((leaf == leaf.flatten()[0]).all())


def is_labels(tensor: Tensor) -> bool:
    """Return whether a tensor holds two values only, as labels and masks do: other values of it would mean nothing."""
    if tensor.numel() <= 2:
        return False
    if tensor.element_size() == 1:
        tensor = tensor.float()
    if tensor[(0,) * (tensor.dim() - 1)][:FIRST].unique().numel() > 2:  # almost always, and at no cost
        return False
    low, high = tensor.aminmax()
    return bool((low < high) & ((tensor == low) | (tensor == high)).all())


def equal(one: Any, other: Any) -> bool:
    """Return whether two leaves are the same, bit for bit."""
    if hasattr(one, "untyped_storage"):
        alike = one.shape == other.shape and one.dtype == other.dtype
        return alike and elements.same_bits(one, other)
    return type(one) is type(other) and isinstance(one, PLAIN) and one == other


def require_comparable(leaves: Sequence[tuple[str, Any]], *, changes_inputs: bool) -> None:
    """Raise PluginError where a leaf is neither a tensor nor a plain value, or where there is nothing to compare."""
    if not changes_inputs and all(leaf is None for _, leaf in leaves):
        raise PluginError("the reference returns nothing to compare", "`return` the result in `forward`")
    hint = "return tensors, numbers, strings or None, in tuples, lists, dicts or dataclasses"
    for path, leaf in leaves:
        if not isinstance(leaf, (Tensor, torch.dtype, torch.device, bytes, *PLAIN)):
            kind = f"{type(leaf).__module__}.{type(leaf).__qualname__}"
            raise PluginError(f"{path} of the reference is a {kind}, which cannot be compared", hint)


def require_supported(leaves: Sequence[tuple[str, Any]], whose: str) -> None:
    """Raise PluginError for what has no block of memory to share, or no sums on a CPU (complex32)."""
    for path, leaf in leaves:
        if not hasattr(leaf, "untyped_storage"):
            continue
        if layout := layout_of(leaf):
            message = f"{path} {whose} is a {layout} tensor; only dense (strided) ones are supported"
            raise PluginError(message, hint="`to_dense`, `to_padded_tensor` or `dequantize` makes one")
        if leaf.dtype is torch.complex32:
            raise PluginError(f"{path} {whose} is a tensor of complex32, which is not supported", "use complex64")


def require_own_elements(state: Sequence[tuple[str, Any]]) -> None:
    """Raise PluginError where elements of a parameter share memory: it could not be given other values."""
    for name, tensor in state:
        if any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True)):
            message = f"`{name}` of the reference is expanded: several of its elements are one"
            raise PluginError(message, hint="`clone` it before it becomes a parameter")
