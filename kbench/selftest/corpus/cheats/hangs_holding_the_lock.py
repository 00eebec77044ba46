"""Never returns and never gives up the interpreter's lock."""

import ctypes

from torch import nn

PROBLEM = "gelu"
CLASS = "resources"
EXPECT = ("call_timeout",)
OPTIONS = {"call_timeout_s": 4.0}
CATALOGUE = "rigor 16"


class ModelNew(nn.Module):
    def forward(self, x):
        while True:
            ctypes.PyDLL(None).sleep(3600)
