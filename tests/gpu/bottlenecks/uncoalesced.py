"""Neighbouring threads write addresses that are a row apart."""

import torch
from launching import built

DEVICES = ("cuda",)
launch = built("uncoalesced.cu")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return launch(x, torch.empty_like(x), x.shape[0])
