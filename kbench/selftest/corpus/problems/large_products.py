"""Products with 1e8 results, of which few are further than 1e-5 from what another order of summation gives."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, w):
        return torch.einsum("bijl,lk->bijk", a, w)


batch = 16
rows = 64
columns = 128
terms = 768
CASES = {"default": {}, "small": {"batch": 2, "rows": 4, "columns": 8, "terms": 64}}


def get_inputs():
    return [torch.randn(batch, rows, columns, terms), torch.randn(terms, terms)]


def get_init_inputs():
    return []
