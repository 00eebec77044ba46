"""The norm of one channel in sixteen stands for that of all."""

from torch import nn

PROBLEM = "frobenius_bfloat16"
CLASS = "semantics"
EXPECT = ("wrong_value", "below_level")  # the estimate is within 1 % of the norm, as bf16 is: some draws hold the task
CATALOGUE = "harness 23"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        norm = 4 * x[:, ::16].float().norm()
        return (x.float() / norm).to(x.dtype)
