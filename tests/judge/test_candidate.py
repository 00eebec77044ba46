"""What a worker is told when it is bound, and who is blamed where it fails."""

from types import SimpleNamespace

import pytest
import torch

from kbench.core.model import Status
from kbench.judge import candidate as module
from kbench.judge.candidate import Candidate
from kbench.judge.refusal import RefusalError
from kbench.process.child_error import ChildError
from kbench.process.observed import Observed
from kbench.process.worker_start import WorkerConfig


class Child:
    """A worker that answers everything; `parameter` is what its constructor drew."""

    log = ""

    def __init__(self, parameter: torch.Tensor):
        self.parameter = parameter
        self.view = torch.zeros_like(parameter)
        self.asked: list[str] = []
        self.observed = Observed()

    def request(self, message, **_):
        self.asked.append(message["op"])
        if message["op"] == "read_weights":
            self.view.copy_(self.parameter)
        return {}

    def kill(self) -> None:
        self.asked.append("kill")


def bound(
    parameter: float | torch.Tensor,
    *,
    ours: torch.Tensor | None = None,
    is_reference: bool = False,
    is_buffer: bool = False,
) -> Candidate:
    """Bind a worker to a reference whose parameter, or buffer, is 1, or `ours`."""
    child = Child(torch.as_tensor(parameter).expand(1) if isinstance(parameter, float) else parameter)
    spec = SimpleNamespace(compiler="", is_reference=is_reference)
    candidate = Candidate(spec, WorkerConfig(device="cpu", rung=0, scratch="/nowhere"), child)
    candidate.weights, candidate._theirs = "name", {"w": "w"}
    state = [("w", torch.ones(1) if ours is None else ours)]
    reference = SimpleNamespace(
        gradients=None,
        state=lambda: state,
        model=SimpleNamespace(named_parameters=lambda: [] if is_buffer else state),
        reshapes=False,
        drifts=frozenset(),
    )
    arena = SimpleNamespace(describe=lambda _: ({"op": "bind"}, []), weight_views=lambda: [child.view])
    candidate.bind(reference, arena)
    return candidate


@pytest.mark.parametrize(("builtin", "limit_s"), [("", 60.0), ("eager", 300.0)])
def test_the_problems_model_may_take_as_long_to_construct_as_in_the_judge(monkeypatch, builtin, limit_s) -> None:
    candidate = bound(1.0)
    candidate.spec.builtin = builtin
    asked = []
    monkeypatch.setattr(module, "load_request", lambda *_: ({"blocks": []}, SimpleNamespace(close=lambda: None)))
    monkeypatch.setattr(candidate, "ask", lambda *told: asked.append(told) or {"state": []})
    candidate.load(SimpleNamespace(aliased=frozenset(), call_s=0.0, state=list))
    assert asked[0][2] == limit_s


def test_parameters_that_both_constructors_made_alike_are_copied() -> None:
    candidate = bound(1.0)
    assert candidate.worker.asked == ["bind", "read_weights", "weights"]
    assert not candidate.differing


def test_all_workers_report_to_one_record() -> None:
    """Reports may be long: records that are joined at each request would be part of its time."""
    candidate = bound(1.0)
    candidate.worker.observed.files.append("/first")
    candidate.revive(Child(torch.ones(1)))
    candidate.worker.observed.needs.append("ran `g++`")
    assert candidate.observed == Observed(files=["/first"], needs=["ran `g++`"])


@pytest.mark.parametrize(
    ("value", "is_buffer", "buffers"), [(1.0, True, set()), (2.0, True, {"w"}), (2.0, False, set())]
)
def test_what_the_constructors_made_different_is_known(value, is_buffer, buffers) -> None:
    candidate = bound(value, is_buffer=is_buffer)
    assert candidate.differing == ({"w"} if value != 1 else set())
    assert candidate.differing_buffers == buffers


def test_one_that_the_constructor_transposed_is_told() -> None:
    ours = torch.rand(3, 3)
    assert bound(ours.t(), ours=ours).transposed == "its `w` is the reference's `w` transposed"
    assert bound(torch.rand(3, 3), ours=ours).transposed == ""


def test_the_reference_gets_its_own_always() -> None:
    """It is bound after the judge has drawn parameters anew."""
    candidate = bound(2.0, is_reference=True)
    assert candidate.worker.asked == ["bind", "weights"]


@pytest.mark.parametrize(
    ("failed", "is_reference", "status"),
    [
        (Status.CRASHED, False, Status.CRASHED),
        (Status.CRASHED, True, Status.HARNESS_ERROR),
        (Status.OUT_OF_MEMORY, True, Status.NOT_VERIFIED),
        (Status.CALL_TIMEOUT, True, Status.CALL_TIMEOUT),
    ],
)
def test_a_solution_is_not_blamed_for_the_process_of_the_reference(failed, is_reference, status) -> None:
    candidate = bound(1.0, is_reference=is_reference)

    def fail(message, **_):
        raise ChildError(failed, f"{message['op']} failed")

    candidate.worker.request = fail
    with pytest.raises(RefusalError, match="unbind failed") as refused:
        candidate.ask({"op": "unbind"})
    assert refused.value.status is status


def test_a_worker_that_is_not_ready_in_time_is_killed() -> None:
    """Another thread waits for its answer, and would take that to the next request for it."""
    candidate = bound(1.0)
    candidate.spec.artefacts = ""
    killed = []

    def wait(_timeout_s: float) -> None:
        raise ChildError(Status.CALL_TIMEOUT, "not ready within 120 s")

    candidate.worker.open = lambda *_, **__: None
    candidate.worker.wait, candidate.worker.kill = wait, lambda: killed.append(True)
    with pytest.raises(RefusalError, match="not ready") as refused:
        candidate.prepare()
    assert refused.value.status is Status.HARNESS_ERROR
    assert killed
