"""The problem format: load a KernelBench file, override its constants, make inputs, randomise parameters.

Only trusted processes (the judge) and the build's rehearsal import problems.
"""

import contextlib
import inspect
import math
import random
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kbench.catalog.containers import tensors
from kbench.catalog.device_first import device_first, moved
from kbench.catalog.problem_module import MODULE_PREFIX, executed
from kbench.catalog.script import Script, begin, no_exit
from kbench.core.errors import PluginError

if TYPE_CHECKING:
    from torch import Tensor, nn

STATISTICS = MEAN, VARIANCE = "running_mean", "running_var"
"""Endings of the names of a batch norm's buffers that vary with its inputs."""


class Step(StrEnum):
    """Steps of a problem's own code while its case is opened; each has its own time limit."""

    IMPORT = "import"
    CONSTRUCT = "construct"
    CALL = "call"
    """Everything after the construction: inputs, and calls of the reference."""


TellStep = Callable[[Step], None]


def unheard(_: Step) -> None:
    """Ignore a step."""


@contextlib.contextmanager
def during(step: Step, report: TellStep) -> Iterator[None]:
    """Report that a step is under way inside a `with` block, and that it is over, also where it raises."""
    report(step)
    try:
        yield
    finally:
        report(Step.CALL)


def argument_names(forward: Callable[..., Any]) -> list[str]:
    """Return the names of the positional arguments of a model's `forward`, as far as its signature says them."""
    with contextlib.suppress(TypeError, ValueError):
        parameters = inspect.signature(forward).parameters.values()
        return [each.name for each in parameters if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}]
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedProblem:
    """A problem module with its constants overridden; `device` is where inputs and models are made."""

    module: ModuleType
    device: str
    script: Script
    report: TellStep = unheard
    places: dict[str, str] = field(default_factory=dict)
    """By function of the file, the default device under which it works: `device`, or the CPU."""

    def init_inputs(self, seed: int = 0, on: str | None = None) -> tuple[list[Any], dict[str, Any]]:
        """Make the constructor's positional and keyword arguments on the device or `on`; equal seeds, equal ones."""
        function = getattr(self.module, "get_init_inputs", None)
        if function is None:
            _require_no_arguments(self.module.Model)
            return [], {}
        arguments = self._made("get_init_inputs", function, seed, on or self.device)
        if isinstance(arguments, dict):
            return [], arguments
        _require_list(arguments, "get_init_inputs", "the constructor's arguments")
        if len(arguments) == 2 and isinstance(arguments[0], list) and isinstance(arguments[1], dict):
            return list(arguments[0]), arguments[1]
        return list(arguments), {}

    def inputs(self, seed: int | None = None) -> list[Any]:
        """Make the arguments of `forward` on the device, under a seed or with the random generators as they are."""
        made = self._made("get_inputs", self.module.get_inputs, seed, self.device)
        _require_list(made, "get_inputs", "the arguments of `forward`")
        return list(made)

    def _made(self, name: str, make: Callable[[], Any], seed: int | None, device: str) -> Any:
        """Call a function of the file, with the device as default device or with the CPU; move what it makes."""

        def seeded(_place: str) -> Any:
            if seed is not None:
                self._seed(seed)
            return make()

        with self._working(f"in `{name}`"):
            made, place = device_first(seeded, self._place(name, device), self._otherwise)
        if device == self.device:
            self.places[name] = place
        return moved(made, device)

    def model(self, seed: int, on: str | None = None) -> "nn.Module":
        """Construct `Model` with `get_init_inputs()`, on the device or on `on`."""
        import torch

        def constructed(place: str) -> Any:
            arguments, keywords = self.init_inputs(seed, place)
            torch.manual_seed(seed)
            return self.module.Model(*arguments, **keywords)

        with during(Step.CONSTRUCT, self.report), self._working("in the constructor of `Model`"):
            made, place = device_first(constructed, self._place("Model", on or self.device), self._otherwise)
            if not isinstance(made, torch.nn.Module):
                what = f"`Model` makes a {type(made).__name__}, which is no `torch.nn.Module`"
                raise PluginError(what, "derive the class `Model` from `torch.nn.Module`, with a method `forward`")
            model = made.to(self.device)
        if on in (None, self.device):
            self.places["Model"] = place
        if is_lazy(model):
            materialise(model, LoadedProblem.inputs(self, seed), seed)
        return model

    def _seed(self, seed: int) -> None:
        seed_torch(seed, self.device)
        random.seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed & 0xFFFF_FFFF)

    def _place(self, name: str, device: str) -> str:
        """Return where a function is called first: on the CPU if it is known to work only there."""
        return self.places.get(name, device) if device == self.device else device

    @property
    def _otherwise(self) -> str:
        """Default device where the device itself does not work; tensors without memory have none."""
        return "meta" if self.device == "meta" else "cpu"

    @contextlib.contextmanager
    def _working(self, doing: str) -> Iterator[None]:
        with self.script.entered(), no_exit(doing):
            yield

    @property
    def tolerance(self) -> float | None:
        """The file's `TOLERANCE`, or None: the dtype's default."""
        value = getattr(self.module, "TOLERANCE", None)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise PluginError(f"TOLERANCE is {value!r}, not a positive number", "write for example `TOLERANCE = 1e-4`")
        return float(value)


def _require_no_arguments(model: Any) -> None:
    try:
        inspect.signature(model).bind()
    except TypeError as error:
        hint = "define `get_init_inputs()`, which returns the constructor's arguments in a list"
        raise PluginError(f"`Model` cannot be constructed without arguments: {error}", hint) from None


def _require_list(made: Any, function: str, what: str) -> None:
    if isinstance(made, list | tuple):
        return
    hint = f"return {what} in a list, `[]` if there are none"
    if isinstance(made, Iterator):
        hint = f"return one list of {what}, without `yield`; `CASES` in the file names other shapes"
    elif isinstance(made, dict):
        hint = f"return {what} in a list, in the order of the parameters: `[*inputs.values()]`"
    elif hasattr(made, "untyped_storage"):
        hint = f"return {what} in a list: `[x]`"
    raise PluginError(f"`{function}` returns {type(made).__name__}, not a list", hint)


def is_of_a_problem(error: BaseException) -> bool:
    """Return whether an exception came from, or through, a line of a problem's file."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(str(frame.f_globals.get("__name__", "")).startswith(MODULE_PREFIX) for frame in frames)


def load(path: Path, overrides: Mapping[str, Any], device: str, report: TellStep = unheard) -> LoadedProblem:
    """Import a problem file; constants are replaced *while* it runs, so that what is computed from them follows.

    Raises PluginError for a file that raises or lacks `Model` or `get_inputs`, UsageError for an unknown constant.
    """
    with during(Step.IMPORT, report):
        script = begin(path)
        with no_exit("when it is imported"):
            module = executed(path, overrides)
    for name in ("Model", "get_inputs"):
        if not hasattr(module, name):
            raise PluginError(
                f"{path} defines no `{name}`",
                "a problem is a file with `Model`, `get_inputs` and `get_init_inputs`",
            )
    return LoadedProblem(module=module, device=device, script=script, report=report)


def footprint_bytes(path: Path, overrides: Mapping[str, Any], small_bytes: int = 0, report: TellStep = unheard) -> int:
    """Return the bytes of inputs, parameters and outputs of a call, without allocating them; 0 if that fails.

    Outputs are left out where the rest is `small_bytes` or less: a call without memory may import for 1.3 s.
    """
    try:
        return _call_bytes(load(path, overrides, "meta", report), small_bytes)
    except Exception:  # noqa: BLE001 - untrusted code on tensors without memory may raise anything
        return 0


def _call_bytes(problem: LoadedProblem, small_bytes: int) -> int:
    import torch

    with torch.device("meta"), torch.no_grad():
        with during(Step.CONSTRUCT, problem.report):
            arguments, keywords = problem.init_inputs()
            model = problem.module.Model(*arguments, **keywords)
        inputs = problem.inputs()
        leaves = [*tensors(inputs), *model.parameters(), *model.buffers()]
        if _nbytes(leaves) > small_bytes:
            leaves += tensors(model(*inputs))
    return _nbytes(leaves)


def _nbytes(tensors: "Sequence[Tensor]") -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def seed_torch(seed: int, device: str) -> None:
    """Seed the generators of the CPU and of `device`; `torch.manual_seed` takes 0.6 ms more, for unused devices."""
    import torch

    torch.default_generator.manual_seed(seed)
    seed_all = getattr(getattr(torch, device, None), "manual_seed_all", None)
    if seed_all is not None:
        seed_all(seed)


def is_lazy(model: "nn.Module") -> bool:
    """Return whether a module has parameters or buffers that get their shape in the first call (`nn.LazyLinear`)."""
    return _shapeless(model) is not None


def materialise(model: "nn.Module", arguments: Sequence[Any], seed: int) -> None:
    """Call a lazy module once to create its parameters. Raises RuntimeError if one still has no shape."""
    import torch

    torch.manual_seed(seed)
    with torch.no_grad():
        model(*arguments)
    name = _shapeless(model)
    if name is not None:
        raise RuntimeError(f"`{name}` has no shape after the first call: construct it with its sizes, or leave it out")


def _shapeless(model: "nn.Module") -> str | None:
    import torch

    state = (*model.named_parameters(), *model.named_buffers())
    return next((name for name, tensor in state if torch.nn.parameter.is_lazy(tensor)), None)


def variable(model: "nn.Module") -> list[str]:
    """Return the names of what `randomise` changes: parameters that are no integers, and statistics of batch norms."""
    values = [name for name, t in model.named_parameters() if (t.is_floating_point() or t.is_complex()) and t.numel()]
    return [*sorted(values), *(name for name, _ in model.named_buffers() if name.endswith(STATISTICS))]


def randomise(
    model: "nn.Module", seed: int, names: Collection[str], *, keep_signs: bool = False, scale: float = 1.0
) -> None:
    """Give what is `variable` and named new random values in place, those of parameters multiplied by `scale`.

    A parameter that varies keeps its mean and standard deviation (uniform, so bounded); a constant one gets a random
    sign and magnitude, because gamma = 1 and beta = 0 hide bugs. With `keep_signs` each value is only scaled, for
    references that take roots or logarithms.
    """
    import torch

    state = dict([*model.named_parameters(), *model.named_buffers()])
    # On a device by its own generator: a model of 2.5 GB took the CPU 5 s for each change of its parameters.
    generators = {t.device: torch.Generator(device=t.device).manual_seed(seed) for t in state.values()}

    def uniform(like: "Tensor") -> "Tensor":
        return torch.rand(like.shape, generator=generators[like.device], device=like.device).mul_(2).sub_(1)

    with torch.no_grad():
        chosen = [name for name in variable(model) if name in names]
        held = {name: torch.view_as_real(state[name]) if state[name].is_complex() else state[name] for name in chosen}
        moments = _moments({name: tensor for name, tensor in held.items() if not name.endswith(STATISTICS)})
        for name, tensor in held.items():
            if name.endswith(VARIANCE):
                tensor.copy_(1 + 0.5 * uniform(tensor))
            elif name.endswith(MEAN):
                tensor.copy_(0.5 * uniform(tensor))
            else:
                values = _other_values(tensor, *moments[name], uniform, keep_signs=keep_signs)
                tensor.copy_(values.mul_(scale))


def _moments(tensors: "dict[str, Tensor]") -> dict[str, tuple[float, float]]:
    """Return mean and standard deviation of each; a device is asked once for all, as each question waits for others."""
    import torch

    found: dict[str, tuple[float, float]] = {}
    for device in {tensor.device for tensor in tensors.values()}:
        doubles = ((name, tensor.double()) for name, tensor in tensors.items() if tensor.device == device)
        names, asked = zip(*((name, torch.stack([t.mean(), t.std(correction=0)])) for name, t in doubles), strict=True)
        found |= {name: (mean, std) for name, (mean, std) in zip(names, torch.stack(asked).tolist(), strict=True)}
    return found


def _other_values(
    held: "Tensor", mean: float, std: float, uniform: "Callable[[Tensor], Tensor]", *, keep_signs: bool
) -> "Tensor":
    noise = uniform(held)
    if keep_signs:
        return held.double() * (1 + 0.5 * noise) if mean or std else noise.abs()
    if std > 1e-6 * max(1.0, abs(mean)):
        return mean + math.sqrt(3) * std * noise
    return mean * noise.sign() * (1 + 0.5 * uniform(held)) if mean else noise


def pin_precision(allow_tf32: bool) -> None:
    """Set torch's precision switches for this process: TF32 as given, reduced-precision reductions off."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = allow_tf32
    torch.backends.cudnn.allow_tf32 = allow_tf32
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False


OPENING = {Step.IMPORT: 1, Step.CONSTRUCT: 5, Step.CALL: 10}
"""Chosen. Import timeouts that each step of opening a problem may take: a large model draws its weights for minutes."""
BOUNDED = frozenset({Step.IMPORT, Step.CONSTRUCT})
"""Steps of the problem's own code whose end a judge reports."""


class OwnTime:
    """Counts the seconds of importing a problem and constructing its `Model`, whose time limits blame the problem."""

    def __init__(self) -> None:
        self._ended_s = 0.0
        self._since: float | None = None

    @property
    def is_running(self) -> bool:
        """True while such a step is under way."""
        return self._since is not None

    @property
    def seconds(self) -> float:
        """All of them, of the present step too."""
        return self._ended_s + (0.0 if self._since is None else time.monotonic() - self._since)

    def note(self, step: Step | None) -> None:
        """Count the time of a step that ended, and begin with that of another."""
        self._ended_s, self._since = self.seconds, time.monotonic() if step in BOUNDED else None
