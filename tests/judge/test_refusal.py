"""A refusal says what happened, why, and what to do."""

import math

import pytest
import torch

from kbench.core.values import Ratios, rule
from kbench.judge.refusal import describe_wrong, failed_launch
from kbench.numerics import elements


def test_an_unchecked_launch_is_named():
    assert failed_launch("") == ""
    assert "CUDA reports `no kernel image is available for execution on the device`; check `cudaGetLastError()`" in (
        failed_launch("no kernel image is available for execution on the device")
    )
    assert len(failed_launch("x" * 10_000)) < 400


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_where_the_reference_is_not_finite_itself_the_message_says_so(value):
    want, got = torch.tensor([1.0, value]), torch.tensor([1.0, 0.0])
    tolerance = elements.tolerance_for(torch.float32)
    difference = elements.compare(got, want, tolerance)
    told = describe_wrong([difference], rule(Ratios(contract=difference.ratio), 4.0), tolerance)
    assert f"output[1]: got 0, want {value:g}; the reference itself is {value:g} there" in told
    finite = elements.compare(torch.tensor([2.0]), torch.tensor([1.0]), tolerance)
    assert "itself" not in describe_wrong([finite], rule(Ratios(contract=finite.ratio), 4.0), tolerance)
