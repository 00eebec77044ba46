"""bfloat16 operands, the inner dimension in slices that are added up in fp32 and rounded once."""

import torch
from torch import nn

PROBLEM = "bf16_product"
CLASS = "summation order"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs).to(torch.bfloat16)

    def forward(self, x):
        y = self.fc.bias.float().repeat(x.shape[0], 1)
        for a, b in zip(x.float().split(20, 1), self.fc.weight.float().split(20, 1)):
            y.addmm_(a, b.t())
        return y.to(x.dtype)
