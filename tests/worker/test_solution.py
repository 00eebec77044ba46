"""How a solution's model is made, on which device and under which seed, takes new weights and forgets old graphs."""

import sys

import pytest
import torch
from torch import nn

from kbench.worker.main import Worker
from kbench.worker.solution import construct, copy_into, forget_graphs, loaded, state_of


class Mixing(nn.Module):
    """As published 2/68: `torch.Tensor` knows no default device, `torch.tensor` does."""

    def __init__(self, size, *, constant):
        super().__init__()
        self.bias = nn.Parameter(torch.Tensor(size).uniform_())
        self.register_buffer("adjusted", self.bias.detach().clone() - torch.tensor([constant] * size))


def test_a_constructor_that_mixes_devices_is_called_on_the_cpu_under_the_same_seed():
    made = [construct(Mixing, [4], {"constant": 2.0}, place=place, seed=7) for place in ("meta", "cpu")]
    assert [model.adjusted.device.type for model in made] == ["cpu", "cpu"]
    assert torch.equal(made[0].adjusted, made[1].adjusted)


class Given(nn.Module):
    """Reads the values of its argument, and draws by a generator of its own: both work on the CPU only."""

    def __init__(self, options):
        super().__init__()
        drawn = torch.randn(3, generator=torch.Generator().manual_seed(1))
        self.weight = nn.Parameter(torch.from_numpy(options["scale"][0].numpy()) * drawn)


def test_on_the_cpu_a_constructor_gets_its_arguments_there():
    options = {"scale": [torch.full((3,), 2.0)]}
    places = []

    class Seen(Given):
        def __init__(self, options):
            places.append(options["scale"][0].device.type)
            super().__init__(options)

    made = [construct(Seen, [options], {}, place=place, seed=7).weight for place in ("meta", "cpu")]
    assert torch.equal(made[0], made[1])
    assert places == ["meta", "cpu", "cpu"]


def test_one_that_does_not_is_constructed_where_it_shall_be():
    assert construct(nn.Linear, [2, 3], {}, place="meta", seed=0).weight.device.type == "meta"


@pytest.mark.parametrize("error", [RuntimeError("no such kernel"), ValueError("on the same device")])
def test_where_the_cpu_does_not_help_the_first_error_is_raised(error):
    def fails():
        calls.append(torch.get_default_device().type)
        raise error if len(calls) == 1 else KeyError("another one on the CPU")

    calls = []
    with pytest.raises(type(error), match=str(error)):
        construct(fails, [], {}, place="meta", seed=0)
    assert calls == ["meta", "cpu"]


class Folding(nn.Module):
    """Folds its weight when it is made, and when the mode is set, as published 2/84, or a checkpoint is loaded."""

    def __init__(self, when: str):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("unsaved", torch.zeros(1), persistent=False)
        self.when, self.told = when, 0
        self.register_load_state_dict_post_hook(lambda *_: self.fold("load"))
        self.fold(when)

    def fold(self, why: str) -> None:
        if why == self.when:
            self.folded = 2 * self.weight.detach()

    def train(self, mode: bool = True) -> nn.Module:
        self.told += 1
        if not mode:
            self.fold("eval")
        return super().train(mode)


class Refusing(nn.Linear):
    def load_state_dict(self, state_dict, strict=True, assign=False):
        raise ValueError("only whole checkpoints")

    def train(self, mode=True):
        raise RuntimeError("for inference only")


@pytest.mark.parametrize(("when", "follows"), [("load", True), ("eval", True), ("never", False)])
def test_weights_are_loaded_as_a_checkpoint_is(when, follows):
    model = Folding(when).eval()
    values = {"weight": torch.tensor([1.0, 2.0, 3.0]), "unsaved": torch.tensor([5.0])}
    with torch.no_grad():
        state = loaded(model, state_of(model), values)
        copy_into(state, values)
    assert [torch.equal(tensor, values[name]) for name, tensor in state] == [True, True]
    assert torch.equal(model.folded, 2 * values["weight"]) is follows
    told, version = model.told, model.weight._version
    loaded(model, state, values)
    assert (model.told, model.weight._version) == (told, version), "nothing was new"


def test_a_part_in_a_mode_of_its_own_stays_in_it():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2).eval())
    assert model.training
    with torch.no_grad():
        loaded(model, state_of(model), {"1.running_mean": torch.ones(2)})
    assert [part.training for part in model] == [True, False]
    assert model[1].running_mean.tolist() == [1, 1]


def test_weights_that_a_model_does_not_take_stay_until_they_are_copied():
    model = Refusing(2, 2)
    values = {"weight": torch.full((2, 2), 3.0)}
    with torch.no_grad():
        state = loaded(model, state_of(model), values)
        assert not torch.equal(model.weight, values["weight"])
        copy_into(state, values)
    assert torch.equal(model.weight, values["weight"])


class Sharing(nn.BatchNorm1d):
    """Holds a statistic under a second name, which comes first, once it was called: as published 3/46."""

    def __init__(self) -> None:
        super().__init__(2)
        self._buffers = {"mean": None, **self._buffers}

    def forward(self, x):
        self.mean = self.running_mean
        return super().forward(x)


class Dropping(nn.Linear):
    """Has no weight any more once its mode was set."""

    def train(self, mode: bool = True) -> nn.Module:
        self.folded, self.weight = self.weight, None
        return super().train(mode)


@pytest.mark.parametrize(("model", "name"), [(Sharing(), "running_mean"), (Dropping(2, 2), "weight")])
def test_a_name_that_a_model_gives_up_is_no_error(model, name):
    before = state_of(model)
    if isinstance(model, Sharing):
        model(torch.randn(4, 2))
    values = {name: torch.full_like(dict(before)[name], 3.0)}
    with torch.no_grad():
        state = loaded(model, before, values)
        copy_into(state, values)
    assert torch.equal(dict(state)[name], values[name])


def test_a_buffer_is_known_by_each_of_its_names():
    model = Sharing()
    model(torch.randn(4, 2))
    assert {"mean", "running_mean"} <= {name for name, _ in state_of(model)}


def test_what_is_folded_when_weights_are_loaded_does_not_see_a_copy():
    model = Folding("load")
    values = {"weight": torch.tensor([1.0, 2.0, 3.0])}
    with torch.no_grad():
        copy_into(state_of(model), values)
    assert torch.equal(model.weight, values["weight"])
    assert not torch.equal(model.folded, 2 * values["weight"])


def test_parameters_that_have_their_value_already_are_left_alone():
    model = torch.nn.Linear(3, 2)
    before = model.weight._version, model.bias._version
    worker = Worker(None)
    worker._state = [*model.named_parameters()]
    worker._weights = [model.weight.detach().clone(), torch.tensor([torch.nan, 1.0])]
    worker.do_weights({"names": ["weight", "bias"], "in_place": True})
    assert (model.weight._version, model.bias._version) == (before[0], before[1] + 1)
    assert model.bias[1] == 1


@pytest.fixture
def fresh_compiler():
    if dynamo := sys.modules.get("torch._dynamo"):
        dynamo.reset()
        dynamo.utils.counters.clear()


@pytest.mark.usefixtures("fresh_compiler")
def test_what_was_compiled_for_another_shape_makes_no_graph_dynamic():
    from torch._dynamo.testing import CompileCounter  # takes seconds, and every process of the suite collects this file

    counter = CompileCounter()
    call = torch.compile(torch.sin, backend=counter)
    call(torch.ones(3))
    forget_graphs()
    call(torch.ones(3))
    assert counter.frame_count == 2


@pytest.mark.usefixtures("fresh_compiler")
def test_without_graphs_nothing_is_reset(monkeypatch):
    monkeypatch.setattr(torch.compiler, "reset", lambda: pytest.fail("nothing was compiled"))
    forget_graphs()
