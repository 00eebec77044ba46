"""Nests folders by the thousand in its own, so that whoever copies or removes them runs out of stack."""

import os

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "escape"
EXPECT = ("passed", "build_failed")
CATALOGUE = "rigor 16"


def nest(folder):
    try:
        os.chdir(folder)
        for _ in range(3000):
            os.mkdir("d")
            os.chdir("d")
    except OSError:
        return


# A mention of load_inline gets it a builder, whose artefacts are copied.
nest(os.environ["TORCH_EXTENSIONS_DIR"].rpartition("/")[0])
nest(os.environ["HOME"])


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)
