"""Makes double precision torch's default type while it is constructed and called, and puts it back."""

import torch
from torch import nn

PROBLEM = "layer_norm"
CLASS = "precision"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        self.epsilon = torch.tensor(1e-5)
        torch.set_default_dtype(before)

    def forward(self, x):
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            wide = x.to(torch.get_default_dtype())
            variance, mean = torch.var_mean(wide, dim=-1, keepdim=True, correction=0)
            y = (wide - mean) / torch.sqrt(variance + self.epsilon.to(x.device))
        finally:
            torch.set_default_dtype(before)
        return y.float() * self.norm.weight + self.norm.bias
