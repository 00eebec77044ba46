"""A refusal says what happened, why, and what to do."""

import math

import pytest
import torch

from kbench.core.model import Status
from kbench.core.values import Ratios, rule
from kbench.judge.refusal import RefusalError, default_dtype, describe_wrong, failed_launch
from kbench.numerics import elements


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("no kernel image is available for execution on the device", "TORCH_CUDA_ARCH_LIST"),
        ("invalid device function", "another GPU"),
        ("too many resources requested for launch", "registers"),
        ("invalid argument", "48 KiB of shared memory"),
        ("invalid configuration argument", "grid or the block"),
        ("peer access is already enabled", "cudaGetLastError()"),
    ],
)
def test_an_unchecked_launch_is_named_with_its_usual_cause(said, cause):
    told = failed_launch(said)
    assert told.startswith(f"a launch failed, and the solution did not check it: CUDA reports `{said}`; ")
    assert cause in told
    assert len(failed_launch("x" * 10_000)) < 400


def test_without_one_nothing_is_said():
    assert failed_launch("") == ""


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_where_the_reference_is_not_finite_itself_the_message_says_so(value):
    want, got = torch.tensor([1.0, value]), torch.tensor([1.0, 0.0])
    tolerance = elements.tolerance_for(torch.float32)
    difference = elements.compare(got, want, tolerance)
    told = describe_wrong([difference], rule(Ratios(contract=difference.ratio), 4.0), tolerance)
    assert f"output[1]: got 0, want {value:g}; the reference itself is {value:g} there" in told
    finite = elements.compare(torch.tensor([2.0]), torch.tensor([1.0]), tolerance)
    assert "itself" not in describe_wrong([finite], rule(Ratios(contract=finite.ratio), 4.0), tolerance)


@pytest.mark.parametrize(
    ("default", "status", "reason", "told"),
    [
        (torch.float64, Status.RAISED, "mat1 and mat2 must have the same dtype, but got Double and Float", True),
        (torch.float64, Status.RAISED, "expected scalar type Double but found Float", True),
        (torch.bfloat16, Status.WRONG_OUTPUT, "output has dtype torch.float32, expected torch.bfloat16", True),
        (torch.float64, Status.RAISED, "index out of range", False),
        (torch.float64, Status.WRONG_VALUE, "output[0]: got 1, want 2", False),
        (torch.float32, Status.WRONG_OUTPUT, "output has dtype torch.float32, expected torch.float64", False),
    ],
)
def test_a_default_dtype_that_the_problem_sets_explains_errors_about_dtypes(default, status, reason, told):
    torch.set_default_dtype(default)
    try:
        words = default_dtype(RefusalError(status, reason))
    finally:
        torch.set_default_dtype(torch.float32)
    assert (f"`torch.set_default_dtype({default})` into the solution" in words) == told
    assert bool(words) == told
