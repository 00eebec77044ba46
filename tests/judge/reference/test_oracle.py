"""Which references round to 16 bits within, and how near they are to fp64 then."""

import pytest
import tiny_corpus
import torch

from kbench.core.values import FACTOR, FACTOR_PRODUCTS
from kbench.judge.reference.oracle import tolerance_within
from kbench.judge.reference.reference import Reference
from kbench.numerics.elements import EXACT, TOLERANCES


@pytest.mark.parametrize(
    ("forward", "inner"),
    [
        ("(x.bfloat16() @ self.weight.bfloat16()).float()", torch.bfloat16),
        ("(x.half() @ self.weight.half()).float()", torch.float16),
        ("(x.half() * x.half()).sum(-1).float()", torch.float16),
        ("(x.bfloat16().float() @ self.weight.half().float()).sum(-1), x @ self.weight.half().float()", torch.bfloat16),
        ("x @ self.weight", None),
        ("x.double() @ self.weight.double()", None),
        ("(x.bfloat16() @ self.weight.bfloat16())", None),  # its result says so by itself
        ("x @ self.weight + 0 * x.half()[:, :1]", None),  # nothing of it is left in the result
    ],
)
def test_fp32_results_show_what_they_were_rounded_to(tmp_path, forward, inner) -> None:
    path, layers = tmp_path / "problem.py", "self.weight = nn.Parameter(torch.randn(256, 64))"
    path.write_text(tiny_corpus.problem(forward, given="torch.randn(32, 256)", layers=layers))
    found = Reference(path, {}, "cpu", allow_tf32=False)
    assert found.rounds_to is inner
    assert found.factor == (FACTOR if inner is not None else FACTOR_PRODUCTS)


def test_the_tolerance_is_that_of_the_coarser_type() -> None:
    wide, own = torch.zeros(2), TOLERANCES["float32"]
    assert tolerance_within(torch.float16, wide, own) == TOLERANCES["float16"]
    assert tolerance_within(None, wide, own) is own
    assert tolerance_within(torch.float16, wide.long(), EXACT) is EXACT
