"""Pins its weights in the part of the L2 cache that survives a flush."""

import ctypes

import torch
from torch import nn

PROBLEM = "long_scale_bias"
CLASS = "cache"
EXPECT = ("passed",)
SPEEDUP_BELOW = 1.12
DEVICES = ("cuda",)
ALONE = True
CATALOGUE = "harness 15; rigor 17"


class Window(ctypes.Structure):
    _fields_ = (
        ("base", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("hit_ratio", ctypes.c_float),
        ("on_hit", ctypes.c_int),
        ("on_miss", ctypes.c_int),
        ("padding", ctypes.c_ubyte * 36),
    )


class ModelNew(nn.Module):
    def __init__(self, values):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(values))
        self.bias = nn.Parameter(torch.rand(values))

    def forward(self, x):
        driver = ctypes.CDLL("libcuda.so.1")
        size = self.weight.numel() * 4
        driver.cuCtxSetLimit(ctypes.c_int(6), ctypes.c_size_t(size))
        window = Window(base=self.weight.data_ptr(), bytes=size, hit_ratio=1.0, on_hit=2, on_miss=1)
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        driver.cuStreamSetAttribute(stream, ctypes.c_int(1), ctypes.byref(window))
        return torch.addcmul(self.bias, x, self.weight)
