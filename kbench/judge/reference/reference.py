"""The judge's side of a problem: the reference model, its inputs, its outputs, and the fp64 oracle."""

import functools
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kbench.catalog import problem as problems
from kbench.catalog.containers import tensors
from kbench.core.errors import PluginError, ReferenceRaisedError
from kbench.core.model import Cost
from kbench.core.timed import FORWARD
from kbench.core.values import FACTOR, FACTOR_PRODUCTS, NARROW
from kbench.devices.backend import backend
from kbench.judge.reference import first_call
from kbench.judge.reference.boundaries import Boundaries
from kbench.judge.reference.drawing import (
    Arguments,
    Inputs,
    Transform,
    fresh,
    is_value,
    layout,
    over_tensors,
    require_comparable,
    require_own_elements,
    require_supported,
    samples_kept,
    secret_seed,
)
from kbench.judge.reference.expected import (
    Expected,
    is_random,
    place_of_difference,
    repeated_outputs,
    small_changes,
    sums_of,
    types_and_shapes,
    unlike,
)
from kbench.judge.reference.oracle import (
    Fp64Model,
    Pieces,
    inner_type,
    numbers,
    of_entries,
)
from kbench.numerics import elements
from kbench.process.autograd import gradients_of, load
from kbench.process.channel import flatten
from kbench.process.child_error import is_of_the_device

ORACLE_ELEMENTS = 1 << 26
"""Inputs and outputs beyond this many elements get an fp64 oracle on sampled batch entries only."""


class Reference:
    """One case of a problem: model, inputs and outputs on the device."""

    mutates: frozenset[int] = frozenset()
    """Numbers of the input tensors that the reference changes; they are compared after the call, as outputs are."""
    reshapes = False
    """True if a call changes the shape or the strides of an input object in place, as `unsqueeze_` does."""
    drifts: frozenset[str] = frozenset()
    """Names of the parameters and buffers that a call changes; they are reset before each call."""
    aliased: frozenset[str] = frozenset()
    """Paths of the outputs that share memory with an input; a solution's outputs may do so there."""
    decides = True
    """False if the first call of `boundaries` saw no rounding and no comparison in the reference."""
    keeps_weights = False
    """True if other values of the parameters made the reference raise, or its results infinite."""
    repeats: tuple[str, ...] = ()
    """Paths of the outputs that are equal in every draw, within the tolerance."""
    call_s = 0.0
    """Approximate time of a call after the first."""
    between_bytes = 0
    """Device memory of a call beyond inputs, parameters and outputs."""
    tensors = ""
    """Types and shapes of the inputs and outputs of a call, in words."""

    def __init__(
        self,
        path: Path,
        overrides: Mapping[str, Any],
        device: str,
        *,
        allow_tf32: bool,
        eval_mode: bool = False,
        timed: str = FORWARD,
        report: problems.TellStep = problems.unheard,
        oracle_elements: int = ORACLE_ELEMENTS,
    ):
        problems.pin_precision(allow_tf32)
        self.device = device
        self.overrides = dict(overrides)
        self.oracle_elements = oracle_elements
        self.problem = load(path, overrides, device, report, timed=timed)
        self.gradients = gradients_of(self.problem)
        self.init_seed = secrets.randbits(31)
        self.model = self.problem.model(self.init_seed)
        self.constructs_on = self.problem.places["Model"]  # device on which both sides draw their parameters
        require_supported(self.state(), "of the reference's state")
        require_own_elements([*self.model.named_parameters()])
        self.eval_mode = eval_mode
        if self.eval_mode or (getattr(self.model, "training", False) and any(map(is_random, self.model.modules()))):
            self._evaluate()
        self._double: Fp64Model | None = None
        self._layout: list[Any] | None = None
        self._finite: bool | None = None
        """True if the problem's own inputs give finite results with the parameters of construction."""
        self.inputs = Inputs(self.problem, problems.argument_names(self.model.forward))
        self.cost, self.factor = self._measure_cost()
        self._settle_inputs()
        self._require_a_function()
        self.rounds_to = inner_type(self._types, self._draw, self.oracle)
        """The 16-bit type that intermediate results are rounded to, if the outputs are wider; or None."""
        self.factor = self.factor if self.rounds_to is None else FACTOR

    def arguments(
        self, seed: int | None = None, transform: Transform | None = None, applies: Callable[[Any], bool] = is_value
    ) -> Arguments:
        """Make the arguments of `forward` (by default from a new secret seed); change each leaf that `applies`."""
        seed = secret_seed() if seed is None else seed

        return Arguments(functools.partial(self.inputs.draw, seed, transform, applies))

    def tolerance(self, output: Tensor) -> elements.Tolerance:
        """Return the tolerance of an output of this type."""
        return elements.tolerance_for(output.dtype, self.problem.tolerance)

    def call(self, arguments: Sequence[Any]) -> Any:
        """Run the reference, and restore the parameters and buffers that it changed."""
        drifting = [tensor for name, tensor in self.state() if name in self.drifts] if self.drifts else []
        with torch.no_grad():
            held = [tensor.clone() for tensor in drifting]
            try:
                return self.model(*arguments)
            finally:
                for tensor, values in zip(drifting, held, strict=True):
                    tensor.copy_(values)

    def expect(self, arguments: list[Any]) -> Expected:
        """Run the reference on private arguments. Raises ReferenceRaisedError; see `try_expect`."""
        found = self.try_expect(arguments)
        if isinstance(found, PluginError):
            raise found
        if isinstance(found, Exception):
            raise ReferenceRaisedError(f"{type(found).__name__}: {found}") from found
        return found

    def try_expect(self, arguments: list[Any], *, any_shape: bool = False) -> Expected | Exception:
        """Run the reference on arguments that it may refuse; return its exception if it raises one.

        It gets new tensor objects, whose shapes may change in place. Errors of the device are raised, because a
        solution may have caused them.
        """
        try:
            held = self._consumable(arguments)
            given, after = fresh(held), tensors(held)
            leaves = flatten(self.call(given))
            self.reshapes |= [*map(layout, tensors(given))] != [*map(layout, after)]
            require_supported(leaves, "of the reference")
            paths = self.inputs.tensor_paths
            changed = tuple((f"`{paths[n]}` after the call", after[n]) for n in sorted(self.mutates))
            all_tensors = [*after, *(tensor for _, tensor in self.state())]
            coarse = any(t.is_floating_point() and t.element_size() < 4 for t in all_tensors)
            scalars = numbers(leaves, torch.bfloat16 if coarse else torch.float32)
            found = Expected(arguments=arguments, leaves=leaves, changed=changed, numbers=scalars)
            if not any_shape:
                self._require_layout(found)
        except Exception as error:
            if is_of_the_device(error):
                raise
            return error
        return found

    def try_changed(self, arguments: list[Any]) -> Expected | Exception:
        """Run the reference on arguments of other values, as `try_expect` does, if the host does not refuse them."""
        return self.indices.refusal(self.model, arguments, self.device) or self.try_expect(arguments)

    def _require_layout(self, found: Expected) -> None:
        """Raise PluginError if an input or output has another shape than in the first call: memory is laid out once."""
        layout = [list(t.shape) for t in (*tensors(found.arguments), *found.tensors)]
        if self._layout is None:
            self._layout = layout
        elif layout != self._layout:
            before, now = next((b, n) for b, n in zip_longest(self._layout, layout) if b != n)
            message = f"the shape of a tensor differs from call to call: {before}, then {now}"
            raise PluginError(message, hint="pad it to one shape; `CASES` names others")

    def _consumable(self, arguments: list[Any]) -> list[Any]:
        """Return arguments that the reference may change: the given ones, or a copy if it changes its inputs."""
        return [over_tensors(a, lambda t: t.clone()) for a in arguments] if self.mutates else arguments

    def is_finite(self) -> bool:
        """Return whether the outputs for the problem's own inputs are finite; otherwise they prove little."""
        return self._draw().is_finite

    def _draw(self) -> Expected:
        return self.expect(self.arguments())

    def state(self) -> list[tuple[str, Tensor]]:
        """Return parameters, then buffers, with their names."""
        return [*self.model.named_parameters(), *self.model.named_buffers()]

    @property
    def drifting(self) -> bool:
        """True if a call changes parameters, so that a solution's are reset before each call; buffers may drift."""
        return any(name in self.drifts for name, _ in self.model.named_parameters())

    def restore(self, *, anew: bool = False) -> None:
        """Restore the parameters of construction, which a worker gets from the same seed; `anew`: from a new seed."""
        self.init_seed = secrets.randbits(31) if anew else self.init_seed
        self.model = self.problem.model(self.init_seed, self.constructs_on)
        self._double = None
        if self.eval_mode:
            self.model.eval()

    def constructed_state(self) -> dict[str, Tensor]:
        """Return the parameters and buffers of construction by name; empty if they are large."""
        if sum(tensor.numel() for _, tensor in self.state()) > first_call.MOST_ELEMENTS:
            return {}
        model = self.problem.model(self.init_seed, self.constructs_on)
        return {name: t.detach() for name, t in (*model.named_parameters(), *model.named_buffers())}

    def randomise(self, names: Collection[str] | None = None, *, scale: float = 1.0, but_samples: bool = False) -> None:
        """Give the named parameters, or all, new values times `scale`; a caller pushes them to the workers.

        `but_samples`: some elements of each keep their values. If the reference raises or is not finite with new values
        (a logarithm), parameters keep their signs, or their values.
        """
        self._double = None
        if not list(self.model.parameters()):
            problems.randomise(self.model, secret_seed(), problems.variable(self.model))
            return
        if self._finite is None:
            self._finite = self.is_finite()
        chosen = problems.variable(self.model) if names is None else names
        for keep_signs in (False, True):
            with samples_kept([t for _, t in self.state()] if but_samples else []):
                problems.randomise(self.model, secret_seed(), chosen, keep_signs=keep_signs, scale=scale)
            if self._copes(finite=self._finite):
                return
            self.restore()
        self.keeps_weights = True

    @functools.cached_property
    def steps(self) -> frozenset[int]:
        """Numbers of the outputs that are one of the own inputs but for a small change, as an optimiser makes."""
        own = self._draw()
        changed = [small_changes(own.recalled(), want) for want in own.judged.values()]
        return frozenset(number for number, found in enumerate(changed) if found)

    def is_small(self, expected: Expected) -> bool:
        """Return whether fp64 computes inputs and outputs as a whole: they are few, or gradients summed over them."""
        return expected.size <= self.oracle_elements or self.gradients is not None

    def oracle(self, expected: Expected, worst: Tensor | None = None) -> Pieces | None:
        """Return fp64 outputs for the whole batch, or for the entries whose `worst` error misses the contract, or some.

        None if the model does not run in fp64, or is larger than memory and its batch entries depend on each other.
        """
        if not self.is_small(expected):
            found = of_entries(
                expected, worst, self.oracle_elements, lambda part: self.call(fresh(part)), self._run_double
            )
            needed_bytes = torch.float64.itemsize * expected.size + 4 * self.between_bytes  # if those are of 16 bits
            if found is not None or needed_bytes > backend(self.device).free_bytes() // 2:
                return found
        outputs = self._run_double(expected.arguments, [*expected.judged.values()])
        return None if outputs is None else [(..., outputs)]

    def boundaries(self, expected: Expected) -> Boundaries:
        """Return the decisions behind discontinuous outputs on these arguments."""
        arguments = expected.recalled()
        wanted = [*expected.judged.values()]

        def own() -> list[Tensor] | None:
            found = self.try_expect(arguments)
            return None if isinstance(found, Exception) else [*found.judged.values()]

        double = functools.partial(self._run_double, arguments, wanted) if self.is_small(expected) else None
        found = Boundaries(own, double, self.tolerance, self.factor)
        self.decides = found.decides
        return found

    def _run_double(self, arguments: Sequence[Any], like: Sequence[Tensor]) -> list[Tensor] | None:
        if self._double is None:
            self._double = Fp64Model(self.model)
        return self._double.run(self._consumable(list(arguments)), sorted(self.mutates), like)

    def _evaluate(self) -> None:
        self.model.eval()
        self.eval_mode = True

    def _require_a_function(self) -> None:
        """Switch to eval mode if equal inputs give different results; raise PluginError if they still do."""
        differs = self._differs_from_itself()
        if differs and getattr(self.model, "training", False):
            self._evaluate()
            differs = self._differs_from_itself()
        if differs:
            message = f"the reference gives two outputs for equal inputs: {differs}"
            if self._draws_in_a_call():
                why, hint = "`forward` draws random numbers", "draw them in `get_inputs`, and pass them to `forward`"
            else:
                why, hint = "`Model` keeps a state between calls", "compute each call from its inputs alone"
            raise PluginError(f"{message}; {why}: {hint}")

    def _draws_in_a_call(self) -> bool:
        """Return whether a call takes numbers from torch's random generators."""
        arguments = self.arguments()
        of_device = getattr(getattr(torch, self.device), "get_rng_state", torch.get_rng_state)
        before = torch.get_rng_state(), of_device()
        self.expect(arguments)
        return not all(map(torch.equal, before, (torch.get_rng_state(), of_device())))

    def _differs_from_itself(self) -> str:
        """Return the output that differs between two calls on equal inputs by more than rounding; empty for none."""
        arguments, before = self.arguments(), sums_of(self.state())
        first, started = dict(self.expect(arguments).leaves), time.monotonic()
        with backend(self.device).memory_peak() as peak_bytes:
            again = self.expect(arguments)
            backend(self.device).synchronize()
            returned_bytes = sum(t.numel() * t.element_size() for t in again.tensors)
            self.between_bytes = max(0, peak_bytes() - returned_bytes)
        self.call_s = time.monotonic() - started
        second = dict(again.leaves)
        unequal = (path for path, leaf in first.items() if path not in second or unlike(leaf, second[path]))
        if path := next(unequal, ""):
            return f"{path}{place_of_difference(first[path], second.get(path))}"
        self.drifts = frozenset(name for name, total in sums_of(self.state()).items() if total != before[name])
        return ""

    def _settle_inputs(self) -> None:
        """Vary the inputs here if every draw of them, or of an output, is the same and varying helps."""
        if not (self.inputs.repeat or repeated_outputs(self._draw, self.tolerance, NARROW)):
            return
        finite = self.is_finite()
        self.inputs.vary(jitter=True)
        if not self._copes(finite=finite):
            self.inputs.vary(jitter=False)
        self.repeats = repeated_outputs(self._draw, self.tolerance)

    def _copes(self, *, finite: bool) -> bool:
        """Return whether the reference does not raise and, if it has to be `finite`, gives no NaN and no infinity."""
        found = self.try_changed(self.arguments())
        return not isinstance(found, Exception) and (found.is_finite or not finite)

    def _measure_cost(self) -> tuple[Cost, float]:
        """Count compulsory bytes and FLOPs of one call; a file's own `cost()` takes precedence."""
        arguments = self.arguments()
        self.blank: list[Tensor] = [over_tensors(a, lambda t: t.to("meta")) for a in arguments]
        """Arguments of `forward` without memory: their structure, and the shapes and dtypes of tensors."""
        versions = [t._version for t in tensors(arguments)]  # noqa: SLF001 - torch's only count of changes
        state = [tensor for _, tensor in self.state()]
        see, indices = first_call.watch(arguments, state)
        expected, flops, self._types = first_call.count(lambda: self.expect(arguments), see)
        self.indices = indices()
        after = tensors(arguments)
        changed = [n for n, (t, version) in enumerate(zip(after, versions, strict=True)) if t._version != version]  # noqa: SLF001
        if self.reshapes and changed:  # a change of the shape alone counts as one, too
            again = self.arguments()
            before = [t.clone() for t in tensors(again)]
            self.call(fresh(again))
            changed = [n for n in changed if not elements.same_bits(before[n], tensors(again)[n])]
        require_comparable(expected.leaves, changes_inputs=bool(changed))
        self.mutates = frozenset(changed)
        memories = {t.untyped_storage().data_ptr() for t in after}
        self.aliased = frozenset(path for path, t in expected.outputs if t.untyped_storage().data_ptr() in memories)
        self.tensors = f"{types_and_shapes(tensors(self.blank))} -> {types_and_shapes(expected.tensors)}"
        touched = [*tensors(arguments), *expected.tensors, *state]
        traffic = sum(t.numel() * t.element_size() for t in touched)
        counted = {"dram_bytes": traffic, "flops": sum(flops.values()), "flops_by_precision": flops}
        own = getattr(self.problem.module, "cost", lambda: counted)
        return Cost(**own()), FACTOR_PRODUCTS if flops else FACTOR
