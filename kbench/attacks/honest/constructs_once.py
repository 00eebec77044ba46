"""Does the task, but a second model in the same process fails: as after a CUDA graph whose capture failed (published 2/5)."""

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "levels"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("second_model",)
SPEED = "fast"

made = []


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        if made:
            raise RuntimeError("Offset increment outside graph capture encountered unexpectedly.")
        made.append(True)
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        return torch.addmm(self.fc.bias, x, self.fc.weight.t())
