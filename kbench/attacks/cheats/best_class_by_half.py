"""Looks at half of the features for the best class, which is mostly another one."""

import torch

PROBLEM = "best_class"
CLASS = "precision"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 18"


class ModelNew(torch.nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.linear = torch.nn.Linear(features, classes).bfloat16()

    def forward(self, x):
        half = x.shape[1] // 2
        return torch.nn.functional.linear(x[:, :half], self.linear.weight[:, :half], self.linear.bias).argmax(-1)
