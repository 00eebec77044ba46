"""Copies itself deeply and sends its state through pickle and back, then uses the module that it was."""

import copy
import io
import pickle

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "weights"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        stored = io.BytesIO()
        torch.save(self.state_dict(), stored)
        stored.seek(0)
        self.load_state_dict(torch.load(stored))

    def forward(self, x):
        twin = copy.deepcopy(self.fc)
        assert pickle.loads(pickle.dumps((x.shape, str(x.dtype))))
        return twin(x)
