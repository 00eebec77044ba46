"""Packs its weight in the constructor, and again whenever a checkpoint is loaded: not when an optimiser changes it."""

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "weights"
LEVEL = "module"
LACKS = ("updated_in_place",)


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        self.register_load_state_dict_post_hook(lambda model, _: model.pack())
        self.pack()

    def pack(self):
        self.packed = self.fc.weight.detach().t().contiguous()

    def forward(self, x):
        return torch.addmm(self.fc.bias, x, self.packed)
