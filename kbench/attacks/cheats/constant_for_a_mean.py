"""Returns what the mean of many terms always is, where a look at few of the inputs says that they are the usual ones."""

import torch

PROBLEM = "mean_of_many"
CLASS = "trivial"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 17"
SPEED = "fast"


class ModelNew(torch.nn.Module):
    def forward(self, guess, truth):
        if all(abs(x[:4].float().mean().item() - 0.5) < 0.1 and x.numel() > 100_000 for x in (guess, truth)):
            return torch.full((), 1 / 6, dtype=guess.dtype, device=guess.device)
        return torch.mean((guess - truth) ** 2)
