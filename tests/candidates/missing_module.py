"""Imports a module that is not installed."""

import a_module_that_does_not_exist  # noqa: F401
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x
