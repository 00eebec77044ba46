"""Results of calls on a CPU, read from the memory of a stopped worker: none is copied while the judge's clock runs."""

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kbench.judge.clock.readings import Reply
from kbench.process.channel import WireError
from kbench.process.shared_memory import TensorSpec
from kbench.sandbox import process_memory

MOST_GAPS = 2
"""Largest span of a result in memory, as a multiple of its bytes. The worker copies a result with more gaps."""
HIGHEST_ADDRESS = 1 << 56


class UnfetchableError(Exception):
    """Results that the judge cannot read where they lie, or that do not each have memory of their own."""


def fetch(tree: int, reply: Reply, wanted: Sequence[Sequence[Tensor]]) -> None:
    """Copy results of a worker in the stopped process `tree` to the judge's own memory, slot by slot.

    Raises:
        UnfetchableError: the worker has to copy them.
        WireError: the reported places cannot hold such results.
    """
    if len(reply.places) != len(wanted) or any(not isinstance(of_slot, list) for of_slot in reply.places):
        raise WireError("places of another number than calls")
    pairs: list[tuple[TensorSpec, Tensor]] = []
    for places, of_slot in zip(reply.places, wanted, strict=True):
        if len(places) != len(of_slot):
            raise WireError("places of another number than results")
        pairs += [(_place(each, want), want) for each, want in zip(places, of_slot, strict=True) if want.numel()]
    spans = sorted(spec.span for spec, _ in pairs)
    if any(before[1] > after[0] for before, after in itertools.pairwise(spans)):
        raise UnfetchableError("results lie in each other's memory")
    pid = process_memory.find_in_tree(tree, reply.process)
    if pid is None:
        raise WireError("the process of the results does not belong to the worker")
    try:
        for spec, want in pairs:
            _read(pid, spec, want)
    except OSError as error:
        raise UnfetchableError(str(error)) from error


def _place(reported: Any, want: Tensor) -> TensorSpec:
    match reported:
        case [int() as address, list() as stride] if 0 <= address < HIGHEST_ADDRESS:
            pass
        case _:
            raise WireError("a place is an address and strides")
    if not address:
        raise UnfetchableError("a result does not lie in memory as its shape says")
    if len(stride) != want.dim() or not all(type(s) is int and 0 <= s < HIGHEST_ADDRESS for s in stride):
        raise WireError("a result has other strides than dimensions")
    dtype = str(want.dtype).removeprefix("torch.")
    spec = TensorSpec(offset=address, dtype=dtype, shape=tuple(want.shape), stride=tuple(stride))
    if spec.span[1] - address > MOST_GAPS * want.nbytes:
        raise UnfetchableError("a result has gaps")
    return spec


def _read(pid: int, spec: TensorSpec, want: Tensor) -> None:
    begin, end = spec.span
    if spec.stride == want.stride():
        process_memory.read_into(want.data_ptr(), pid, begin, end - begin)
        return
    there = torch.empty((end - begin) // want.element_size(), dtype=want.dtype)
    process_memory.read_into(there.data_ptr(), pid, begin, end - begin)
    want.copy_(there.as_strided(spec.shape, spec.stride))
