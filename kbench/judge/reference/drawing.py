"""Fresh arguments for every call, also if a problem's `get_inputs` does not follow its seed."""

import contextlib
import functools
import itertools
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from kbench.catalog.containers import leaves, over_leaves
from kbench.catalog.problem import seed_torch
from kbench.core.errors import PluginError
from kbench.devices.backend import backend_of
from kbench.judge.reference import structure
from kbench.judge.reference.structure import Structure
from kbench.numerics import elements
from kbench.numerics.operators import OperatorMode
from kbench.process.channel import flatten
from kbench.process.shared_memory import layout_of

Transform = Callable[[Any], Any]

PLAIN = (bool, int, float, complex, str, type(None))
"""Types that arguments and results may have beside tensors: they can be copied between processes, and compared."""
INTEGERS = frozenset({torch.int64, torch.int32, torch.int16})
"""Types of tensors that may index another tensor; 8-bit types hold values."""


def secret_seed() -> int:
    """Return a seed that cannot be guessed; it never leaves the judge."""
    return secrets.randbits(62)


class Arguments(list[Any]):
    """The arguments of one call; if they take too much memory they may be cleared, and drawn again when needed."""

    def __init__(self, draw: Callable[[], list[Any]]):
        super().__init__(draw())
        self._draw = draw

    def recall(self) -> None:
        """Draw the arguments again if they were cleared."""
        if not self:
            self.extend(self._draw())


class Inputs:
    """Draws the arguments of one case, and knows which of them never change between two draws."""

    def __init__(self, problem: Any, names: Sequence[str] = ()):
        self._problem = problem
        self._names = names
        self._kinds: dict[Callable[[Any], bool], bool] = {}
        self._follow: bool | None = None
        self.jitter = False
        """True if floating-point tensors get a random factor, because nothing else varies."""
        self.structures: dict[int, tuple[Structure, ...]] = {}
        """Structures that all draws of a tensor have in common, by its number among the leaves of the arguments."""
        self.computed: frozenset[int] = frozenset()
        """Numbers of the leaves that follow the numbers which `get_inputs` draws, if it computes any from these. A
        variation then changes the drawn numbers, and keeps what is computed: symmetry, A beside its transpose."""
        self.drawn: frozenset[int] = frozenset()
        """Numbers of the leaves that are drawn themselves."""
        self.vary(jitter=False)

    def vary(self, *, jitter: bool) -> None:
        """Draw twice, with that random factor or without, and find the leaves that are equal."""
        self.jitter = jitter
        raw: list[Any] = []
        with drawing(lambda out: raw.append(_identity(out))):
            drawn = [self.draw()]
        drawn.append(self.draw())
        first, second = map(self._flat, drawn)
        require_supported(first, "of the problem")
        count = itertools.count()
        numbered = self._flat([over_leaves(value, lambda _: next(count)) for value in drawn[0]])
        self.paths = tuple(path for path, _ in sorted(numbered, key=lambda leaf: leaf[1]))
        """Paths of the leaves, in the order of their numbers."""
        of_tensors = zip(self.paths, leaves(drawn[0]), strict=True)
        self.tensor_paths = tuple(path for path, leaf in of_tensors if hasattr(leaf, "untyped_storage"))
        if not jitter:
            self.computed = self._computed(raw, leaves(drawn[0]))
            self.structures = self._common(*map(leaves, drawn))
        pairs = zip(first, second, strict=False)
        self.unvaried = tuple(path for (path, one), (_, other) in pairs if equal(one, other))
        """Paths of the leaves that are equal in both draws."""
        self.repeat = len(self.unvaried) == len(first) == len(second)
        """True if all leaves are equal: then a remembered answer is right in every call."""

    def _flat(self, made: list[Any]) -> list[tuple[str, Any]]:
        """Return the leaves of arguments with their paths, which begin with an argument's name where that is known."""
        named = [*self._names, *(f"input[{number}]" for number in range(len(self._names), len(made)))]
        return [leaf for name, value in zip(named, made, strict=False) for leaf in flatten(value, name)]

    def _computed(self, raw: list[Any], found: list[Any]) -> frozenset[int]:
        """Return the leaves that follow the drawn numbers; none if each value was drawn itself, or cannot be again."""
        values = {number: _identity(leaf) for number, leaf in enumerate(found) if is_value(leaf)}
        each = [*values.values()]
        self.drawn = frozenset(number for number, own in values.items() if own in raw and each.count(own) == 1)
        if not raw or len(self.drawn) == len(values) or not self.follow_seeds():
            return frozenset()
        seed = secret_seed()
        pairs = zip(leaves(self._made(seed)), leaves(self._made(seed, jittered)), strict=False)
        return frozenset(number for number, (leaf, other) in enumerate(pairs) if not equal(leaf, other))

    def _made(self, seed: int, transform: Transform | None = None) -> list[Any]:
        """Make the arguments of a seed, with every drawn tensor changed by a transform."""
        if transform is None:
            return fresh(self._problem.inputs(seed))
        count = itertools.count(1)

        def change(out: Tensor) -> None:
            devices = [out.device] if backend_of(out).has_own_memory else []
            with torch.random.fork_rng(devices):
                seed_torch(seed + next(count), out.device.type)  # `get_inputs` may set a seed of its own
                out.copy_(transformed(out, transform))

        with drawing(change):
            return fresh(self._problem.inputs(seed))

    def _common(self, first: list[Any], second: list[Any]) -> dict[int, tuple[Structure, ...]]:
        """Return the structures that draws of each tensor have in common; draw a third time only if there are any."""
        both = {
            number: (leaf, other)
            for number, (leaf, other) in enumerate(zip(first, second, strict=False))
            if (is_value(leaf) or is_integer(leaf)) and leaf.shape == other.shape
        }
        if not any(structure.common(leaf, [other]) for leaf, other in both.values()):
            return {}
        third = leaves(self.draw())
        found = {number: structure.common(leaf, [other, third[number]]) for number, (leaf, other) in both.items()}
        return {number: structures for number, structures in found.items() if structures}

    def has(self, applies: Callable[[Any], bool]) -> bool:
        """Return whether any leaf is of a kind; the answer is kept."""
        if applies not in self._kinds:
            self._kinds[applies] = any(applies(leaf) for _, leaf in flatten(self.draw()))
        return self._kinds[applies]

    def varies(self, transform: Transform, applies: Callable[[Any], bool]) -> bool:
        """Return whether a change applies to a leaf and changes its value; structures of leaves are kept."""
        if not self.computed and (not self.structures or not self.has(applies)):
            return self.has(applies)
        seed = secret_seed()
        pairs = zip(leaves(self.draw(seed)), leaves(self.draw(seed, transform, applies)), strict=True)
        return any(not equal(*each) for each in pairs)

    def changed(self, made: list[Any], transform: Transform, applies: Callable[[Any], bool]) -> list[Any]:
        """Apply a change to the leaves that it `applies` to, and keep their structures."""
        count = itertools.count()

        def change(leaf: Any) -> Any:
            number = next(count)
            if number in self.computed or not applies(leaf):
                return leaf
            return structure.keep(self.structures.get(number, ()), transformed(leaf, transform), leaf)

        return [over_leaves(value, change) for value in made]

    def follow_seeds(self) -> bool:
        """Return whether equal seeds give equal arguments, so that they can be drawn again. Tried once."""
        if self._follow is None:
            seed = secret_seed()

            def prints() -> list[Any]:
                made = leaves(self.draw(seed))
                return [elements.fingerprint(leaf) if hasattr(leaf, "untyped_storage") else leaf for leaf in made]

            self._follow = prints() == prints()
        return self._follow

    def draw(
        self, seed: int | None = None, transform: Transform | None = None, applies: Callable[[Any], bool] | None = None
    ) -> list[Any]:
        """Make the arguments, changed where a change `applies`; equal seeds give equal ones."""
        seed = secret_seed() if seed is None else seed
        changes: list[tuple[Transform, Callable[[Any], bool]]] = [(jittered, is_value)] if self.jitter else []
        changes += [(transform, applies or is_value)] if transform is not None else []

        def all_of(values: Tensor) -> Tensor:
            return functools.reduce(lambda x, each: each[0](x) if each[1](x) else x, changes, values)

        made = self._made(seed, all_of if self.computed and changes else None)
        known = ((n, each) for n in self.computed for each in self.structures.get(n, ()))
        if changes and not all(each.holds(leaves(made)[n]) for n, each in known):
            return self._made(seed)
        if changes:
            torch.manual_seed(seed)
        for change, where in changes:
            made = self.changed(made, change, where)
        return made

    def unseeded(self) -> list[Any]:
        """Make the arguments with the random generators as they are, and without `jitter`."""
        return list(self._problem.inputs())


@contextlib.contextmanager
def samples_kept(tensors: Sequence[Tensor]) -> Iterator[None]:
    """Restore about 16 elements of each tensor, the first and the last among them, at the end of a `with` block."""
    many = [t.detach().view(-1) for t in tensors if t.numel() > 2 and t.is_contiguous()]
    samples = [each for t in many for each in (t[:: max(4, t.numel() // 16)], t[-1:])]
    held = [t.clone() for t in samples]
    yield
    for sample, values in zip(samples, held, strict=True):
        sample.copy_(values)


def jittered(x: Tensor) -> Tensor:
    """Return a tensor of values with a random factor of 0.9 to 1.1 on it, and another on each of its elements."""
    common = 0.9 + 0.2 * torch.rand(()).item()
    factors = torch.empty(x.shape, dtype=x.abs().dtype, device=x.device)
    return x * common * factors.uniform_(0.9, 1.1)


def transformed(leaf: Any, change: Transform) -> Any:
    """Return a changed leaf. 8-bit values, which have no arithmetic, are changed in fp32 and clamped to their range."""
    if not hasattr(leaf, "untyped_storage") or not leaf.is_floating_point() or leaf.element_size() > 1:
        return change(leaf)
    reach = torch.finfo(leaf.dtype)
    return change(leaf.float()).clamp(reach.min, reach.max).to(leaf.dtype)


def over_tensors(value: Any, change: Transform) -> Any:
    """Return a value with `change` applied to every tensor in it."""
    return over_leaves(value, lambda leaf: change(leaf) if hasattr(leaf, "untyped_storage") else leaf)


def layout(tensor: Tensor) -> tuple[Sequence[int], Sequence[int]]:
    """Return shape and strides, which an operation in place may change."""
    return tensor.shape, tensor.stride()


def fresh(arguments: Sequence[Any]) -> list[Any]:
    """Return new tensor objects for the same memory, so that a change of shape in place affects no other object."""
    return [over_tensors(value, lambda tensor: tensor.detach()) for value in arguments]


DRAWN = {"rand", "randn", "rand_like", "randn_like", "normal", "uniform", "exponential", "log_normal", "cauchy"}
"""Operators of torch that draw values."""


def drawing(change: Callable[[Tensor], None]) -> OperatorMode:
    """Return a `with` block that hands over each tensor of values that is drawn at random inside it."""

    def compute(func: Any, args: Any, given: dict[str, Any]) -> Any:
        out = func(*args, **given)
        if func._schema.name.removeprefix("aten::").removesuffix("_functional").rstrip("_") in DRAWN:  # noqa: SLF001
            change(out)
        return out

    return OperatorMode(compute)


def _identity(leaf: Any) -> Any:
    """Return what two tensors have in common if one is the other, at other times."""
    memory = leaf.untyped_storage()
    return memory.data_ptr(), leaf.numel(), leaf.new_empty(0).set_(memory)[: structure.CORNER].tolist()


def is_value(leaf: Any) -> bool:
    """Return whether a leaf is a floating-point or complex tensor that does not hold labels."""
    if not hasattr(leaf, "untyped_storage"):
        return False
    return leaf.is_complex() or (leaf.is_floating_point() and not is_labels(leaf))


def is_integer(leaf: Any) -> bool:
    """Return whether a leaf is a tensor of integers, which may be indices."""
    return hasattr(leaf, "untyped_storage") and leaf.dtype in INTEGERS


def is_number(leaf: Any) -> bool:
    """Return whether a leaf is a Python number with a fraction; an integer may be a size or an axis."""
    return isinstance(leaf, float)


def is_constant_mask(leaf: Any) -> bool:
    """Return whether a leaf is a boolean tensor of one value only, which has no structure and follows no seed."""
    if not hasattr(leaf, "untyped_storage") or leaf.dtype != torch.bool or leaf.numel() < 2:
        return False
    return bool((leaf == leaf.flatten()[0]).all())


def is_labels(tensor: Tensor) -> bool:
    """Return whether a tensor holds two values only, as labels and masks do; other values have no meaning there."""
    if tensor.numel() <= 2:
        return False
    if tensor.element_size() == 1:
        tensor = tensor.float()
    if tensor[(0,) * (tensor.dim() - 1)][: structure.CORNER].unique().numel() > 2:  # almost always, and at no cost
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
    """Raise PluginError if a leaf is neither a tensor nor a plain value, or if there is nothing to compare."""
    empty = (leaf is None or (isinstance(leaf, Tensor) and not leaf.numel()) for _, leaf in leaves)
    if not changes_inputs and all(empty):
        hint = "`return` the result in `forward`: tensors with elements, numbers or strings"
        raise PluginError("the reference returns nothing to compare", hint)
    hint = "return tensors, numbers, strings or None, in tuples, lists, dicts or dataclasses"
    for path, leaf in leaves:
        if not isinstance(leaf, (Tensor, torch.dtype, torch.device, bytes, *PLAIN)):
            kind = f"{type(leaf).__module__}.{type(leaf).__qualname__}"
            raise PluginError(f"{path} of the reference is a {kind}, which cannot be compared", hint)


def require_supported(leaves: Sequence[tuple[str, Any]], whose: str) -> None:
    """Raise PluginError for a tensor without one block of memory to share, or without sums on a CPU (complex32)."""
    for path, leaf in leaves:
        if not hasattr(leaf, "untyped_storage"):
            continue
        if layout := layout_of(leaf):
            message = f"{path} {whose} is a {layout} tensor; only dense (strided) ones are supported"
            raise PluginError(message, hint="`to_dense`, `to_padded_tensor` or `dequantize` makes one")
        if leaf.dtype is torch.complex32:
            raise PluginError(f"{path} {whose} is a tensor of complex32, which is not supported", "use complex64")


def require_own_elements(state: Sequence[tuple[str, Any]]) -> None:
    """Raise PluginError if elements of a parameter share memory, so that it cannot get other values."""
    for name, tensor in state:
        if any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True)):
            message = f"`{name}` of the reference is expanded: several of its elements share memory"
            raise PluginError(message, hint="`clone` it before it becomes a parameter")
