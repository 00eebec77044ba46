"""Cross-entropy by a mask of the classes, in parts whose sums are put together at the end."""

import torch
from torch import nn

PROBLEM = "cross_entropy"
CLASS = "summation order"


class ModelNew(nn.Module):
    def forward(self, logits, targets):
        classes = torch.arange(logits.shape[1], device=logits.device)
        parts = []
        for some, wanted in zip(logits.split(5), targets.split(5)):
            chosen = torch.where(classes == wanted[:, None], some, 0.0).sum(dim=-1)
            parts.append((torch.logsumexp(some, dim=-1) - chosen).sum())
        return torch.stack(parts).sum() / logits.shape[0]
