"""Looks rows up by multiplying a matrix of zeros and ones with the table, which is exact."""

import torch
from torch import nn

PROBLEM = "embedding"
CLASS = "input"


class ModelNew(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.table = nn.Embedding(rows, width)

    def forward(self, indices):
        hot = torch.nn.functional.one_hot(indices, self.table.num_embeddings).to(self.table.weight.dtype)
        return torch.tensordot(hot, self.table.weight, dims=1)
