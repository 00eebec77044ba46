"""What a worker does with the values of parameters that a judge sends."""

import torch

from kbench.worker.main import Worker


def test_parameters_that_have_their_value_already_are_left_alone():
    model = torch.nn.Linear(3, 2)
    before = model.weight._version, model.bias._version
    worker = Worker(None)
    worker._state = [*model.named_parameters()]
    worker._weights = [model.weight.detach().clone(), torch.tensor([torch.nan, 1.0])]
    worker.do_weights({"names": ["weight", "bias"], "in_place": True})
    assert (model.weight._version, model.bias._version) == (before[0], before[1] + 1)
    assert model.bias[1] == 1
