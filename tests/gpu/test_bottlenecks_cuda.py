"""Ten solutions with a known bottleneck on a real GPU."""

import sys

import bottlenecks
import pytest
from require import WITH_CUDA

from kbench.devices import toolkit

pytestmark = [
    *WITH_CUDA,
    pytest.mark.slow,
]


@pytest.mark.parametrize(
    "counters", [False, pytest.param(True, marks=pytest.mark.skipif(not toolkit.find("ncu"), reason="ncu"))]
)
def test_bottlenecks_are_named(counters, capsys):
    found = list(bottlenecks.named(counters=counters))
    with capsys.disabled():
        sys.stdout.write(f"\n{bottlenecks.shown(found)}\n")
    assert bottlenecks.enough(found, counters=counters)
