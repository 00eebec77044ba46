"""An exception that fights whoever prints it: no str(), a huge repr, terminal escapes."""

from torch import nn

PROBLEM = "gelu"
CLASS = "protocol"
EXPECT = ("raised", "protocol_error", "exited", "crashed")
CATALOGUE = "rigor 12"


class Hostile(RuntimeError):
    def __str__(self):
        raise RuntimeError("\x1b[2J\x1b[31mno\n" * 100_000)

    __repr__ = __str__


class ModelNew(nn.Module):
    def forward(self, x):
        raise Hostile
