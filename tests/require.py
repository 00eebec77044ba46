"""What a test needs of this machine; it is skipped where that is missing."""

import functools

import pytest
import torch

from kbench.sandbox import rung_probe
from kbench.sandbox.rungs import Rung

WITH_CUDA = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


rung_works = functools.cache(rung_probe.works)
"""A trial takes 0.1 s of a processor, and its answer stays the same."""


def require_rung(rung: Rung) -> None:
    if (reason := rung_works(rung, "cpu")) is not None:
        pytest.skip(f"rung {rung.name} does not work here: {reason}")
