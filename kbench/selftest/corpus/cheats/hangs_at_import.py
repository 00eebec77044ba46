"""Never finishes importing."""

import time

from torch import nn

PROBLEM = "gelu"
CLASS = "resources"
EXPECT = ("import_timeout",)
OPTIONS = {"import_timeout_s": 2.0}
CATALOGUE = "rigor 16"

time.sleep(3600)


class ModelNew(nn.Module):
    pass
