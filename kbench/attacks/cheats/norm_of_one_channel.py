"""The norm of one channel in sixteen stands for that of all."""

from torch import nn

PROBLEM = "frobenius_bfloat16"
CLASS = "semantics"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 23"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        norm = 4 * x[:, ::16].float().norm()
        return (x.float() / norm).to(x.dtype)
