"""Never returns, and ignores every signal that can be ignored."""

import signal
import time

from torch import nn

PROBLEM = "gelu"
CLASS = "resources"
EXPECT = ("call_timeout",)
OPTIONS = {"call_timeout_s": 2.0}
CATALOGUE = "rigor 16"


class ModelNew(nn.Module):
    def forward(self, x):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)
        while True:
            time.sleep(1)
