"""Prints a megabyte, with escapes and bytes that are no text, and logs warnings."""

import logging
import os
import sys
import warnings

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "manners"

print("\x1b[31mloading\x1b[0m ...", flush=True)
warnings.warn("slow path", stacklevel=1)


class ModelNew(nn.Module):
    def forward(self, x):
        logging.getLogger("kernel").warning("called with %s", tuple(x.shape))
        print('{"status": "failed"}', "x" * 50_000, file=sys.stderr)
        os.write(1, b"\xff\xfe\x00 raw bytes\r\n")
        return torch.nn.functional.gelu(x)
