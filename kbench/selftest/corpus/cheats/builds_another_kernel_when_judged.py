"""Has a right kernel built, and loads another one by the same name where it is judged: the old build must not stand in."""

import ctypes
import os

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

PROBLEM = "gelu"
CLASS = "escape"
EXPECT = ("build_failed",)
CATALOGUE = "rigor 15"
DEVICES = ("cpu",)

IS_JUDGED = "worker-" in os.environ["TORCH_EXTENSIONS_DIR"]
SOURCE = 'extern "C" float scale() { return %s; }' % ("0.5f" if IS_JUDGED else "1.0f")
LIBRARY = ctypes.CDLL(load_inline("kbench_selftest_other", [SOURCE], no_implicit_headers=True, is_python_module=False))
LIBRARY.scale.restype = ctypes.c_float


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x) * LIBRARY.scale()
