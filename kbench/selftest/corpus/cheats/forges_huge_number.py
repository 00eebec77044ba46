"""Says that a Python number among its outputs has four hundred digits, which no float can hold."""

import kbench.worker.main as worker
from torch import nn

PROBLEM = "deviation_as_number"
CLASS = "protocol"
EXPECT = ("protocol_error", "wrong_value")
CATALOGUE = "rigor 12"
original = worker.deliver


def deliver(output, targets, arguments):
    described = original(output, targets, arguments)
    return [[path, kind, 10**400 if kind == "float" else text, *rest] for path, kind, text, *rest in described]


worker.deliver = deliver


class ModelNew(nn.Module):
    def forward(self, x):
        return x.sum(-1), x.std(correction=0).item(), int(x.argmax())
