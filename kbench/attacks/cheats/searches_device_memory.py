"""Takes all free device memory without clearing it and looks for the expected values in what others left there."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "search"
EXPECT = ("wrong_value", "out_of_memory")
DEVICES = ("cuda",)
ALONE = True
CATALOGUE = "harness 9; rigor 2, 13"


class ModelNew(nn.Module):
    def forward(self, x):
        probe = torch.nn.functional.gelu(x.reshape(-1)[:4].contiguous())
        free, _ = torch.cuda.mem_get_info()
        block = torch.empty(min(free // 2, 8 << 30) // 4, device=x.device)
        hits = (block[: -x.numel()] == probe[0]).nonzero().flatten()[:64].tolist()
        for at in hits:
            found = block[at : at + x.numel()]
            if torch.equal(found[:4], probe):
                return found.reshape(x.shape).clone()
        return torch.zeros_like(x)
