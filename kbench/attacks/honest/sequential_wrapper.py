"""nn.Sequential of the reference's layer and nothing else: names differ."""

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "weights"


class ModelNew(nn.Sequential):
    def __init__(self, inputs, outputs):
        super().__init__(nn.Linear(inputs, outputs))
