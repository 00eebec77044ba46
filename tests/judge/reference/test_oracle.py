"""What is computed in fp64, and which references round to 16 bits within."""

from types import SimpleNamespace

import pytest
import tiny_corpus
import torch
from references import reference

from kbench.core.values import DRAWS, FACTOR, FACTOR_PRODUCTS
from kbench.judge.reference.oracle import chosen_entries, tolerance_within
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


@pytest.mark.parametrize(
    ("forward", "sizes", "known"),
    [
        ("return x.softmax(1)", [(6, 5)], True),
        ("return x @ y", [(6, 5), (5, 7)], True),
        ("return x @ y", [(6, 6), (6, 6)], True),  # the second is whole, though it has as many rows
        ("return torch.bmm(x, y)", [(6, 3, 4), (6, 4, 5)], True),
        ("return torch.einsum('bijl,lk->bijk', x, y)", [(6, 2, 3, 4), (4, 5)], True),
        ("return x.T @ y", [(6, 6), (6, 6)], False),  # equal sizes by chance
        ("return x - x.mean(0)", [(6, 5)], False),
        ("return x.sum()", [(6, 5)], False),
    ],
)
def test_entries_of_a_large_batch_are_computed_in_fp64(tmp_path, forward, sizes, known) -> None:
    inputs = f"[{', '.join(f'torch.randn{size}' for size in sizes)}]"
    found = reference(tmp_path, forward, inputs, parameters="x, y" if len(sizes) > 1 else "x", oracle_elements=8)
    expected = found.expect(found.arguments(1))
    pieces = found.oracle(expected)
    assert (pieces is not None) is known
    if pieces is None:
        return
    assert len({entry for index, _ in pieces for entry in index}) == DRAWS
    for index, (exact,) in pieces:
        torch.testing.assert_close(exact.float(), expected.tensors[0][index])


@pytest.mark.parametrize(("free_bytes", "known"), [(4 * 8 * 30, True), (8 * 30, False)])
def test_a_device_with_room_computes_dependent_entries_as_a_whole(tmp_path, monkeypatch, free_bytes, known) -> None:
    """Without fp64 the contract alone decides, and small results in fp16 meet it."""
    found = reference(tmp_path, "return x / x.norm()", "[torch.randn(3, 5)]", oracle_elements=8)
    monkeypatch.setattr(
        "kbench.judge.reference.reference.backend", lambda _: SimpleNamespace(free_bytes=lambda: free_bytes)
    )
    pieces = found.oracle(found.expect(found.arguments(1)))
    assert (pieces is not None and [index for index, _ in pieces] == [...]) is known


@pytest.mark.parametrize(
    ("worst", "room", "chosen", "number"),
    [
        ([0.5] * 20, 1000, [], DRAWS),
        ([0.5] * 18 + [1.2, 7.0], 1000, [19, 18], 4),
        ([2.0, 9.0, 5.0] + [0.5] * 17, 10, [1, 2, 0], 6),
        ([2.0 + n for n in range(20)], 10, [19, 18, 17], 6),  # too many: the worst of them
        ([2.0 + n for n in range(20)], 50, [19, 18, 17, 16, 15], 10),
        ([2.0, 3.0], 1000, [1, 0], 2),
        ([float("inf"), 1.0, 1.0], 1000, [0], 2),
    ],
)
def test_entries_with_the_largest_misses_are_computed_and_as_many_others(worst, room, chosen, number) -> None:
    found = chosen_entries(len(worst), 10, torch.tensor([worst, worst]), room)
    assert found[: len(chosen)] == chosen
    assert len(found) == len(set(found)) == number


def test_misses_near_zero_hide_no_entry_that_is_further_away_at_the_scale_of_its_output() -> None:
    """Each entry of a long product misses by dozens of tolerances where it is zero; one is wrong where it is not."""
    near_zero = [60.0 + n for n in range(100)]
    worst = torch.tensor([[*near_zero, 30.0, 0.9], [*[0.6] * 100, 15.0, 20.0]])
    assert chosen_entries(102, 10, worst, 30)[0] == 100


def test_bits_of_a_number_are_not_those_of_fp64(tmp_path) -> None:
    found = reference(tmp_path, "return x.view(torch.int32).view(torch.float32)")
    assert found.oracle(found.expect(found.arguments(1))) is None
