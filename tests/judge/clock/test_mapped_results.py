"""Where a worker says that its results lie, and what the judge sees there early."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from fake_device import MEMORY, Driver, handle, installed

from kbench.judge.arena import Arena
from kbench.judge.clock import mapped_results
from kbench.judge.clock.mapped_results import EarlyRead, Mapped, MappedResult
from kbench.judge.reference.expected import Expected
from kbench.judge.refusal import RefusalError
from kbench.process.channel import WireError
from kbench.process.shared_memory import TensorSpec, view

SIZE = 100


@pytest.fixture(autouse=True)
def without_a_device() -> Iterator[None]:
    with installed():
        yield


@pytest.mark.parametrize(
    "told",
    [
        None,
        "0",
        [],
        [0, 0],
        [0, 0, [1], 4],
        [2, 0, [1]],  # of a handle that was not told
        [-2, 0, [1]],
        [0.0, 0, [1]],
        [0, "0", [1]],
        [0, 0, 1],
        [0, 0, []],
        [0, 0, [1, 1]],
        [0, 0, [-1]],
        [0, 0, [1.0]],
        [0, 0, [True]],
        [0, -4, [1]],
        [0, 2, [1]],  # between two elements
        [0, 1 << 16, [1]],
        [0, (1 << 16) - 4 * SIZE + 4, [1]],
        [0, 0, [1 << 14]],
        [0, 0, [1 << 70]],
        [0, 1 << 70, [1]],
    ],
)
def test_a_place_that_is_none(told: Any):
    with pytest.raises(WireError):
        Mapped().place(told, [handle(1), handle(2)], torch.empty(SIZE, device="meta"))


@pytest.mark.parametrize("forged", [None, 7, "", "nonsense", "====", handle(1)[:-4], handle(9), "ä" * 88])
def test_a_handle_that_is_none(forged: Any):
    with pytest.raises(WireError):
        Mapped().place([0, 0, [1]], [forged], torch.empty(SIZE, device="meta"))


@pytest.mark.parametrize(
    ("told", "like"),
    [
        ([0, 0, [1]], torch.empty(SIZE)),
        ([1, 512, [1]], torch.empty(SIZE)),
        ([0, (1 << 16) - 4 * SIZE, [1]], torch.empty(SIZE)),
        ([0, 0, [0]], torch.empty(SIZE)),  # one element, over and over: its values decide
        ([0, 4, []], torch.empty(())),
        ([0, 3, [1]], torch.empty(5, dtype=torch.bool)),
        ([0, 8, [1, 4]], torch.empty(4, 7, dtype=torch.complex64)),
    ],
)
def test_a_place(told: Any, like: torch.Tensor):
    place = Mapped().place(told, [handle(1), handle(2)], like.to("meta"))
    spec, memory = place
    assert (spec.offset, list(spec.stride), spec.shape) == (told[1], told[2], like.shape)
    assert memory is MEMORY[told[0] + 1]


@pytest.mark.parametrize("told", [[-1, 0, []], [0, 0, [1]], [-1, 77, "no"[:0].split()]])
def test_what_has_no_element_lies_nowhere(told: Any):
    assert Mapped().place(told, [handle(1)], torch.empty(0, device="meta")) is None


def test_an_allocation_is_mapped_once_and_there_are_not_too_many(monkeypatch: pytest.MonkeyPatch):
    opened: list[bytes] = []
    opens = Driver.open
    monkeypatch.setattr(Driver, "open", lambda self, raw: opened.append(raw) or opens(self, raw))
    monkeypatch.setattr(mapped_results, "MOST_ALLOCATIONS", 2)
    like, known = torch.empty(SIZE, device="meta"), Mapped()
    MEMORY[3] = MEMORY[2]
    for number in (1, 2, 1):
        known.place([0, 0, [1]], [handle(number)], like)
    assert len(opened) == 2
    with pytest.raises(WireError, match="more than 2 allocations"):
        known.place([0, 0, [1]], [handle(3)], like)


LOOKED_AT = {
    "float32": torch.randn(40, 50),
    "scalar": torch.tensor(3.0),
    "bool": torch.rand(300) > 0.5,
    "int64": torch.arange(300),
    "complex64": torch.randn(300, dtype=torch.complex64),
    "float64": torch.randn(300, dtype=torch.float64),
    "bfloat16": torch.randn(300).bfloat16(),
    "fp8": torch.randn(300).to(torch.float8_e4m3fn),
    "nan": torch.full((300,), float("nan")),
}


def aimed(places: Sequence[MappedResult]) -> EarlyRead:
    look = EarlyRead()
    look.aim(places)
    return look


@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_look_sees_what_changes_afterwards(name: str):
    value = LOOKED_AT[name]
    nbytes = value.numel() * value.element_size()
    MEMORY[1][256 : 256 + nbytes].copy_(value.contiguous().view(-1).view(torch.uint8))
    place = Mapped().place([0, 256, list(value.stride())], [handle(1)], value.to("meta"))
    look = aimed([place])
    assert look.take() > 0
    with look.final("its log"):
        pass
    with pytest.raises(RefusalError, match="were not complete"), look.final("its log"):
        MEMORY[1][256 : 256 + nbytes].add_(1)


def test_a_look_is_recorded_again_only_for_lower_addresses_and_other_results(monkeypatch: pytest.MonkeyPatch):
    """In every other round it reads where results lie then."""
    recordings: list[Any] = []

    def recorded(work: Any) -> Any:
        recordings.append(work)
        return work

    monkeypatch.setattr(mapped_results, "recorded", recorded)
    memory, look = torch.zeros(4096, dtype=torch.uint8), EarlyRead()

    def reads_at(offset: int, value: torch.Tensor, times: int = 1) -> bool:
        dtype = str(value.dtype).removeprefix("torch.")
        spec = TensorSpec(offset=offset, dtype=dtype, shape=tuple(value.shape), stride=value.stride())
        view(spec, memory).copy_(value)
        look.aim([(spec, memory)] * times)
        look.take()
        return set(look._seen.tolist()) <= set(value.flatten().tolist())

    counts = []
    for offset, value, times in (
        (1024, torch.arange(1.0, 9.0), 1),
        (2048, torch.arange(11.0, 19.0).view(2, 4), 1),
        (1028, torch.tensor(21.0), 1),
        (256, torch.arange(31.0, 39.0).view(4, 2).t(), 1),
        (1024, torch.arange(41.0, 49.0), 1),
        (1024, torch.arange(51, 59), 1),
        (1024, torch.arange(61, 69), 2),
    ):
        assert reads_at(offset, value, times)
        counts.append(len(recordings))
    assert counts == [1, 1, 1, 2, 2, 3, 4]


def test_a_look_stays_within_a_result_of_any_strides():
    """What lies between its elements is not its."""
    place = Mapped().place([0, 0, [1, 100]], [handle(1)], torch.empty(10, 20, device="meta"))
    memory = MEMORY[1].view(torch.float32)
    look = aimed([place])
    look.take()
    with look.final(""):
        for column in range(20):
            memory[100 * column + 10 : 100 * column + 100] += 1
    with pytest.raises(RefusalError), look.final(""):
        memory[100 * 7 : 100 * 7 + 10] += 1


def test_of_an_empty_result_nothing_is_looked_at_in_the_judges_buffers():
    made = [torch.empty(0, 3), torch.empty(SIZE), torch.empty(())]
    leaves: Any = [(f"output[{n}]", one) for n, one in enumerate(made)]
    arena = Arena(Expected(arguments=[torch.ones(SIZE)], leaves=leaves), [], "cpu")
    assert [spec.shape for spec, _ in arena.output_places(0)] == [(SIZE,), ()]
    aimed(arena.output_places(0)[:1]).take()
