"""A row has the same bits in every batch, or the optional check says in which it differs."""

import pytest
import torch
from torch import Tensor

from kbench.core.model import Status
from kbench.judge.reference.expected import Expected
from kbench.judge.reference.oracle import batch_size
from kbench.judge.refusal import RefusalError
from kbench.judge.verify.checks import require_same_bits, rows_of, smaller_batches

PROBLEM = """
import torch
from torch import nn
rows = 64
class Model(nn.Module):
    def forward(self, x):
        return {result}
def get_inputs():
    return [torch.randn(rows, 512)]
def get_init_inputs():
    return []
"""
SOLUTIONS = """
def in_one_order(x):
    return x.flip(-1).sum(-1, keepdim=True) + x
def split_by_rows(x):
    parts = 2 if x.shape[0] > 40 else 4
    return x.reshape(x.shape[0], parts, 512 // parts).sum(-1).sum(-1, keepdim=True) + x
def over_all(x):
    return x - x.mean(0)
"""


@pytest.fixture
def verify(own_folder, own_cache, kbench):
    """Verify a function against a reference; return its level, its lacks, and the codes of its notes."""

    def run(function: str, result: str, *options: str) -> tuple[str, str, set[str]]:
        own_folder.joinpath("rows.py").write_text(PROBLEM.format(result=result))
        own_folder.joinpath("mine.py").write_text(SOLUTIONS)
        words = ("verify", "rows.py", f"mine.py:{function}", "--device", "cpu", "--json", *options)
        (case,) = kbench(*words).document["results"]
        return case["status"], case["lacks"], {finding["code"] for finding in case["findings"]}

    return run


def test_a_sum_whose_order_follows_the_batch_is_refused_only_if_asked(verify) -> None:
    total = "x.sum(-1, keepdim=True) + x"
    status, lacks, _ = verify("split_by_rows", total, "--batch-invariant")
    assert (status, "batch_invariance" in lacks) == ("below_level", True)
    assert "batch_invariance" not in verify("split_by_rows", total)[1]
    assert verify("in_one_order", total, "--batch-invariant")[0] == "passed"


def test_outputs_that_mix_rows_have_no_batches(verify) -> None:
    status, _, codes = verify("over_all", "x - x.mean(0)", "--batch-invariant")
    assert status == "passed"
    assert "skipped_batches" in codes


@pytest.mark.parametrize(("count", "sizes"), [(0, []), (1, []), (2, [1]), (3, [1, 2]), (64, [1, 2, 4, 8, 16, 32])])
def test_few_rows_and_half_of_them_are_tried(count: int, sizes: list[int]) -> None:
    for rows in [smaller_batches(count) for _ in range(20)]:
        assert [each.stop - each.start for each in rows] == sizes
        assert all(0 <= each.start < each.stop <= count for each in rows)


@pytest.mark.parametrize(
    ("shapes", "count"),
    [([(4, 3)], 4), ([(4, 3), (4,)], 4), ([(4, 3), (3, 4)], 0), ([()], 0), ([(4,), ()], 0)],
)
def test_rows_are_counted_by_outputs(shapes: list[tuple[int, ...]], count: int) -> None:
    leaves = [(f"output[{n}]", torch.zeros(shape)) for n, shape in enumerate(shapes)]
    assert batch_size(Expected(arguments=[], leaves=leaves)) == (count or None)


def test_rows_are_taken_from_inputs_that_have_as_many() -> None:
    x, table, scale = torch.arange(8.0).reshape(4, 2), torch.ones(3, 2), 0.5
    part, mask, same, number = rows_of([x, {"mask": x[:, 0]}, table, scale], 4, slice(1, 3))
    assert torch.equal(part, x[1:3])
    assert torch.equal(mask["mask"], x[1:3, 0])
    assert same is table
    assert number == scale


@pytest.mark.parametrize(
    ("rows", "words"), [(slice(2, 3), "row 2 alone differs"), (slice(1, 3), "2 rows alone differ")]
)
def test_one_other_bit_is_named(rows: slice, words: str) -> None:
    whole = torch.randn(rows.stop - rows.start, 5)
    other: Tensor = whole.clone()
    require_same_bits(rows, 8, [whole], [other], "")
    other[0, 0] = torch.nextafter(other[0, 0], torch.tensor(9.0))
    with pytest.raises(RefusalError, match=f"{words} from the same in the batch of 8, in 1 element") as raised:
        require_same_bits(rows, 8, [whole], [other], "")
    assert raised.value.status is Status.WRONG_VALUE
