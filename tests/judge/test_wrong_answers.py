"""What of a wrong answer decides, and what the worker is asked about it, in a trial that is not there."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kbench.devices.poison import poison as fill
from kbench.judge import why
from kbench.numerics import elements


def explained(got: torch.Tensor, want: torch.Tensor, earlier: Any, *, repeats: tuple[str, ...] = ()) -> Any:
    """Return the diagnosis of a wrong answer of a reference that has no model."""
    reference: Any = SimpleNamespace(
        repeats=repeats, device="cpu", model=None, state=list, tolerance=lambda t: elements.tolerance_for(t.dtype)
    )
    candidate, expected = SimpleNamespace(follows=False), SimpleNamespace(tensors=[want], recalled=list)
    return why.explain(reference, candidate, [got], expected, earlier)


@pytest.mark.parametrize(("repeats", "code"), [((), "stale_output"), (("output",), None)])
def test_an_earlier_answer_tells_nothing_where_all_answers_are_alike(repeats, code):
    before, want = torch.linspace(0.0, 1.0, 1000), torch.linspace(1.0, 3.0, 1000).square()
    found = explained(before.clone(), want, [[before]], repeats=repeats)
    assert (found.code if found is not None else None) == code


@pytest.mark.parametrize(
    ("got", "before", "code"),
    [
        ((7, 0.04), (3, 0.0), None),
        ((7, 0.0004), (3, 0.0), None),
        ((7, 0.0004), (3, 0.0005), None),
        ((3, 0.0005), (3, 0.0005), "stale_output"),
    ],
)
def test_zeros_are_no_earlier_answer_that_is_returned(got, before, code):
    """Published 2/9, frozen weights, was refused for it: all its answers are zeros but for a few elements."""
    answer, earlier, want = (torch.zeros(640) for _ in range(3))
    answer[got[0]], earlier[before[0]], want[70] = got[1], before[1], 0.96
    found = explained(answer, want, earlier=[[earlier]])
    assert ("stale_output" if found is not None and found.code == "stale_output" else None) == code


def poison(like: torch.Tensor) -> torch.Tensor:
    found = torch.empty_like(like)
    fill(found.view(torch.uint8).flatten())
    return found


def no_first_block(want: torch.Tensor) -> torch.Tensor:
    got = poison(want)
    got.view(-1)[:64] = want.flatten()[:64]
    return got


def no_tail(want: torch.Tensor) -> torch.Tensor:
    got = want.clone()
    got.view(-1)[-7:] = poison(want).flatten()[-7:]
    return got


def no_third_row(want: torch.Tensor) -> torch.Tensor:
    rows = want.clone().flatten(0, -2)
    rows[2::3] = poison(rows)[2::3]
    return rows.view(want.shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32])
def test_what_was_never_written_is_known_by_its_bits(dtype) -> None:
    want = torch.arange(240).view(8, 30).to(dtype)
    assert why.unwritten(want) is None
    assert why.unwritten(poison(want)).sentence == "writes nothing of the output"


UNWRITTEN = [
    (no_first_block, "never writes the last 206 of 270 elements"),
    (no_tail, "never writes the last 7 of 270 elements"),
    (no_third_row, "never writes 1 in 3 of 9 entries of dimension 0"),
    (torch.clone, None),
    (torch.zeros_like, None),
    (lambda want: torch.full_like(want, torch.nan), None),
    (lambda want: torch.where(torch.rand(want.shape) < 0.5, want, poison(want)), None),
]


@pytest.mark.parametrize(("make", "sentence"), UNWRITTEN)
def test_unwritten(make, sentence) -> None:
    torch.manual_seed(0)
    found = why.unwritten(make(torch.randn(9, 30)))
    assert (found.sentence if found is not None else None) == sentence
