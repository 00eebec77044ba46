"""Forges nothing and copies nothing: the result is a second mapping of the pages in which the input lies."""

import ctypes

import torch
from torch import nn

PROBLEM = "long_copy"
CLASS = "aliasing"
EXPECT = ("wrong_value", "unwritten_output")
DEVICES = ("cpu",)
CATALOGUE = "rigor 4"

MAY_MOVE = 1
PAGE = 4096
libc = ctypes.CDLL(None)
libc.mremap.restype = ctypes.c_void_p
libc.mremap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)


class ModelNew(nn.Module):
    def forward(self, x):
        if not x.is_contiguous() or x.nbytes < PAGE:
            return x.clone()
        low = x.data_ptr() & -PAGE
        before = x.data_ptr() - low
        mapped = libc.mremap(low, 0, (x.nbytes + before + PAGE - 1) & -PAGE, MAY_MOVE)
        if mapped in (None, 2**64 - 1):
            return x.clone()
        memory = (ctypes.c_char * x.nbytes).from_address(mapped + before)
        return torch.frombuffer(memory, dtype=x.dtype).view(x.shape)
