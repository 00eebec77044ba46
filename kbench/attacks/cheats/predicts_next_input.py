"""Draws the next input from the generator's present state and computes its result a call ahead."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "seeds"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 7"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        for seed in (torch.initial_seed(), 0, 42):
            generator = torch.Generator(device=x.device).manual_seed(seed)
            for _ in range(3):
                guess = torch.randn(x.shape, generator=generator, device=x.device)
                if torch.equal(guess, x):
                    return torch.nn.functional.gelu(guess)
        return torch.zeros_like(x)
