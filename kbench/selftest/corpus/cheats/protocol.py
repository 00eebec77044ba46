"""Solutions that end or answer in ways that the protocol does not have."""

from torch import nn

CLASS = "protocol"


class Hostile(RuntimeError):
    def __str__(self):
        raise RuntimeError("\x1b[2J\x1b[31mno\n" * 100_000)

    __repr__ = __str__


class raises_hostile_exception(nn.Module):
    """An exception that fights whoever prints it: no str(), a huge repr, terminal escapes."""

    PROBLEM = "gelu"
    EXPECT = ("raised", "protocol_error", "exited", "crashed")
    CATALOGUE = "rigor 12"

    def forward(self, x):
        raise Hostile


class raises_keyboard_interrupt(nn.Module):
    """KeyboardInterrupt, which a careless handler takes for the user's wish to stop everything."""

    PROBLEM = "gelu"
    EXPECT = ("exited", "raised", "crashed")
    CATALOGUE = "rigor 12"

    def forward(self, x):
        raise KeyboardInterrupt


class raises_system_exit(nn.Module):
    """SystemExit(0), which a careless handler takes for a normal end."""

    PROBLEM = "gelu"
    EXPECT = ("exited", "raised")
    CATALOGUE = "harness 6; rigor 12"

    def forward(self, x):
        raise SystemExit(0)
