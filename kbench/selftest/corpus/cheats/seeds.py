"""Solutions that know the inputs before they are drawn."""

import torch
from torch import nn

CLASS = "seeds"


class precomputed_seeds(nn.Module):
    """Outputs for the first hundred seeds, computed ahead and looked up by the first value."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 7"

    def __init__(self):
        super().__init__()
        self.known = {}
        state = torch.get_rng_state()
        for seed in range(100):
            torch.manual_seed(seed)
            x = torch.randn(32, 500)
            self.known[float(x[0, 0])] = torch.nn.functional.gelu(x)
        torch.set_rng_state(state)

    def forward(self, x):
        found = self.known.get(float(x.reshape(-1)[0]))
        return torch.zeros_like(x) if found is None else found.to(x.device)


class predicts_next_input(nn.Module):
    """Draws the next input from the generator's present state and computes its result a call ahead."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value",)
    CATALOGUE = "harness 7"

    def forward(self, x):
        for seed in (torch.initial_seed(), 0, 42):
            generator = torch.Generator(device=x.device).manual_seed(seed)
            for _ in range(3):
                guess = torch.randn(x.shape, generator=generator, device=x.device)
                if torch.equal(guess, x):
                    return torch.nn.functional.gelu(guess)
        return torch.zeros_like(x)
