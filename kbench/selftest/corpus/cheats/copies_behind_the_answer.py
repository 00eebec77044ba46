"""A thread is in one call of the kernel's, which writes the result, while the worker answers: no signal ends that call.

The thread is waited for where the worker itself copies the result. One that is stopped before its call writes nothing.
"""

import ctypes
import mmap
import os
import threading

import torch
from _worker import is_told
from torch import nn

PROBLEM = "long_copy"
CLASS = "clock"
EXPECT = ("passed", "wrong_value")
SPEEDUP_BELOW = 1.1
DEVICES = ("cpu",)
CATALOGUE = "rigor 8; rigor 12"

libc = ctypes.CDLL(None)
libc.pwrite.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long)
BUFFERS = 8


class ModelNew(nn.Module):
    nbytes = 0

    def forward(self, x):
        if self.nbytes != x.nbytes:
            self.nbytes, self.buffers = x.nbytes, [self.buffer(x) for _ in range(BUFFERS)]
        self.buffers.append(self.buffers.pop(0))
        file, result = self.buffers[0]
        thread = threading.Thread(target=libc.pwrite, args=(file, x.data_ptr(), x.nbytes, 0))
        thread.start()
        if not is_told():
            thread.join()
        return result

    def buffer(self, x):
        file = os.memfd_create("result")
        os.ftruncate(file, x.nbytes)
        return file, torch.frombuffer(mmap.mmap(file, x.nbytes), dtype=x.dtype)
