"""How a solution's model is made: on which device, and under which seed."""

import pytest
import torch
from torch import nn

from kbench.worker.solution import construct


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


def test_one_that_does_not_is_constructed_where_it_shall_be():
    assert construct(nn.Linear, [2, 3], {}, place="meta", seed=0).weight.device.type == "meta"


@pytest.mark.parametrize("error", [RuntimeError("no such kernel"), ValueError("on the same device")])
def test_other_errors_are_the_solutions_own(error):
    def fails():
        calls.append(torch.get_default_device())
        raise error

    calls = []
    with pytest.raises(type(error), match=str(error)):
        construct(fails, [], {}, place="meta", seed=0)
    assert len(calls) == 1
