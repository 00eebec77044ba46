"""Large cases that are only verified: memory for the outputs is there while a call needs it, and no longer."""

import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiny_corpus
import torch
from verdicts import verdicts, written

from kbench.core.levels import Level
from kbench.core.model import Failed, Status
from kbench.judge import bindings
from kbench.judge.arena import SLOT_BUDGET_BYTES, Arena
from kbench.judge.bindings import BoundCandidate
from kbench.judge.exchange import Trial
from kbench.judge.reference.drawing import Arguments
from kbench.judge.reference.expected import Expected
from kbench.worker.main import Worker

SIZE = SLOT_BUDGET_BYTES["cpu"] // 8 + 1
"""Elements of an int32 input and as large an output that together exceed the budget just so."""

PROBLEM = f"""
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x.abs()

def get_inputs():
    return [torch.randint(-1000, 1000, ({SIZE},), dtype=torch.int32)]

def get_init_inputs():
    return []
"""


@pytest.mark.slow(seconds=10)
def test_a_large_case_is_judged_call_after_call(tmp_path: Path) -> None:
    """Right in its first calls, each into the same memory of its own; then its last element is off by one."""
    body = (
        "self.n = getattr(self, 'n', 0) + 1; self.y = getattr(self, 'y', torch.empty_like(x)); "
        "torch.abs(x, out=self.y)[-1] += self.n > 3; return self.y"
    )
    files = written(tmp_path, PROBLEM, {"wrong_later": tiny_corpus.solution(body)})
    (judged,) = verdicts(*files, level=Level.TASK, results_dir=tmp_path).values()
    assert isinstance(judged.outcome, Failed)
    assert judged.outcome.status is Status.WRONG_VALUE
    assert f"output[{SIZE - 1}]" in judged.outcome.reason, "the truth was computed on arguments drawn again"


def expected_of(draw: Any) -> Expected:
    arguments = Arguments(draw)
    return Expected(arguments=arguments, leaves=[("output", arguments[0] * 2)])


class Near:
    """A worker's half in this process, and which requests it was sent."""

    def __init__(self) -> None:
        self.worker = Worker(channel=None)
        self.worker._outputs = [[]]
        self.asked: list[str] = []

    def pause(self) -> None:
        self.asked.append("pause")

    def ask(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        getattr(self.worker, f"do_{message['op']}")({**message, "fds": [os.dup(fd) for fd in fds]})
        self.asked.append(message["op"])


def test_arguments_make_room_for_outputs_and_come_back() -> None:
    expected = expected_of(lambda: [torch.arange(8.0)])
    arena = Arena(expected, [], "cpu", lends=True)
    candidate = Near()
    reference = SimpleNamespace(
        arguments=lambda seed, *_: Arguments(lambda: [torch.full((8,), float(seed))]), between_bytes=0, device="cpu"
    )
    trial = Trial(reference, candidate, arena)
    trial.fill([0], [expected])
    assert expected.arguments == []
    (target,) = arena.outputs(0)
    assert target.isnan().all()
    candidate.worker._outputs[0][0].copy_(torch.arange(8.0))
    assert arena.outputs(0)[0].tolist() == list(range(8)), "one memory"
    assert arena.changed(0, expected) == []
    arena.inputs(0)[0][3] = -1
    assert arena.changed(0, expected) == [0]
    assert expected.recalled()[0].tolist() == list(range(8))
    assert trial.arguments(5)[0].tolist() == [5.0] * 8
    assert trial.arguments(6)[0].tolist() == [6.0] * 8, "taken back once"
    assert candidate.asked == ["pause", "lend", "take_back"]
    assert not trial.proves_little, "asked once all is taken back"
    arena.close()


@pytest.mark.parametrize(
    ("size", "wanted", "follow", "lends"),
    [(SIZE, True, True, True), (SIZE, False, True, False), (SIZE, True, False, False), (SIZE - 1, True, True, False)],
)
def test_which_cases_lend(size: int, wanted: bool, follow: bool, lends: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.empty(1).expand(size)
    expected = Expected(arguments=[x], leaves=[("output", x)])
    seen: list[bool] = []
    monkeypatch.setattr(bindings, "Arena", lambda *_, lends, queued: seen.append(lends))
    reference = SimpleNamespace(
        expect=lambda _: expected,
        arguments=lambda: [x],
        state=list,
        device="cpu",
        inputs=SimpleNamespace(follow_seeds=lambda: follow),
    )
    candidate = SimpleNamespace(bind=lambda *_: None)
    BoundCandidate(candidate, SimpleNamespace(reference=None), None).rebound(reference, lends=wanted)
    assert seen == [lends]
