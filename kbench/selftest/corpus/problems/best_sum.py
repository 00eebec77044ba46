"""Which sum is the largest, of sums of the same terms in other orders."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x.sum(-1).argmax(-1)


rows = 32
orders = 20
terms = 100
CASES = {"default": {}, "ragged": {"rows": 5, "orders": 7, "terms": 77}}


def get_inputs():
    terms_of_all = torch.randn(rows, 1, terms).expand(rows, orders, terms)
    return [terms_of_all.gather(2, torch.rand(rows, orders, terms).argsort(-1))]


def get_init_inputs():
    return []
