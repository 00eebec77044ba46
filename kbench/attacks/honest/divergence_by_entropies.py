"""Cross-entropy minus entropy: two sums where the reference has one."""

import torch
from torch import nn

PROBLEM = "divergence"
CLASS = "structure"


class ModelNew(nn.Module):
    def forward(self, predictions, targets):
        terms = torch.special.xlogy(targets, targets).double() - (targets * torch.log(predictions)).double()
        return (terms.sum() / predictions.shape[0]).float()
