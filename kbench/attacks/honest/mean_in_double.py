"""Takes in fp64 a mean that hardly differs from one draw of the inputs to the next."""

import torch

PROBLEM = "mean_of_many"
CLASS = "precision"
SPEED = "fast"


class ModelNew(torch.nn.Module):
    def forward(self, guess, truth):
        return (guess.double() - truth.double()).square().mean(dtype=torch.float64).to(guess.dtype)
