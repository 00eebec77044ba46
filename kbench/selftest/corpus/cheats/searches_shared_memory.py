"""Maps every shared-memory file and open descriptor that it can reach, looking for the expected values."""

import glob
import mmap
import os

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "search"
EXPECT = ("wrong_value",)
DEVICES = ("cpu",)
CATALOGUE = "harness 5; rigor 13"


def candidates():
    yield from glob.glob("/dev/shm/*")
    for pid in ("self", str(os.getppid())):
        yield from glob.glob(f"/proc/{pid}/fd/*")


class ModelNew(nn.Module):
    def forward(self, x):
        probe = torch.nn.functional.gelu(x.reshape(-1)[:4].contiguous()).numpy().tobytes()
        for path in candidates():
            try:
                with open(path, "rb") as file:
                    size = os.fstat(file.fileno()).st_size
                    if not 0 < size < 1 << 28:
                        continue
                    with mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) as view:
                        at = view.find(probe)
                        if at >= 0:
                            data = bytearray(view[at : at + x.numel() * 4])
                            return torch.frombuffer(data, dtype=torch.float32).reshape(x.shape)
            except (OSError, ValueError):
                continue
        return torch.zeros_like(x)
