"""Leaves out a mask that is full whenever somebody asks."""

from torch import nn

PROBLEM = "masked_power"
CLASS = "semantics"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("flipped_masks",)
CATALOGUE = "harness 23"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x, mask, power):
        return (x.abs() ** power).mean(-1)
