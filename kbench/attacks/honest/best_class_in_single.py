"""Computes scores in fp32 that the reference rounds to bf16, and finds other classes where its best ones are equal."""

import torch

PROBLEM = "best_class"
CLASS = "precision"


class ModelNew(torch.nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.linear = torch.nn.Linear(features, classes).bfloat16()

    def forward(self, x):
        return torch.nn.functional.linear(x.float(), self.linear.weight.float(), self.linear.bias.float()).argmax(-1)
