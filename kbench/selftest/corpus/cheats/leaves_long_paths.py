"""Leaves a path among its artefacts that fits where they are built, and is too long where they are copied to."""

import os

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "escape"
EXPECT = ("build_failed",)
CATALOGUE = "rigor 16"
LONGEST, NAME = 4094, 200

# A mention of load_inline gets it a builder, whose artefacts are copied.
artefacts = os.environ["TORCH_EXTENSIONS_DIR"].rpartition("/")[0]
if "/builds/." in artefacts:
    back = os.getcwd()
    os.chdir(artefacts)
    length = len(artefacts)
    while length + 1 + NAME < LONGEST - 14:
        os.mkdir("d" * NAME)
        os.chdir("d" * NAME)
        length += 1 + NAME
    with open("f" * (LONGEST - length - 1), "w"):
        os.chdir(back)


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)
