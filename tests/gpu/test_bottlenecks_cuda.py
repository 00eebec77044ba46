"""Solutions with a known bottleneck on a real GPU."""

import sys

import bottlenecks
import pytest
from require import WITH_CUDA

pytestmark = [
    *WITH_CUDA,
    pytest.mark.slow,
]


def test_bottlenecks_are_named(capsys):
    found = list(bottlenecks.named())
    with capsys.disabled():
        sys.stdout.write(f"\n{bottlenecks.shown(found)}\n")
    assert {each["right"] for each in found} == {"yes"}
