"""Leaves with success before anything was asked."""

import os

from torch import nn

PROBLEM = "gelu"
CLASS = "protocol"
EXPECT = ("exited", "import_failed")
CATALOGUE = "harness 6; rigor 12"

os._exit(0)


class ModelNew(nn.Module):
    pass
