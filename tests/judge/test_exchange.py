"""What the exchange makes of outputs that prove little."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fakes import CORRECT

from kbench.core.values import Ruling
from kbench.judge import exchange
from kbench.judge.exchange import Trial, WrongError


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


@pytest.mark.parametrize(("between_bytes", "released"), [(0, 0), (9 << 30, 0), (17 << 30, 1)])
def test_what_large_steps_took_is_given_back_before_the_worker_makes_them(monkeypatch, between_bytes, released) -> None:
    said: list[str] = []
    device = SimpleNamespace(
        release_cached=lambda: said.append("released"), identify=lambda: SimpleNamespace(memory_bytes=80 << 30)
    )
    monkeypatch.setattr(exchange, "backend", lambda _: device)
    trial: Any = object.__new__(Trial)
    trial.reference = SimpleNamespace(between_bytes=between_bytes, device="cuda")
    trial.tell = lambda slot, _: said.append(f"tell {slot}")
    trial.candidate = SimpleNamespace(pause=lambda: None)
    trial.arena = SimpleNamespace(fill=lambda slot, _: said.append(f"fill {slot}"), lends=False)
    trial.fill([3], [SimpleNamespace(arguments=[])])
    assert said == ["released"] * released + ["tell 3", "fill 3"]


def test_a_refusal_says_how_far_values_are_from_what_is_allowed() -> None:
    trial: Any = object.__new__(Trial)
    trial.explains, trial.candidate, trial.reference = False, SimpleNamespace(log=""), SimpleNamespace(factor=4.0)
    trial.tally = SimpleNamespace(correctness=lambda *_: CORRECT)
    trial.results, trial.describe = (lambda *_: []), (lambda *_: "wrong")
    trial.compare = lambda *_: (Ruling(right=False, contract="held", reason="", excess=1.25), [])
    trial._explain = None
    with pytest.raises(WrongError) as refused:
        trial.judge_values(0, None)
    assert refused.value.excess == 1.25
