"""Inputs and models are made on the device, else on the CPU; then every tensor is moved. `meta` plays the device."""

import collections
import dataclasses
import re
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch

from kbench.catalog.device_first import device_first, moved
from kbench.catalog.problem import LoadedProblem, load
from kbench.core.errors import PluginError

Pair = collections.namedtuple("Pair", "left right")  # noqa: PYI024 - as a problem has it


@dataclasses.dataclass(frozen=True)
class Config:
    weight: torch.Tensor
    name: str = "x"
    double: Any = dataclasses.field(init=False, default=None)


def made(place: str) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.rand(3)


def fails_on(*places: str):
    def make(place: str) -> torch.Tensor:
        if torch.get_default_device().type in places:
            raise ValueError(f"not on {place}")
        return made(place)

    return make


def test_it_is_made_on_the_device_else_on_the_cpu_under_the_same_seed():
    value, place = device_first(made, "meta")
    assert (value.device.type, place) == ("meta", "meta")
    value, place = device_first(fails_on("meta"), "meta")
    assert place == "cpu"
    assert torch.equal(value, made("cpu"))
    with pytest.raises(ValueError, match="not on meta"):
        device_first(fails_on("meta", "cpu"), "meta")


def test_a_device_without_room_is_not_tried_on_the_cpu():
    def make(place: str) -> None:
        places.append(place)
        raise torch.OutOfMemoryError("CUDA out of memory")

    places: list[str] = []
    with pytest.raises(torch.OutOfMemoryError):
        device_first(make, "meta")
    assert places == ["meta"]


def nest(tensor: torch.Tensor) -> dict[str, Any]:
    """Every container that arguments may lie in, by name."""
    return {
        "itself": tensor,
        "a list": [tensor, 1],
        "a tuple": (tensor, "a"),
        "a named tuple": Pair(1, tensor),
        "a dictionary": {"a": {"b": [tensor]}},
        "an ordered dictionary": collections.OrderedDict(a=tensor),
        "a default dictionary": collections.defaultdict(list, a=[tensor]),
        "a namespace": SimpleNamespace(a=SimpleNamespace(b=tensor), c=1),
        "a dataclass": Config(weight=tensor),
        "a list of dataclasses": [Config(weight=tensor), Config(weight=tensor)],
        "a packed sequence": torch.nn.utils.rnn.pack_padded_sequence(torch.ones(2, 1, 1), [2]),
    }


def leaves(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        return [value.data]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else None
    inner = vars(value).values() if inner is None and hasattr(value, "__dict__") else inner
    return [leaf for item in inner or () for leaf in leaves(item)]


@pytest.mark.parametrize("name", [*nest(torch.ones(1))])
def test_a_tensor_is_moved_out_of_every_container(name):
    value = nest(torch.from_numpy(numpy.ones((2, 3), "float32")).requires_grad_())[name]
    found = moved(value, "meta")
    assert type(found) is type(value)
    assert [leaf.device.type for leaf in leaves(found)] == ["meta"] * len(leaves(value))
    assert not any(leaf.requires_grad for leaf in leaves(found))


@pytest.mark.parametrize("name", [*nest(torch.ones(1))])
def test_what_is_there_already_stays_the_same_object(name):
    value = nest(torch.ones(2))[name]
    assert moved(value, "cpu") is value or name == "a packed sequence"


def test_a_tensor_that_occurs_twice_stays_one():
    one = torch.ones(2)
    both = moved([one, (one,)], "meta")
    assert both[0] is both[1][0]


SOURCE = """
import random
import numpy
import torch

class Model(torch.nn.Module):
    def __init__(self, *arguments, **keywords):
        super().__init__()
        {constructor}
        self.arguments = arguments

    def forward(self, x):
        return x

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return [{arguments}]
"""


def problem(tmp_path, device: str = "cpu", **parts: str) -> LoadedProblem:
    path = tmp_path / "problem.py"
    path.write_text(SOURCE.format(**{"constructor": "", "inputs": "torch.ones(2)", "arguments": "", **parts}))
    found = load(path, {}, "cpu")
    return dataclasses.replace(found, device=device)


OWN = {
    "an own generator": "torch.rand(3, generator=torch.Generator().manual_seed(7))",
    "a permutation": "torch.randperm(3, generator=torch.Generator().manual_seed(7))",
    "NumPy and back": "torch.from_numpy(torch.rand(3).numpy() * 2)",
    "a number of a tensor": "torch.ones(int(torch.ones(()).item()))",
    "numpy": "[torch.from_numpy(numpy.random.rand(3)), {'a': torch.tensor(numpy.random.rand(2), device='cpu')}]",
    "random": "torch.tensor([random.random()], device='cpu')",
}


@pytest.mark.parametrize("code", [*OWN.values()], ids=[*OWN])
def test_inputs_that_work_on_the_cpu_only_are_made_there_and_moved(tmp_path, monkeypatch, code):
    """A device whose tensors have no values refuses what a GPU refuses, and more."""
    monkeypatch.setattr(LoadedProblem, "_otherwise", "cpu")
    found = problem(tmp_path, "meta", inputs=code)
    drawn = [found.inputs(seed=5) for _ in range(2)]
    assert {leaf.device.type for each in drawn for leaf in leaves(each)} == {"meta"}
    on_cpu = problem(tmp_path, inputs=code)
    assert repr(on_cpu.inputs(seed=5)) == repr(on_cpu.inputs(seed=5))


def test_the_device_is_not_tried_again_once_the_cpu_was_needed(tmp_path, monkeypatch):
    monkeypatch.setattr(LoadedProblem, "_otherwise", "cpu")
    found = problem(tmp_path, "meta", inputs="torch.ones(2).numpy() is None or torch.rand(2)")
    found.inputs(seed=0)
    assert found.places == {"get_inputs": "cpu"}
    found.module.get_inputs = lambda: [torch.get_default_device().type]
    assert found.inputs(seed=0) == ["cpu"]


CONSTRUCTORS = [
    "self.w = torch.nn.Parameter(torch.rand(3, generator=torch.Generator().manual_seed(7)))",
    "self.w = torch.nn.Parameter(torch.tensor(arguments[0].numpy() + 1))",
    "self.w = torch.nn.Parameter(torch.Tensor(3) * arguments[0])",
]


@pytest.mark.parametrize("constructor", CONSTRUCTORS)
def test_a_model_that_works_on_the_cpu_only_gets_its_arguments_there(tmp_path, monkeypatch, constructor):
    monkeypatch.setattr(LoadedProblem, "_otherwise", "cpu")
    model = problem(tmp_path, "meta", constructor=constructor, arguments="torch.rand(3)").model(seed=3)
    assert model.w.device.type == "meta"
    assert model.arguments[0].device.type in {"cpu", "meta"}


def test_constructor_arguments_follow_the_seed(tmp_path):
    found = problem(tmp_path, arguments="[torch.rand(2)], {'a': random.random(), 'b': numpy.random.rand()}")
    first, second, other = (found.init_inputs(seed) for seed in (1, 1, 2))
    assert repr(first) == repr(second) != repr(other)


@pytest.mark.parametrize(
    "code",
    [
        "torch.rand(2, requires_grad=True)",
        "[torch.nn.Parameter(torch.rand(2))]",
        "{'a': (torch.rand(2, requires_grad=True) * 2,)}",
    ],
)
def test_nobody_asked_for_gradients_of_inputs(tmp_path, code):
    found = problem(tmp_path, inputs=code, arguments=code)
    arguments, keywords = found.init_inputs(seed=0)
    assert not any(leaf.requires_grad for leaf in leaves([found.inputs(seed=0), arguments, keywords]))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("for n in (1, 2):\n        yield [torch.ones(n)]", "returns generator, not a list; .*`yield`; `CASES`"),
        ("return map(torch.ones, (1, 2))", "returns map, not a list; .*`CASES`"),
        ("return {'x': torch.ones(2)}", "returns dict, not a list; .*in the order of the parameters"),
        ("return torch.ones(2)", r"returns Tensor, not a list; .*`\[x\]`"),
        ("return None", "returns NoneType, not a list"),
    ],
)
def test_inputs_that_are_no_list_are_told_what_to_return(tmp_path, body, told):
    path = tmp_path / "problem.py"
    path.write_text(
        SOURCE.format(constructor="", inputs="", arguments="").replace(
            "    return []\n\ndef get_init", f"    {body}\n\ndef get_init"
        )
    )
    with pytest.raises(PluginError) as raised:
        load(path, {}, "cpu").inputs(seed=0)
    assert re.match(f"`get_inputs` {told}", f"{raised.value}; {raised.value.hint}")
