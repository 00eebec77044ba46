"""Large cases that are only verified: memory for the outputs is there while a call needs it, and no longer."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiny_corpus
import torch

from kbench.core.events import Judged, RunOptions
from kbench.core.model import Failed, Passed, Status
from kbench.engine.run import run
from kbench.judge.arena import SLOT_BUDGET_BYTES, Arena
from kbench.judge.exchange import Trial
from kbench.judge.reference.drawing import Arguments
from kbench.judge.reference.expected import Expected
from kbench.judge.verify.battery import Battery
from kbench.plugins import registry
from kbench.storage.settings import Settings
from kbench.worker.main import Worker

SIZE = SLOT_BUDGET_BYTES["cpu"] // 8 + 1
"""Elements of an int32 input and as large an output that together exceed the budget just so."""

PROBLEM = f"""
import os
import torch

DRAWN = "from the seed"
CASES = {{"default": {{}}, "unseeded": {{"DRAWN": "anew"}}}}

class Model(torch.nn.Module):
    def forward(self, x):
        return x.abs()

def get_inputs():
    if DRAWN == "anew":
        torch.manual_seed(int.from_bytes(os.urandom(4), "little"))
    return [torch.randint(-1000, 1000, ({SIZE},), dtype=torch.int32)]

def get_init_inputs():
    return []
"""

SOLUTIONS = {
    "right": ("return x.abs()", Status.PASSED),
    "changes_an_input": ("y = x.abs(); x[-1] += 1; return y", Status.INPUT_MUTATED),
    "last_element_off": ("y = x.abs(); y[-1] += 1; return y", Status.WRONG_VALUE),
    "former_result": ("self.y = getattr(self, 'y', x.abs()); return self.y", Status.WRONG_VALUE),
    "static_buffer": (
        "self.y = getattr(self, 'y', torch.empty_like(x)); return torch.abs(x, out=self.y)",
        Status.PASSED,
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("lending")
    (made / "magnitudes.py").write_text(PROBLEM)
    for name, (body, _) in SOLUTIONS.items():
        (made / f"{name}.py").write_text(tiny_corpus.solution(body))
    return made


def judged(folder: Path, case: str, names: list[str]) -> Iterator[Judged]:
    problem = registry.find_problem(folder / "magnitudes.py", Settings())
    entries = [registry.find_solution(problem, folder / f"{name}.py", Settings()) for name in names]
    options = RunOptions(device="cpu", verify_only=True, cases=(case,), results_dir=folder, save=False)
    return (event for event in run(problem, entries, options) if isinstance(event, Judged))


@pytest.mark.slow(seconds=25)
def test_every_answer_has_its_status(folder: Path) -> None:
    outcomes = {one.solution: one.outcome for one in judged(folder, "default", list(SOLUTIONS))}
    found = {
        name: Status.PASSED if isinstance(outcome, Passed) else outcome.status for name, outcome in outcomes.items()
    }
    assert found == {name: status for name, (_, status) in SOLUTIONS.items()}
    wrong = outcomes["last_element_off"]
    assert isinstance(wrong, Failed)
    assert f"output[{SIZE - 1}]" in wrong.reason, "the truth was computed on arguments drawn again"


@pytest.mark.slow
def test_inputs_that_cannot_be_drawn_again_are_kept(folder: Path) -> None:
    (one,) = judged(folder, "unseeded", ["right"])
    assert isinstance(one.outcome, Passed)


def expected_of(draw: Any) -> Expected:
    arguments = Arguments(draw)
    return Expected(arguments=arguments, leaves=[("output", arguments[0] * 2)])


class Near:
    """A worker's half in this process, and which requests it was sent."""

    def __init__(self) -> None:
        self.worker = Worker(channel=None)  # type: ignore[arg-type]
        self.worker._outputs = [[]]
        self.asked: list[str] = []

    def pause(self) -> None:
        self.asked.append("pause")

    def lend(self, arena: Arena) -> None:
        message, fds = arena.lend()
        self.worker.do_lend({**message, "fds": [os.dup(fd) for fd in fds]})
        self.asked.append("lend")

    def take_back(self, arena: Arena) -> None:
        self.worker.do_take_back({})
        arena.take_back()
        self.asked.append("take_back")


def test_arguments_make_room_for_outputs_and_come_back() -> None:
    expected = expected_of(lambda: [torch.arange(8.0)])
    arena = Arena(expected, [], "cpu", lends=True)
    candidate = Near()
    reference = SimpleNamespace(
        arguments=lambda seed, *_: Arguments(lambda: [torch.full((8,), float(seed))]), between_bytes=0, device="cpu"
    )
    trial = Trial(reference, candidate, arena)  # type: ignore[arg-type]
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
    monkeypatch.setattr("kbench.judge.verify.battery.Arena", lambda *_, lends, queued: seen.append(lends))
    reference = SimpleNamespace(
        expect=lambda _: expected,
        arguments=lambda _: [x],
        state=list,
        device="cpu",
        inputs=SimpleNamespace(follow_seeds=lambda: follow),
    )
    candidate = SimpleNamespace(bind=lambda *_: None)
    Battery(candidate).bind(reference, lends=wanted, queued=False)  # type: ignore[arg-type]
    assert seen == [lends]
