"""Resets the device under everybody's feet."""

import ctypes
import re

import torch
from torch import nn

PROBLEM = "relu"
CLASS = "kernels"
EXPECT = (
    "illegal_access",
    "raised",
    "crashed",
    "launch_failed",
    "unwritten_output",
    "wrong_value",
    "exited",
    "wrong_output",
)
DEVICES = ("cuda",)
CATALOGUE = "rigor 16"


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        torch.cuda.synchronize()
        for path in set(re.findall(r"/\S*libcudart\.so\S*", open("/proc/self/maps").read())):
            ctypes.CDLL(path).cudaDeviceReset()
        return y
