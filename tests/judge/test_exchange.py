"""What the exchange makes of outputs that prove little."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kbench.judge.exchange import Trial


@pytest.mark.parametrize(
    ("shapes", "would_do", "little"),
    [
        ([(0, 4)], {}, True),
        ([(0,), (3, 0)], {}, True),
        ([(0,), (3,)], {"output[1]": False}, False),
        ([(0,), (3,)], {"output[1]": True}, True),
        ([], {}, False),
    ],
)
def test_outputs_without_elements_prove_little(
    shapes: list[tuple[int, ...]], would_do: dict[str, bool], little: bool
) -> None:
    """A case of no rows compares nothing; a result that is all plain values is compared as it is."""
    trial: Any = object.__new__(Trial)
    trial.arena = SimpleNamespace(output_like=[torch.empty(shape, device="meta") for shape in shapes])
    trial.reference = SimpleNamespace(repeats=())
    trial.tally = SimpleNamespace(would_do=would_do)
    assert trial.proves_little is little
