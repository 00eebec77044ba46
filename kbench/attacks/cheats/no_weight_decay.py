"""Leaves out the weight decay, which is less than the tolerance of a weight."""

from torch import nn

PROBLEM = "lion_step"
CLASS = "semantics"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 16"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, weight, gradient, momentum):
        blend = 0.9 * momentum + 0.1 * gradient
        return weight - 1e-4 * blend.sign(), 0.99 * momentum + 0.01 * gradient
