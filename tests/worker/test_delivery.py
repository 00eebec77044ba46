"""How results reach the judge's buffers, above all those of solutions that return one buffer over and over."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from kbench.core.model import Status
from kbench.devices.cpu import HostTimer
from kbench.judge.matching import check_description
from kbench.judge.reference.reference import Expected
from kbench.worker.delivery import deliver
from kbench.worker.main import Worker
from kbench.worker.solution import descriptions

SLOTS = 4


class OneBuffer:
    """Answers every call in the same memory, as a replayed graph does."""

    def __init__(self) -> None:
        self.buffer = torch.empty(3)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mul(x, 2, out=self.buffer)


def fresh(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def nested(x: torch.Tensor) -> dict[str, Any]:
    return {"y": (x * 2, None)}


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    """Return a worker that takes itself to be on a GPU."""
    made = Worker(channel=None)
    for name in ("synchronize", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    for name in ("memory_allocated", "max_memory_allocated"):
        monkeypatch.setattr(torch.cuda, name, lambda: 0)
    made._device, made._timer = "cuda", HostTimer()
    made._inputs = {slot: [torch.full((3,), float(slot))] for slot in range(SLOTS)}
    made._outputs = [[torch.empty(3)] for _ in range(SLOTS)]
    return made


@pytest.mark.parametrize("poison", [False, True])
@pytest.mark.parametrize("model", [fresh, nested, OneBuffer()], ids=["fresh", "nested", "one buffer"])
def test_every_result_of_a_request_arrives(worker: Worker, model: Any, poison: bool) -> None:
    worker._model = model
    for slots in ([0, 1, 2, 3], [2], [3, 1]):
        for target in worker._outputs:
            target[0].fill_(-1)
        answer = worker.do_call({"slots": slots, "poison": poison, "late": False, "kept": False})
        assert len(answer["outputs"]) == len(slots)
        for slot in slots:
            assert worker._outputs[slot][0].tolist() == [2.0 * slot] * 3


@pytest.mark.parametrize(
    ("model", "found"), [(fresh, [2.0, 4.0, 6.0]), (OneBuffer(), [6.0, 6.0, 6.0])], ids=["fresh", "one buffer"]
)
def test_results_that_are_taken_late_are_what_is_left_of_them(worker: Worker, model: Any, found: list[float]) -> None:
    worker._model = model
    answer = worker.do_call({"slots": [1, 2, 3], "poison": True, "late": True, "kept": False})
    assert len(answer["outputs"]) == 3
    assert [worker._outputs[slot][0][0].item() for slot in (1, 2, 3)] == found


def test_results_that_are_told_of_stay_where_they_are_until_the_next_request(worker: Worker) -> None:
    worker._model = fresh
    request = {"slots": [1, 2], "poison": False, "late": False, "kept": True}
    worker._outputs = [[torch.full((3,), -1.0)] for _ in range(SLOTS)]
    answer = worker.do_call(request)
    assert [each[0][1] for each in answer["outputs"]] == ["tensor"] * 2
    assert [of_call[0][0] for of_call in answer["places"]] == [result.data_ptr() for result in worker._results]
    assert [result.tolist() for result in worker._results] == [[2.0] * 3, [4.0] * 3]
    assert all(target[0].tolist() == [-1.0] * 3 for target in worker._outputs), "nothing is copied"
    answer = worker.do_call({**request, "kept": False})
    assert (answer["places"], worker._results) == ([], [])
    assert worker._outputs[2][0].tolist() == [4.0] * 3


def test_without_targets_results_are_described_and_copied_nowhere() -> None:
    """As in a round, whose results stay where they lie."""
    x = torch.ones(3)
    described = deliver((x * 2, x, 4), (), [x])
    assert [each[1] for each in described] == ["tensor", "tensor", "int"]
    assert [each[-1] for each in described] == [False, True, False], "the second one is an input"


class Told:
    """The judge's end of the channel, and what came over it."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)


class Queued:
    """A queue without a device, which notes what it was asked for."""

    def __init__(self) -> None:
        self.handles: list[str] = []
        self.event_ns, self.submit_ns = 0.0, 0
        self.asked: list[str] = []

    @contextlib.contextmanager
    def gated(self, number: int) -> Iterator[None]:
        self.asked.append(f"wait for {number}")
        yield
        self.asked.append(f"say {number}")

    @contextlib.contextmanager
    def timed(self, calls: int) -> Iterator[None]:
        self.asked.append(f"time {calls}")
        yield
        self.asked.append("timed")

    def read(self, calls: int) -> None:
        self.asked.append("read")
        self.event_ns, self.submit_ns = 1000.0 * calls, 7

    def places(self, output: Any) -> list[list[Any]]:
        return [[0, leaf.data_ptr(), list(leaf.stride())] for leaf in [output]]

    def forget(self) -> None:
        self.asked.append("forget")


@pytest.fixture
def queue(worker: Worker) -> Queued:
    worker._channel, worker._queue = Told(), Queued()
    return worker._queue


def round_of(slots: list[int], **changes: int) -> dict[str, Any]:
    return {
        "n": 3,
        "number": 5,
        "slots": slots,
        "gated": True,
        "deliver": False,
        "keep": True,
        "replay": False,
        "report_last": len(slots),
        **changes,
    }


@pytest.mark.parametrize("slots", [[2, 0, 3, 1], [1], []])
def test_a_gated_round_tells_where_results_lie_before_it_is_let_go(worker: Worker, queue: Queued, slots) -> None:
    worker._model = fresh
    answer = worker.do_round(round_of(slots))
    (told,) = worker._channel.sent
    assert (told["progress"], told["n"], told["handles"]) == ("queued", 3, [])
    assert told["places"] == [[[0, result.data_ptr(), [1]]] for result in worker._results]
    assert [result.tolist() for result in worker._results] == [[2.0 * slot] * 3 for slot in slots]
    assert len(told["outputs"]) == len(slots)
    assert queue.asked == ["forget", "wait for 5", f"time {len(slots)}", "timed", "say 5", "read"]
    assert (answer["event_ns"], answer["submit_ns"]) == (1000 * len(slots), 7)


def test_a_round_that_delivers_copies_inside_of_it_and_tells_no_places(worker: Worker, queue: Queued) -> None:
    worker._model = OneBuffer()
    answer = worker.do_round(round_of([3, 1], deliver=True))
    (told,) = worker._channel.sent
    assert (told["places"], len(told["outputs"])) == ([], 2)
    assert answer.keys() == {"event_ns", "submit_ns"}, "the rest is said already"
    assert [worker._outputs[slot][0].tolist() for slot in (3, 1)] == [[6.0] * 3, [2.0] * 3]
    assert worker._results == []


@pytest.mark.parametrize(("last", "told_of"), [(1, [1]), (2, [3, 1]), (4, [2, 0, 3, 1]), (9, [2, 0, 3, 1])])
def test_it_tells_of_the_last_results_that_the_judge_asks_for(worker: Worker, queue: Queued, last, told_of) -> None:
    worker._model = fresh
    worker.do_round(round_of([2, 0, 3, 1], report_last=last))
    (told,) = worker._channel.sent
    kept = dict(zip([2, 0, 3, 1], worker._results, strict=True))
    assert told["places"] == [[[0, kept[slot].data_ptr(), [1]]] for slot in told_of]
    assert len(told["outputs"]) == len(told_of)


def test_a_plain_loop_says_done_when_the_device_is(worker: Worker, queue: Queued) -> None:
    worker._model = fresh
    answer = worker.do_round(round_of([0, 1, 0, 1, 0], gated=False, keep=False))
    assert worker._channel.sent == [{"progress": "done", "n": 3}]
    assert queue.asked == ["forget", "time 5", "timed", "read"]
    assert (answer["places"], answer["outputs"], worker._results) == ([], [], [])


def test_results_of_the_last_round_are_let_go_before_the_next(worker: Worker, queue: Queued) -> None:
    """And the memory of unbound slots with all that was kept of them."""
    worker._model = fresh
    worker.do_round(round_of([0, 1, 2, 3]))
    worker.do_round(round_of([0]))
    assert len(worker._results) == 1
    worker._device = "cpu"
    worker.do_unbind({})
    assert worker._results == []


@pytest.mark.parametrize("leaf", [torch.zeros(3, dtype=torch.float64), torch.zeros(1), torch.zeros(3, 1)])
def test_nothing_is_cast_or_broadcast(leaf: torch.Tensor) -> None:
    target = torch.full((3,), 7.0)
    (described,) = deliver(leaf, [target], [])
    assert target.tolist() == [7.0] * 3
    assert described[2:4] == [str(leaf.dtype), list(leaf.shape)]


NOT_DENSE = {
    "sparse_coo tensor": torch.eye(3).to_sparse(),
    "sparse_csr tensor": torch.eye(3).to_sparse_csr(),
    "nested tensor": torch.nested.nested_tensor([torch.rand(2), torch.rand(3)]),
    "quantised tensor": torch.quantize_per_tensor(torch.rand(3, 3), 0.1, 0, torch.qint8),
}


@pytest.mark.parametrize("kind", NOT_DENSE)
def test_what_is_not_dense_is_described_as_such(kind: str) -> None:
    """And refused by that: no memory of it can be copied or compared."""
    x, target = torch.rand(3, 3), torch.full((3, 3), 7.0)
    leaf = NOT_DENSE[kind]
    described = deliver((leaf, x), [target, torch.empty(3, 3)], [x])
    assert described[0][1:4] == [kind, str(leaf.dtype), []]
    assert target.tolist() == [[7.0] * 3] * 3
    expected = Expected(arguments=[x], leaves=[("output[0]", x), ("output[1]", x)])
    found = check_description(described, expected, "cpu")
    assert found == (Status.WRONG_OUTPUT, f"output[0] is a {kind}, expected a plain torch.Tensor")
    assert descriptions([("mask", leaf)])[0][1:3] == [f"{kind.removesuffix(' tensor')} {leaf.dtype}", []]
