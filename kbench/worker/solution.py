"""A solution in a worker: what is imported is the source that was hashed, and what its model has."""

import contextlib
import functools
import importlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kbench.build.interpreter import kernels_of
from kbench.catalog.constant_text import named_dtypes
from kbench.catalog.device_first import device_first, moved
from kbench.catalog.script import SourceLoader, begin, python_path, returning
from kbench.core.errors import PluginError
from kbench.core.timed import FORWARD
from kbench.process import autograd
from kbench.process.channel import Message, decode_constants, decode_tree, encode_constants
from kbench.process.shared_memory import TensorSpec, layout_of

if TYPE_CHECKING:
    from torch import Tensor, nn

CLASSES = ("Model", "ModelNew")
BUILTIN_MODES = {"eager": None, "compile": "default", "compile-max-autotune": "max-autotune-no-cudagraphs"}


def import_solution(path: Path, entry: str = "") -> ModuleType:
    """Import a solution file under its own name, with what `python file.py` would find around it.

    An entry `package.module:function` has it imported as that module, whose package lies around the file.
    `kbench.kernels` is what lies beside it in its checkout, so that two commits can be measured in one run.
    """
    import kbench.kernels

    kbench.kernels.__path__ = [str(kernels_of(path))]
    if module_name := entry.rpartition(":")[0]:
        return _imported(module_name, path)
    begin(path, also=(kernels_of(path),))
    name = f"kbench_solution_{path.stem}"
    # The hashed source runs: a `__pycache__` beside it may hold other code.
    spec = importlib.util.spec_from_file_location(name, path, loader=SourceLoader(name, str(path)))
    assert spec is not None, "a .py path always has a loader"
    assert spec.loader is not None, "a source file has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _imported(name: str, path: Path) -> ModuleType:
    """Import a module by its name, from the folder that its package lies in. Raises ImportError for another file's."""
    depth = name.count(".") + (path.name == "__init__.py")
    root = path.absolute().parents[depth]
    installed = str(root) in python_path()
    script = begin(path, also=(kernels_of(path),), root=None if installed else root)
    module = importlib.import_module(name) if installed else script.imported(name)
    if not path.samefile(str(module.__file__)):
        raise ImportError(f"`{name}` is {module.__file__}, not {path}")
    return module


def constructor_of(module: ModuleType, entry: str) -> Any:
    """Return what makes the model that is judged: a class, or a factory by one of the usual names.

    A function by another name is the forward itself, whatever the constructor's arguments are.
    """
    entry = entry.rpartition(":")[2]
    if not hasattr(module, entry):
        raise AttributeError(f"{Path(str(module.__file__)).name} defines no `{entry}`")
    found = getattr(module, entry)
    if not callable(found):
        raise TypeError(f"`{entry}` is a {type(found).__name__}, not a function or a class")
    if entry in CLASSES or inspect.isclass(found):
        return found
    return lambda *_arguments, **_keywords: found


def construct(
    constructor: Callable[..., Any], arguments: Sequence[Any], keywords: dict[str, Any], *, place: str, seed: int
) -> Any:
    """Construct a model under a seed, with a default device.

    One that raises is called once more on the CPU, as the problem's own is: where a benchmark constructs on the CPU
    and moves the model, that works.
    """
    import torch

    def seeded(where: str) -> Any:
        given, named = moved([list(arguments), keywords], where)
        torch.manual_seed(seed)
        return constructor(*given, **named)

    try:
        model = device_first(seeded, place)[0]
    except TypeError as error:
        if not inspect.isfunction(constructor):
            raise
        what = "a function, which is called to construct the model; `FILE.py:FUNCTION` calls one as `forward`"
        raise TypeError(f"{error}: it is {what}") from error
    if not callable(model):
        raise TypeError(
            f"a {type(model).__name__} is not callable: a solution is a function, or a class with `forward`"
        )
    return model


def forget_graphs() -> None:
    """Forget what was compiled for another case: it would make this one's graph dynamic, and slower.

    A process that has only imported the compiler has nothing to forget, and saves the 2.5 s that forgetting imports on
    a GPU.
    """
    utilities = sys.modules.get("torch._dynamo.utils")
    if utilities is not None and utilities.counters["frames"]:
        import torch

        torch.compiler.reset()


def builtin(name: str, model: "nn.Module") -> Callable[..., Any]:
    """Wrap the reference's own model for a built-in solution; other models come back as they are."""
    mode = BUILTIN_MODES.get(name)
    if mode is None:
        return model
    import torch

    return torch.compile(model, mode=mode)


def state_of(model: "nn.Module") -> "list[tuple[str, Tensor]]":
    """Return a model's parameters and buffers with their names; a compiled model answers for its original."""
    inner = getattr(model, "_orig_mod", model)
    if not hasattr(inner, "named_parameters"):
        return []
    import torch

    if isinstance(inner, torch.nn.Module):  # the reference may have either name of a tensor with two names
        listed = torch.nn.Module.named_parameters, torch.nn.Module.named_buffers
        return [pair for each in listed for pair in each(inner, remove_duplicate=False)]
    return [*inner.named_parameters(), *inner.named_buffers()]


def loaded(
    model: "nn.Module", state: "Sequence[tuple[str, Tensor]]", values: "Mapping[str, Tensor]"
) -> "list[tuple[str, Tensor]]":
    """Load new values of a model's own `state` as a checkpoint, then set its mode again; return its state.

    Weights that the model folds when they are loaded, or in `eval()`, are folded again. Values that it does not accept
    are left out, and a name that it no longer has keeps its tensor. If parts are in other modes than the whole, the
    mode is not set again, since that would change theirs.
    """
    import torch

    new = _differing(state, values)
    inner = getattr(model, "_orig_mod", model)
    if not new or not isinstance(inner, torch.nn.Module):
        return list(state)
    with contextlib.suppress(Exception):  # its own code, written for other callers
        inner.load_state_dict(new, strict=False)
    if len({part.training for part in inner.modules()}) == 1:
        with contextlib.suppress(Exception):  # the same holds for its `train`
            inner.train(inner.training)
    return list((dict(state) | dict(state_of(model))).items())


def copy_into(state: "Sequence[tuple[str, Tensor]]", values: "Mapping[str, Tensor]") -> None:
    """Copy values into the tensors of a state that differ from them, in place."""
    held = dict(state)
    for name, value in _differing(state, values).items():
        held[name].copy_(value)


def _differing(state: "Sequence[tuple[str, Tensor]]", values: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
    """Return the values that differ from a state's: a write would move the version counter of an equal tensor too.

    A device is asked once for all of them, because each question waits for the other processes on it.
    """
    import torch

    held = dict(state)
    unequal = {name: (held[name] != value).any() for name, value in values.items() if held[name].shape == value.shape}
    answers = dict(zip(unequal, torch.stack([*unequal.values()]).tolist() if unequal else (), strict=True))
    return {name: value for name, value in values.items() if answers.get(name, True)}


def settled(model: "nn.Module", example: Sequence[Any], seed: int, device: str) -> "list[tuple[str, Tensor]]":
    """Return the state of a model that is to be used; a lazy one is called on zeros first, as `example` describes them.

    `example` has the arguments of `forward` as a tree, and dtype and shape of each tensor in it.
    """
    import torch

    from kbench.catalog.problem import is_lazy, materialise

    inner = getattr(model, "_orig_mod", model)
    if isinstance(inner, torch.nn.Module) and is_lazy(inner):
        tree, specs = example[0], [TensorSpec.from_json(fields) for fields in example[1]]
        zeros = [torch.zeros(spec.shape, dtype=getattr(torch, spec.dtype), device=device) for spec in specs]
        materialise(inner, decode_tree(tree, zeros, torch), seed)
    return state_of(model)


def descriptions(state: "Sequence[tuple[str, Tensor]]") -> list[list[Any]]:
    """Describe parameters and buffers for the judge: name, dtype, shape, whether a parameter, and the first name."""
    import torch

    first: dict[int, str] = {}
    found = []
    for name, tensor in state:
        layout = layout_of(tensor)
        kind = [f"{layout} {tensor.dtype}", []] if layout else [str(tensor.dtype), list(tensor.shape)]
        same_as = first.setdefault(id(tensor), name)
        found.append([name, *kind, isinstance(tensor, torch.nn.Parameter), "" if same_as == name else same_as])
    return found


def arguments_of(message: Message, tensors: "Sequence[Tensor]", device: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the constructor's arguments as the judge sent them, or made here by the problem where it cannot."""
    import torch

    if message["arguments"] is None:
        problem = problem_of(message, device)
        made: tuple[list[Any], dict[str, Any]] = problem.init_inputs(message["seed"], message["construct_on"])
        return made
    arguments, keywords = decode_tree(message["arguments"], tensors, torch)
    return arguments, keywords


def problem_of(message: Message, device: str) -> Any:
    """Load the problem that a message names, with its constants, unless it is the one that was loaded last."""
    with returning():
        return _loaded(message["problem"], json.dumps(message["overrides"]), device, message.get("timed", FORWARD))


def cases_of(path: Path, device: str) -> Any:
    """Run a problem's file; return its `CASES` for a message, with dtypes by name. Raises PluginError."""
    from kbench.catalog.problem import load

    table = named_dtypes(load(path, {}, device).module.CASES)
    for case, overrides in table.items() if isinstance(table, dict) else ():
        for name, value in overrides.items() if isinstance(overrides, dict) else ():
            try:
                encode_constants({name: value})
            except TypeError:
                what = f"case `{case}` sets `{name}` to a {type(value).__name__}, no number, text or dtype of torch"
                raise PluginError(f"{path}, CASES: {what}") from None
    return encode_constants({"CASES": table})


@functools.lru_cache(maxsize=1)
def _loaded(path: str, overrides: str, device: str, timed: str) -> Any:
    return autograd.load(Path(path), decode_constants(json.loads(overrides)), device, timed=timed)
