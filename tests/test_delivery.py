"""How results reach the judge's buffers, above all those of solutions that return one buffer over and over."""

from typing import Any

import pytest
import torch

from kbench.core.model import Status
from kbench.isolation.delivery import deliver, share_memory
from kbench.isolation.matching import check_description
from kbench.isolation.reference import Expected
from kbench.isolation.solution import described as described_state
from kbench.isolation.worker import Worker
from kbench.measure.timing import HostTimer

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
    """Return a worker that takes itself to be on a GPU, where the calls of one request run back to back."""
    made = Worker(channel=None)  # type: ignore[arg-type]
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    made._device, made._timer = "cuda", HostTimer()
    made._inputs = [[torch.full((3,), float(slot))] for slot in range(SLOTS)]
    made._outputs = [[torch.empty(3)] for _ in range(SLOTS)]
    return made


@pytest.mark.parametrize("attest", [False, True])
@pytest.mark.parametrize("model", [fresh, nested, OneBuffer()], ids=["fresh", "nested", "one buffer"])
def test_every_result_of_a_request_arrives(worker: Worker, model: Any, attest: bool) -> None:
    worker._model = model
    for slots in ([0, 1, 2, 3], [2], [3, 1]):
        for target in worker._outputs:
            target[0].fill_(-1)
        answer = worker.do_call({"slots": slots, "flush": False, "attest": attest}, [])
        assert len(answer["outputs"]) == len(slots)
        for slot in slots:
            assert worker._outputs[slot][0].tolist() == [2.0 * slot] * 3


def test_what_shares_memory() -> None:
    x, y = torch.zeros(4), torch.zeros(4)
    assert not share_memory([x, y])
    assert share_memory([x, x])
    assert share_memory([{"a": (x, y)}, {"a": (torch.zeros(4), y)}])
    assert not share_memory([x[:2], x[2:]])
    assert not share_memory([torch.zeros(0), torch.zeros(0), 3, None])


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
    assert found == (Status.WRONG_TYPE, f"output[0] is a {kind}, expected a plain torch.Tensor")
    assert not share_memory([leaf, leaf])
    assert described_state("mask", leaf)[1:3] == [f"{kind.removesuffix(' tensor')} {leaf.dtype}", []]
