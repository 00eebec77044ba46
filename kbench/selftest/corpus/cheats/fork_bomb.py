"""Three hundred processes that wait for ever."""

import os

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "survivor"
EXPECT = ("passed", "raised", "import_failed", "crashed", "out_of_memory", "exited", "call_timeout", "protocol_error")
EFFECTS = ("process kbench-selftest-bomb",)
CATALOGUE = "rigor 16"


class ModelNew(nn.Module):
    def forward(self, x):
        self.started = getattr(self, "started", 0)
        while self.started < 300:
            self.started += 1
            try:
                if os.fork() == 0:
                    try:
                        os.execvp("sleep", ["kbench-selftest-bomb", "240"])
                    finally:
                        os._exit(1)
            except OSError:
                break
        return torch.nn.functional.gelu(x)
