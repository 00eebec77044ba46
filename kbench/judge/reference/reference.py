"""The judge's side of a problem: the reference model, its inputs, its outputs, and the fp64 oracle."""

import contextlib
import random
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kbench.children.child_error import is_of_the_device
from kbench.core.errors import PluginError, ReferenceRaisedError
from kbench.core.model import Cost
from kbench.devices.backend import backend
from kbench.devices.timer import tensor_leaves
from kbench.judge.reference import flops as counting
from kbench.judge.reference.drawing import (
    Arguments,
    Inputs,
    Transform,
    is_value,
    over_leaves,
    over_tensors,
    transformed,
)
from kbench.judge.reference.expected import Expected, aliased_outputs
from kbench.judge.reference.inner_precision import inner_type
from kbench.judge.reference.oracle import Fp64Model, batch_size, entry_of, number_dtype, numbers
from kbench.judge.reference.repeatability import is_random, same_values, unlike
from kbench.judge.reference.supported_values import require_comparable, require_own_elements, require_supported
from kbench.numerics import elements, ties
from kbench.plugins import problem as problems
from kbench.wire.channel import flatten

ORACLE_ELEMENTS = 1 << 26
"""Inputs and outputs beyond this many elements get an fp64 oracle on sampled batch entries only."""
ORACLE_SAMPLES = 3
SMALL_OUTPUT = 1 << 16
"""Most elements of an output that may be nearly the same for all inputs, as a mean of many terms is."""
REPEAT_DRAWS = 4
"""Draws with equal outputs before an output counts as constant; two may be equal by chance."""
HARDLY = 4.0
"""In tolerances. Outputs of two draws that are closer may agree within one tolerance by chance."""
PICK_DRAWS = 3
"""Number of shuffles of an input; a short one may come out in its old order."""
SMALL_STATE = 1 << 24
"""Elements of parameters and buffers up to which a copy is kept for a diagnosis."""
FACTOR, FACTOR_PRODUCTS = 4.0, 16.0
"""Allowed multiple of the reference's own error: plain, and where sums of products (matmul, convolution) occur."""


class Reference:
    """One case of a problem: model, inputs and outputs on the device."""

    def __init__(
        self,
        path: Path,
        overrides: Mapping[str, Any],
        device: str,
        *,
        allow_tf32: bool,
        eval_mode: bool = False,
        tell: problems.TellStep = problems.unheard,
    ):
        problems.pin_precision(allow_tf32)
        self.device = device
        self.overrides = dict(overrides)
        self.problem = problems.load(path, overrides, device, tell)
        self.init_seed = secrets.randbits(31)
        self.constructs_on = device  # both sides: where their parameters are drawn
        self.model = self.problem.model(self.init_seed)
        require_supported(self.state(), "of the reference's state")
        require_own_elements([*self.model.named_parameters()])
        self.eval_mode = eval_mode
        self.mutates: frozenset[int] = frozenset()
        """Numbers of the input tensors that the reference changes: a solution may change these too."""
        self.silent: tuple[int, ...] = ()
        """Of these, those that it does not return as well: a solution must change them as it does."""
        self.aliased: frozenset[str] = frozenset()
        """Paths of the outputs that share memory with an input: a solution's may do so there."""
        self._settle_randomness()
        self._double: Fp64Model | None = None
        self._layout: list[Any] | None = None
        self._finite: bool | None = None
        """Whether the problem's own inputs give finite results with the parameters of construction."""
        self.keeps_weights = False
        """Whether other values of the parameters were tried, and made the reference raise or its results infinite."""
        self._picks: dict[tuple[str, int, int | None], bool] = {}
        self.inputs = Inputs(self.problem)
        self.repeats: tuple[str, ...] = ()
        """Paths of the outputs that are the same in every draw, within the tolerance."""
        self.call_s = 0.0  # of a call that is not the first, roughly
        self.between_bytes = 0  # of the device, which a call takes beside inputs, parameters and outputs
        self.blank: list[Tensor] = []
        """Arguments of `forward` without memory: their structure, and the shapes and dtypes of tensors."""
        self.cost, self.factor = self._measure_cost()
        self._settle_inputs()
        self._require_a_function()
        self.rounds_to = inner_type(self._types, lambda: self.expect(self.arguments(secrets.randbits(31))), self.oracle)
        """The type of 16 bits that results are rounded to within, where they are wider."""
        self.factor = self.factor if self.rounds_to is None else FACTOR

    def arguments(
        self, seed: int, transform: Transform | None = None, applies: Callable[[Any], bool] = is_value
    ) -> Arguments:
        """Make the arguments of `forward`; `transform` is applied to each leaf that `applies` says so of."""

        def draw() -> list[Any]:
            made = self.inputs.draw(seed)
            if transform is None:
                return made
            return [over_leaves(a, lambda leaf: transformed(leaf, transform) if applies(leaf) else leaf) for a in made]

        return Arguments(draw)

    def tolerance(self, output: Tensor) -> elements.Tolerance:
        """Return how near an output of this kind must be."""
        return elements.tolerance_for(output.dtype, self.problem.tolerance)

    def call(self, arguments: Sequence[Any]) -> Any:
        """Run the reference."""
        with torch.no_grad():
            return self.model(*arguments)

    def try_call(self, arguments: Sequence[Any]) -> list[tuple[str, Any]] | None:
        """Return the leaves of a result, or None where the reference raises an exception of its own."""
        try:
            return flatten(self.call(arguments))
        except Exception as error:
            if is_of_the_device(error):
                raise
            return None

    def expect(self, arguments: list[Any]) -> Expected:
        """Run the reference on private arguments and keep what it returned. Raises ReferenceRaisedError if it raises.

        `try_expect` is for arguments that it may refuse.
        """
        found = self.try_expect(arguments)
        if isinstance(found, PluginError):
            raise found
        if isinstance(found, Exception):
            raise ReferenceRaisedError(f"{type(found).__name__}: {found}") from found
        return found

    def try_expect(self, arguments: list[Any]) -> Expected | Exception:
        """Run the reference on arguments that it may refuse; return the exception where it raises one of its own.

        An error of the device, such as no memory, does not count as a refusal: a solution could have caused it.
        """
        try:
            given = self.consumable(arguments)
            leaves = flatten(self.call(given))
            require_supported(leaves, "of the reference")
            found = self.expected(arguments, given, leaves)
            self._require_layout(found)
        except Exception as error:
            if is_of_the_device(error):
                raise
            return error
        return found

    def expected(self, arguments: list[Any], given: list[Tensor], leaves: list[tuple[str, Any]]) -> Expected:
        """Put together what came of a call on `given`, equal to `arguments` before."""
        after = tensor_leaves(given) if self.silent else []
        changed = tuple((f"input tensor {number} after the call", after[number]) for number in self.silent)
        dtype = number_dtype([*tensor_leaves(given), *(tensor for _, tensor in self.state())])
        return Expected(arguments=arguments, leaves=leaves, changed=changed, numbers=numbers(leaves, dtype))

    def _require_layout(self, found: Expected) -> None:
        """Raise PluginError where a tensor in or out has another shape than at first: memory is laid out once."""
        layout = [list(t.shape) for t in (*tensor_leaves(found.arguments), *found.tensors)]
        if self._layout is None:
            self._layout = layout
        elif layout != self._layout:
            before, now = next((b, n) for b, n in zip_longest(self._layout, layout) if b != n)
            raise PluginError(
                f"the shape of a tensor differs from call to call: {before}, then {now}",
                hint="pad it to one shape; `CASES` names others",
            )

    def consumable(self, arguments: list[Any]) -> list[Any]:
        """Return what the reference may be called on: the arguments, or a copy where it would change them."""
        return [over_tensors(a, lambda t: t.clone()) for a in arguments] if self.mutates else arguments

    def is_finite(self) -> bool:
        """Return whether the outputs for inputs of the problem's own are finite: where not, they prove little."""
        return self.expect(self.arguments(secrets.randbits(31))).is_finite

    def picks(self, path: str, number: int, dim: int | None) -> bool:
        """Return whether an output has indices along a dimension of an input, which follow the values they pick."""
        key = path, number, dim
        if key not in self._picks:
            self._picks[key] = any(self._follows(path, number, dim) for _ in range(PICK_DRAWS))
        return self._picks[key]

    def _follows(self, path: str, number: int, dim: int | None) -> bool:
        """Shuffle inputs of one shape along a dimension: indices should change, and the values that they pick not."""
        first = self.expect(self.arguments(secrets.randbits(31)))
        source = tensor_leaves(first.arguments)[number]
        order = torch.randperm(source.numel() if dim is None else source.shape[dim], device=source.device)

        def shuffled(x: Tensor) -> Tensor:
            if x.shape != source.shape:
                return x
            return x.flatten()[order].view(x.shape) if dim is None else x.index_select(dim, order)

        second = self.try_expect([over_tensors(a, shuffled) for a in first.arguments])
        if isinstance(second, Exception):
            return False
        before, after = (dict(each.leaves).get(path) for each in (first, second))
        if before is None or after is None or before.shape != after.shape or torch.equal(before, after):
            return False
        mine, theirs = ties.picked(source, before, dim), ties.picked(shuffled(source), after, dim)
        return mine is not None and theirs is not None and bool(torch.equal(mine, theirs))

    def state(self) -> list[tuple[str, Tensor]]:
        """Return parameters, then buffers, with their names."""
        return [*self.model.named_parameters(), *self.model.named_buffers()]

    def restore(self, *, anew: bool = False) -> None:
        """Go back to the parameters of construction, which a worker gets from the same seed; `anew`: from another."""
        self.init_seed = secrets.randbits(31) if anew else self.init_seed
        self.model = self.problem.model(self.init_seed, self.constructs_on)
        self._double = None
        if self.eval_mode:
            self.model.eval()

    def small_state(self) -> dict[str, Tensor]:
        """Return a copy of the state by name; empty where it is large."""
        state = self.state()
        small = sum(tensor.numel() for _, tensor in state) <= SMALL_STATE
        return {name: tensor.detach().clone() for name, tensor in state} if small else {}

    @contextlib.contextmanager
    def with_weights(self, weights: Mapping[str, Tensor]) -> Iterator[None]:
        """Have the parameters of construction inside a `with` block, and over them those that are given."""
        held = self.model
        try:
            self.restore()
            with torch.no_grad():
                for name, tensor in self.state():
                    tensor.copy_(weights.get(name, tensor))
            yield
        finally:
            self.model, self._double = held, None

    def randomise(self, seed: int, names: Collection[str] | None = None, *, scale: float = 1.0) -> None:
        """Give all parameters new values, or those that are named, times `scale`; a caller pushes them to the workers.

        Where the reference raises or is no longer finite with them (a logarithm), they keep their signs, or values.
        """
        self._double = None
        if not list(self.model.parameters()):
            problems.randomise(self.model, seed, problems.variable(self.model))
            return
        if self._finite is None:
            self._finite = self.is_finite()
        chosen = problems.variable(self.model) if names is None else names
        for keep_signs in (False, True):
            problems.randomise(self.model, seed, chosen, keep_signs=keep_signs, scale=scale)
            found = self.try_expect(self.arguments(secrets.randbits(31)))
            if not isinstance(found, Exception) and (found.is_finite or not self._finite):
                return
            self.restore()
        self.keeps_weights = True

    def oracle(self, expected: Expected) -> list[tuple[list[int], list[Tensor]]] | None:
        """Return (index, fp64 outputs) for the whole batch (index empty) or for sampled entries of it.

        None where the problem has no meaning in fp64, or is large and its batch entries depend on each other.
        """
        total = sum(t.numel() for t in expected.judged.values())
        total += sum(a.numel() for a in expected.arguments if hasattr(a, "numel"))
        if total <= ORACLE_ELEMENTS:
            outputs = self._run_double(expected.arguments, [*expected.judged.values()])
            return None if outputs is None else [([], outputs)]
        batch = batch_size(expected)
        if batch is None or expected.changed or expected.numbers:
            return None
        sampled = []
        for index in random.Random(secrets.randbits(31)).sample(range(batch), min(ORACLE_SAMPLES, batch)):
            part = entry_of(expected.arguments, index)
            found = self.try_call(part)
            if found is None:  # a batch norm in training mode takes no single sample
                return None
            alone = [t for _, t in found if hasattr(t, "shape")]
            parts = [whole[index : index + 1] for whole in expected.tensors]
            if [t.shape for t in alone] != [t.shape for t in parts]:  # equal sizes that are no batch: `a.T @ b`
                return None
            for mine, part_of_whole in zip(alone, parts, strict=True):
                if elements.compare(mine, part_of_whole, elements.tolerance_for(mine.dtype)).ratio > 1:
                    return None
            outputs = self._run_double(part, alone)
            if outputs is None:
                return None
            sampled.append(([index], outputs))
        return sampled

    def _run_double(self, arguments: Sequence[Any], like: Sequence[Tensor]) -> list[Tensor] | None:
        if self._double is None:
            self._double = Fp64Model(self.model)
        return self._double.run(self.consumable(list(arguments)), self.silent, like)

    def _settle_randomness(self) -> None:
        """Switch to eval mode where the reference is random under training mode (dropout)."""
        if self.eval_mode or (getattr(self.model, "training", False) and any(map(is_random, self.model.modules()))):
            self._evaluate()

    def _evaluate(self) -> None:
        self.model.eval()
        self.eval_mode = True

    def _require_a_function(self) -> None:
        """Switch to eval mode if equal inputs give different results; raise PluginError if they still do.

        What is random or remembers its calls has no right answer: its distance from fp64 would excuse anything.
        """
        differs = self._differs_from_itself()
        if differs and getattr(self.model, "training", False):
            self._evaluate()
            differs = self._differs_from_itself()
        if differs:
            raise PluginError(
                f"the reference answers equal inputs differently: {differs}",
                hint="seed what is random in `get_inputs`, and let `Model` remember nothing",
            )

    def _differs_from_itself(self) -> str:
        """Name an output of which two calls on equal inputs differ by more than rounding; empty where none does."""
        arguments = self.arguments(secrets.randbits(31))
        first, started = dict(self.expect(arguments).leaves), time.monotonic()
        with backend(self.device).memory_peak() as peak_bytes:
            again = self.expect(arguments)
            backend(self.device).synchronize()
            returned_bytes = sum(t.numel() * t.element_size() for t in again.tensors)
            self.between_bytes = max(0, peak_bytes() - returned_bytes)
        self.call_s = time.monotonic() - started
        second = dict(again.leaves)
        apart = (path for path, leaf in first.items() if path not in second or unlike(leaf, second[path]))
        return next(apart, "")

    def _settle_inputs(self) -> None:
        """Vary the inputs here if every draw of them, or of an output, is the same and varying helps."""
        if not (self.inputs.repeat or self._repeating(within=HARDLY)):
            return
        finite = self.is_finite()
        self.inputs.vary(jitter=True)
        found = self.try_expect(self.arguments(secrets.randbits(31)))
        if isinstance(found, Exception) or (finite and not found.is_finite):
            self.inputs.vary(jitter=False)
        self.repeats = self._repeating()

    def _repeating(self, within: float = 1.0) -> tuple[str, ...]:
        """Return the outputs that hardly depend on the inputs: those of two draws are within `within` tolerances.

        A mean over a million terms is: returned as a constant it would be right in every call.
        """

        def small() -> dict[str, Tensor]:
            leaves = self.expect(self.arguments(secrets.randbits(31))).leaves
            tensors = [(path, leaf) for path, leaf in leaves if hasattr(leaf, "untyped_storage")]
            return {path: t for path, t in tensors if 0 < t.numel() <= SMALL_OUTPUT and not self.tolerance(t).exact}

        def near(one: Tensor, other: Tensor | None) -> bool:
            if other is None or one.shape != other.shape:
                return False
            return elements.compare(one, other, self.tolerance(one)).ratio <= within

        first = small()
        same = set(first)
        for _ in range(REPEAT_DRAWS):
            other = small() if same else {}
            same = {path for path in same if near(first[path], other.get(path))}
        return tuple(path for path in first if path in same)

    def _measure_cost(self) -> tuple[Cost, float]:
        """Count compulsory bytes and FLOPs of one call; a file's own `cost()` takes precedence."""
        arguments = self.arguments(secrets.randbits(31))
        self.blank = [over_tensors(a, lambda t: t.to("meta")) for a in arguments]
        versions = [t._version for t in tensor_leaves(arguments)]  # noqa: SLF001 - torch's only count of changes
        expected, flops, self._types = counting.count(lambda: self.expect(arguments))
        after = tensor_leaves(arguments)
        changed = [n for n, (t, version) in enumerate(zip(after, versions, strict=True)) if t._version != version]  # noqa: SLF001
        require_comparable(expected.leaves, changes_inputs=bool(changed))
        self.mutates = frozenset(changed)
        self.silent = tuple(n for n in changed if not any(same_values(after[n], t) for t in expected.tensors))
        self.aliased = aliased_outputs(expected)
        tensors = [*tensor_leaves(arguments), *expected.tensors, *(tensor for _, tensor in self.state())]
        traffic = sum(t.numel() * t.element_size() for t in tensors)
        counted = {"dram_bytes": traffic, "flops": sum(flops.values()), "flops_by_precision": flops}
        own = getattr(self.problem.module, "cost", lambda: counted)
        return Cost(**own()), FACTOR_PRODUCTS if flops else FACTOR
