"""Kullback-Leibler divergence of probabilities: positive rows that add up to one."""

import torch
from torch import nn


class Model(nn.Module):
    """kl_div(log(predictions), targets), mean over the batch."""

    def forward(self, predictions, targets):
        """(batch, classes), (batch, classes), rows of both add up to 1 -> scalar."""
        return torch.nn.functional.kl_div(torch.log(predictions), targets, reduction="batchmean")


batch = 24
classes = 50

CASES = {"default": {}, "ragged": {"batch": 3, "classes": 7}}


def get_inputs():
    return [torch.rand(batch, classes).softmax(dim=-1) for _ in range(2)]


def get_init_inputs():
    return []
