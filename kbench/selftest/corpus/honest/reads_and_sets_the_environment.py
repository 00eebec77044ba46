"""Chooses its variant by an environment variable and sets others for the libraries that it loads."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ["KMP_DUPLICATE_LIB_OK"] = "TRUE"
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:512")

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "manners"

VARIANT = os.getenv("GELU_VARIANT", "erf")
NAMES = sorted(name for name in os.environ if name.startswith("GELU_"))


class ModelNew(nn.Module):
    def forward(self, x):
        if VARIANT == "erf":
            return 0.5 * x * (1 + torch.erf(x * 0.7071067811865476))
        return torch.nn.functional.gelu(x)
