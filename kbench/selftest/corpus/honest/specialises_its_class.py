"""Its class learns in the first call of a shape what later calls of that shape do, as a dispatcher would; results are new."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "caches"


class ModelNew(nn.Module):
    chosen = {}

    def __call__(self, x):
        cls = type(self)
        if x.shape not in cls.chosen:
            cls.chosen = {**cls.chosen, x.shape: torch.nn.functional.gelu}
        return cls.chosen[x.shape](x)
