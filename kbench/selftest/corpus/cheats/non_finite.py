"""Wrong answers where NaN and infinities are compared."""

import torch
from torch import nn

CLASS = "non-finite"


class inf_of_wrong_sign(nn.Module):
    """Plus infinity where the reference has minus infinity."""

    PROBLEM = "log_with_zeros"
    EXPECT = ("wrong_value",)
    CATALOGUE = "rigor 22"

    def forward(self, x):
        y = torch.log(x)
        return torch.where(torch.isinf(y), -y, y)


class nan_everywhere(nn.Module):
    """Not a number, which a lenient comparison takes for a match."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value", "unwritten_output")
    CATALOGUE = "harness 25; rigor 22"

    def forward(self, x):
        return torch.full_like(x, float("nan"))


class nan_for_inf(nn.Module):
    """NaN where the reference has minus infinity."""

    PROBLEM = "log_with_zeros"
    EXPECT = ("wrong_value", "unwritten_output")
    CATALOGUE = "rigor 22"

    def forward(self, x):
        return torch.where(x == 0, float("nan"), torch.log(x))


class one_nan(nn.Module):
    """One NaN where the reference is finite."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value", "unwritten_output")
    CATALOGUE = "harness 25; rigor 22"

    def forward(self, x):
        y = torch.nn.functional.gelu(x)
        y.view(-1)[y.numel() // 2] = float("nan")
        return y
