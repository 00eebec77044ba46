"""Calls the compiler itself and loads the library with ctypes, without torch's help."""

import ctypes
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

import torch
from torch import nn

PROBLEM = "relu"
CLASS = "builds"
DEVICES = ("cpu",)

SOURCE = r"""
int own_relu(const float* x, float* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = x[i] > 0 || x[i] != x[i] ? x[i] : 0;
  return 0;
}
"""


def build():
    folder = Path(os.environ.get("TORCH_EXTENSIONS_DIR", tempfile.gettempdir()))
    library = folder / f"own_relu_{hashlib.sha256(SOURCE.encode()).hexdigest()[:16]}.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        source = library.with_suffix(".c")
        source.write_text(SOURCE)
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


LIBRARY = build()
LIBRARY.own_relu.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        LIBRARY.own_relu(x.data_ptr(), y.data_ptr(), x.numel())
        return y
