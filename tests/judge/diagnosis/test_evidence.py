"""What the judge puts together for a diagnosis, of a trial that is not there."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kbench.judge.diagnosis import evidence
from kbench.numerics import elements


@pytest.mark.parametrize(("repeats", "code"), [((), "stale_output"), (("output",), None)])
def test_an_earlier_answer_tells_nothing_where_all_answers_are_alike(
    repeats: tuple[str, ...], code: str | None
) -> None:
    before, want = torch.linspace(0.0, 1.0, 1000), torch.linspace(1.0, 3.0, 1000).square()
    reference = SimpleNamespace(
        repeats=repeats, device="cpu", model=None, tolerance=lambda t: elements.tolerance_for(t.dtype)
    )
    candidate = SimpleNamespace(follows=False, has_ended=True, within=lambda _: torch.no_grad())
    trial: Any = SimpleNamespace(reference=reference, candidate=candidate, earlier=[[before]])
    expected: Any = SimpleNamespace(tensors=[want], recalled=list)
    found = evidence.explain(trial, [before.clone()], expected)
    assert (found.code if found is not None else None) == code
