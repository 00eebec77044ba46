"""Memory that judge and worker share: outputs that are lent while a call needs them, and inputs that are hidden."""

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
from kbench.numerics import elements
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


TENSORS = {
    "plain": lambda: torch.randn(3, 5),
    "scalar": lambda: torch.tensor(2.5),
    "one_byte": lambda: torch.tensor([7], dtype=torch.uint8),
    "odd_bytes": lambda: torch.randint(0, 255, (8191,), dtype=torch.uint8),
    "long": lambda: torch.randn(2049),
    "empty": lambda: torch.empty(4, 0, 2),
    "transposed": lambda: torch.randn(40, 60).t(),
    "channels_last": lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "every_other": lambda: torch.randn(50, 80)[:, ::2],
    "slice_of_a_larger_one": lambda: torch.randn(99, 99)[2:50, 3:70],
    "expanded": lambda: torch.randn(1, 5).expand(70, 5),
    "windows": lambda: torch.randn(100).unfold(0, 3, 1),
    "bool": lambda: torch.rand(1700) > 0.5,
    "bfloat16": lambda: torch.randn(33, 3).bfloat16(),
    "complex": lambda: torch.randn(31, dtype=torch.complex64),
    "conjugate": lambda: torch.randn(31, dtype=torch.complex64).conj(),
    "negated": lambda: torch.randn(31, dtype=torch.complex64).conj().imag,
    "complex128": lambda: torch.randn(31, dtype=torch.complex128),
    "int64": lambda: torch.arange(700),
    "fp8": lambda: torch.randn(900).to(torch.float8_e4m3fn),
    "nan_and_inf": lambda: torch.tensor([float("nan"), float("inf"), -0.0]),
    "requires_grad": lambda: torch.randn(9, requires_grad=True),
}


def arena_for(arguments: list[Any], *, lends: bool, queue: int = 1) -> Arena:
    expected = Expected(arguments=arguments, leaves=[("output", torch.zeros(16))])
    made = Arena(expected, [torch.zeros(3)], "cpu", lends=lends, queued=not lends)
    assert lends or made.queue >= queue
    return made


def same(mine: torch.Tensor, theirs: torch.Tensor) -> bool:
    return mine.numel() == 0 or elements.same_bits(mine.detach(), theirs.detach())


@pytest.mark.parametrize("lends", [False, True], ids=["kept", "lends"])
@pytest.mark.parametrize("name", TENSORS)
def test_inputs_are_there_from_the_moment_they_are_revealed(name: str, lends: bool) -> None:
    before, argument = TENSORS[name](), TENSORS[name]()
    arena = arena_for([before], lends=lends)
    (slot,) = arena.inputs(0)
    slot.copy_(before.detach())
    earlier = slot.clone()
    with torch.no_grad():
        arena.stage(0, [argument])
    assert same(slot, earlier), "nothing of a round is in the slot yet"
    arena.reveal(1)
    assert same(slot, argument)
    assert arena.changed(0, Expected(arguments=[argument], leaves=[])) == []
    arena.close()


@pytest.mark.parametrize("lends", [False, True])
def test_what_was_changed_is_with_unique_names(lends: bool) -> None:
    argument = torch.randn(1000)
    arena = arena_for([argument], lends=lends)
    arena.stage(0, [argument])
    arena.reveal(1)
    arena.inputs(0)[0][999] += 1
    assert arena.changed(0, Expected(arguments=[argument], leaves=[])) == [0]
    arena.close()


@pytest.mark.parametrize("lends", [False, True])
def test_no_byte_beside_the_inputs_is_touched(lends: bool) -> None:
    """Outputs and parameters lie in the same block."""
    arguments = [torch.randn(100), torch.rand(2047) > 0.5]
    arena = arena_for(arguments, lends=lends)
    outputs = [] if lends else [t for slot in range(arena.count) for t in arena.outputs(slot)]
    for tensor in (*outputs, *arena.weight_views()):
        tensor.fill_(3.0)
    for _ in range(2):
        arena.stage(0, arguments)
        arena.reveal(1)
    for tensor in (*outputs, *arena.weight_views()):
        assert (tensor == 3.0).all()
    arena.close()


def test_a_round_may_have_fewer_calls_than_there_are_slots() -> None:
    arena = arena_for([torch.zeros(300)], lends=False, queue=5)
    for slot in range(arena.queue):
        arena.inputs(slot)[0].fill_(-1.0)
    for slot in (2, 0, 1):
        arena.stage(slot, [torch.full((300,), float(slot))])
    arena.reveal(3)
    assert [arena.inputs(slot)[0].unique().tolist() for slot in range(3)] == [[0.0], [1.0], [2.0]]
    # Whatever shares the last page of these is of an earlier round, or nothing.
    assert arena.inputs(arena.queue - 1)[0].unique().tolist() == [-1.0]
    arena.reveal(0)
    arena.close()


@pytest.mark.parametrize("lends", [False, True])
def test_revealing_again_leaves_the_inputs_as_they_are(lends: bool) -> None:
    """Loops that are timed afterwards work on them: with noise for indices they would fail."""
    arena = arena_for([torch.zeros(300)], lends=lends)
    inputs = [torch.randn(300) for _ in range(arena.queue)]
    for slot, x in enumerate(inputs):
        arena.stage(slot, [x.clone()])
    for slots in (arena.queue, 0, arena.queue):
        arena.stage()
        arena.reveal(slots)
        assert all(torch.equal(arena.inputs(slot)[0], x) for slot, x in enumerate(inputs))
    arena.stage(0, [inputs[0] + 1])
    assert torch.equal(arena.inputs(0)[0], inputs[0]), "and the next ones are hidden"
    arena.close()


def test_a_queue_has_more_slots_than_outputs_and_no_more_than_memory_allows() -> None:
    small, large = torch.zeros(100), torch.empty(1).expand(1 << 25)
    assert Arena(expected := Expected(arguments=[small], leaves=[("y", small)]), [], "cpu", queued=True).queue == 256
    assert Arena(expected, [], "cpu").queue == 16
    assert Arena(expected, [], "cpu", queued=True, lends=True).queue == 16
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("kbench.judge.arena.Block.allocate", lambda nbytes, _: nbytes)
        made = Arena(Expected(arguments=[large], leaves=[("y", large)]), [], "cpu", queued=True)
        assert (made.count, made.queue) == (1, 5), "3 times 128 MiB, in 2 GiB"
