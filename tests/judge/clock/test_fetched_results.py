"""Results that are read where a worker has them: of any layout, and never of memory that they share."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from kbench.judge.candidate import Reply
from kbench.judge.clock.host_clock import HIGHEST_ADDRESS, UnreadableError, fetch
from kbench.process.channel import WireError
from kbench.sandbox import process_table
from kbench.worker.delivery import places_of


def reply(places: list[Any], process: int = os.getpid()) -> Reply:
    """Return what a worker answers that is this process itself."""
    return Reply(
        event_ns=1,
        submit_ns=1,
        sum_ns=1,
        wall_ns=1,
        slots=(),
        numbers=(),
        process=process,
        places=places,
    )


def fetched(results: Sequence[Any], wanted: Sequence[Sequence[Tensor]]) -> None:
    fetch(os.getpid(), reply([places_of(result) for result in results]), wanted)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(0, 3),
    "channels_last": lambda x: x.to(memory_format=torch.channels_last),
    "half of the columns": lambda x: x[..., :3],
    "every second column": lambda x: x[..., ::2],
    "one value everywhere": lambda x: x[:1, :1, :1, :1].expand(2, 3, 4, 5),
    "none": lambda x: x[:0],
    "scalar": lambda x: x.sum(),
}


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int8, torch.bool, torch.complex64]
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_result_arrives_whatever_its_layout(layout: str, dtype: torch.dtype) -> None:
    result = LAYOUTS[layout](torch.randint(-3, 3, (2, 3, 4, 6)).to(dtype))
    wanted = torch.zeros(result.shape, dtype=result.dtype)
    fetched([result], [[wanted]])
    assert torch.equal(wanted, result)


def test_results_of_several_calls_go_to_their_slots() -> None:
    results = [(torch.full((3,), n), {"other": torch.full((2,), -n)}) for n in range(4)]
    wanted = [[torch.zeros(3, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)] for _ in results]
    fetched(results, wanted)
    assert [(a.tolist(), b.tolist()) for a, b in wanted] == [([n] * 3, [-n] * 2) for n in range(4)]


X = torch.arange(64.0)
UNFETCHABLE: dict[str, list[Any]] = {
    "one buffer for all calls": [X, X],
    "overlapping": [X[:32], X[31:63]],
    "in one call": [(X, X[5:])],
    "gaps": [X[::3]],
    "conjugated": [torch.ones(3, dtype=torch.complex64).conj()],
    "sparse": [torch.eye(3).to_sparse()],
}


@pytest.mark.parametrize("results", UNFETCHABLE.values(), ids=UNFETCHABLE)
def test_what_shares_memory_or_has_gaps_is_to_be_copied(results: list[Any]) -> None:
    leaves = [result if isinstance(result, tuple) else (result,) for result in results]
    wanted = [[torch.zeros(leaf.shape, dtype=leaf.dtype) for leaf in each] for each in leaves]
    with pytest.raises(UnreadableError):
        fetched(results, wanted)
    assert not any(tensor.any() for each in wanted for tensor in each), "all or nothing"


@pytest.mark.parametrize("number", [1, 14], ids=["EPERM", "EFAULT"])
def test_memory_that_the_kernel_does_not_show_is_to_be_copied(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise OSError(number, "process_vm_readv")

    monkeypatch.setattr(process_table, "read_into", refuse)
    with pytest.raises(UnreadableError, match="process_vm_readv"):
        fetched([X], [[torch.zeros(64)]])


@pytest.mark.parametrize(
    "told",
    [
        [],
        [[], []],
        [None],
        [[[X.data_ptr(), [1]], [X.data_ptr(), [1]]]],
        [[X.data_ptr()]],
        [[[X.data_ptr(), [1, 1]]]],
        [[[X.data_ptr(), [-1]]]],
        [[[X.data_ptr(), [1.0]]]],
        [[[X.data_ptr(), [True]]]],
        [[[HIGHEST_ADDRESS, [1]]]],
        [[[-8, [1]]]],
        [[["0", [1]]]],
    ],
)
def test_nonsense_is_told_from_a_place(told: list[Any]) -> None:
    with pytest.raises(WireError):
        fetch(os.getpid(), reply(told), [[torch.zeros(64)]])


def test_an_address_that_is_a_lie_reads_nothing_of_the_judge() -> None:
    with pytest.raises(UnreadableError, match="Bad address"):
        fetch(os.getpid(), reply([[[4096, [1]]]]), [[torch.zeros(64)]])
    with pytest.raises(WireError, match="does not belong to the worker"):
        fetch(os.getpid(), reply([[[4096, [1]]]], process=1 << 30), [[torch.zeros(64)]])
