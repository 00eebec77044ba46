"""Computes as much of a text as is compared."""

import torch
from torch import nn

PROBLEM = "report_in_words"
CLASS = "trivial"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 23"


class ModelNew(nn.Module):
    def forward(self, x):
        return {"sum": x.sum(-1), "text": " ".join(f"{v:.2f}" for v in x[:25].amax(-1).tolist()) + " and so on"}
