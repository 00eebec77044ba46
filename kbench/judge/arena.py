"""Slots of shared memory for one case: inputs, outputs and parameters, laid out by the judge's own expectation."""

from collections.abc import Collection, Sequence
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from kbench.catalog.containers import tensors
from kbench.core.errors import PluginError
from kbench.devices.backend import backend
from kbench.devices.poison import poison
from kbench.judge.reference.expected import Expected
from kbench.numerics import elements
from kbench.process.channel import Message, encode_tree, flatten
from kbench.process.shared_memory import ALIGNMENT, Block, TensorSpec, lay_out, layout_of, view

SLOT_BUDGET_BYTES = {"cuda": 1 << 30, "cpu": 1 << 27}
MAX_SLOTS = 16
QUEUE_BUDGET_BYTES = 2 << 30
"""Memory for a queue's slots, and for the results that each of the two workers keeps."""
MAX_QUEUE = 256
"""Most calls in a queue; a device's launch queue holds about 1,000 entries (measured on an H200)."""


class Arena:
    """The judge's end of the memory that it shares with one worker: one block, cut into slots and weights.

    `misalign` shifts every slot's first input by that many bytes. An arena that `lends` has one slot, and memory for
    outputs from `lend` to `take_back` only. A `queued` arena has inputs for many calls in a row (`queue`), whose
    results stay in the worker's memory.
    """

    def __init__(
        self,
        expected: Expected,
        weights: Sequence[Tensor],
        device: str,
        *,
        slots: int | None = None,
        misalign: int = 0,
        lends: bool = False,
        queued: bool = False,
    ):
        self.arguments, leaves = encoded(expected.arguments)
        self.all_tensors = len(flatten(expected.arguments)) == len(leaves)
        """True if every argument is a tensor; other arguments are sent to the worker before a call."""
        affordable = SLOT_BUDGET_BYTES[device] // max(1, slot_bytes(expected))
        self.count = max(1, min(MAX_SLOTS, affordable)) if slots is None else slots
        self.lends = lends
        self._device = device
        self._lent: Block | None = None
        self._prints: list[int] = []
        queue_bytes = lay_out([*leaves, *expected.tensors, *expected.tensors])[1]
        self.queue = self.count
        if queued and not lends:
            self.queue = max(self.count, min(MAX_QUEUE, QUEUE_BUDGET_BYTES // max(1, queue_bytes)))
        self._inputs, spans = _slots(leaves, self.queue, 0, misalign)
        self.input_bytes = [0, *(end for _, end in spans)]
        """Size of the inputs of the first slots, by the number of slots."""
        end = self.input_bytes[-1]
        if lends:
            self._outputs, self._output_span = _slots(expected.tensors, 1, 0)
        else:
            self._outputs, self._output_span = _slots(expected.tensors, self.count, end)
            end = self._output_span[-1][1]
        self._weights, end = lay_out(weights, offset=end)
        self._block = Block.allocate(end, device)
        self._staging: Tensor | None = None
        self._staged: list[list[Tensor]] = []
        self.output_like = [t.to("meta") for t in expected.tensors]

    def describe(self, mode: str) -> tuple[Message, list[int]]:
        """Return the `bind` request for a worker, and the descriptors that travel with it."""
        message = {
            "op": "bind",
            "mode": mode,
            "blocks": [self._block.descriptor],
            "arguments": self.arguments,
            "slots": [
                {"inputs": inputs, "outputs": [] if self.lends else outputs or []}
                for inputs, outputs in zip_longest(self._inputs, self._outputs)
            ],
            "weights": self._weights,
        }
        return message, [] if self._block.fd is None else [self._block.fd]

    def fill(self, slot: int, expected: Expected) -> None:
        """Copy fresh arguments into a slot, and poison its outputs, unless these are still to be lent."""
        for leaf, mine in zip(tensors(expected.arguments), self.inputs(slot), strict=True):
            mine.copy_(leaf)
        if self.lends:
            self._prints = [elements.fingerprint(view) for view in self.inputs(slot)]
        else:
            self.poison(slot)

    def poison(self, slot: int) -> None:
        """Poison the outputs of a slot that has some."""
        poison(self._block.bytes[slice(*self._output_span[slot])])

    def overwrite_inputs(self, slot: int, but: Collection[int] = ()) -> None:
        """Overwrite the inputs of a slot after a call, so that a result in their memory is not taken for a new one."""
        for number, spec in enumerate(self._inputs[slot]):
            if number not in but:
                poison(self._block.bytes[slice(*spec.span)])

    def stage(self, slot: int = 0, arguments: Sequence[Any] | None = None) -> None:
        """Put fresh arguments for a slot where no worker sees them, until `reveal`.

        Without arguments, stage what the slots hold, unless something is staged: then `reveal` can be timed alone.
        """
        if self._staging is None:
            self._staging = staging = self._block.bytes[: self.input_bytes[-1]].clone()
            self._staged = [[view(spec, staging) for spec in specs] for specs in self._inputs]
        if arguments is None:
            return
        for leaf, place in zip(tensors(arguments), self._staged[slot], strict=True):
            place.copy_(leaf)
        if self.lends:
            self._prints = [elements.fingerprint(place) for place in self._staged[slot]]

    def reveal(self, slots: int) -> None:
        """Show the worker the staged inputs of the first `slots` slots, in one step.

        Large inputs are not kept aside after that, because checking the results needs the room.
        """
        end = self.input_bytes[slots]
        if self._staging is not None:
            self._block.bytes[:end].copy_(self._staging[:end])
        if self.lends:
            self._staging, self._staged = None, []

    def lend(self) -> tuple[Message, list[int]]:
        """Allocate and poison the outputs' memory; return the request that gives it to a worker, as `describe` does."""
        backend(self._device).release_cached()
        self._lent = Block.allocate(self._output_span[0][1], self._device)
        poison(self._lent.bytes)
        message = {"op": "lend", "blocks": [self._lent.descriptor], "outputs": self._outputs[0]}
        return message, [] if self._lent.fd is None else [self._lent.fd]

    def take_back(self) -> None:
        """Free the outputs' memory, once the worker has closed it."""
        if self._lent is not None:
            self._lent.close()
        self._lent = None

    def changed(self, slot: int, expected: Expected, but: Collection[int] = ()) -> list[int]:
        """Return the numbers of a slot's inputs that changed by any bit since it was filled; `but` these may change."""
        views = [(number, view) for number, view in enumerate(self.inputs(slot)) if number not in but]
        if self.lends:
            return [number for number, view in views if self._prints[number] != elements.fingerprint(view)]
        leaves = tensors(expected.arguments)
        return [number for number, view in views if not elements.same_bits(leaves[number], view)]

    def inputs(self, slot: int) -> list[Any]:
        """Return the judge's views of a slot's inputs, which the worker may have written to."""
        return [view(spec, self._block.bytes) for spec in self._inputs[slot]]

    def outputs(self, slot: int) -> list[Tensor]:
        """Return the judge's views of a slot's outputs."""
        return [view(spec, memory) for spec, memory in self._places(slot)]

    def output_places(self, slot: int) -> list[tuple[TensorSpec, Any]]:
        """Return layouts and memory of a slot's outputs that have elements."""
        return [(spec, memory) for spec, memory in self._places(slot) if 0 not in spec.shape]

    def _places(self, slot: int) -> list[tuple[TensorSpec, Any]]:
        block = self._lent if self.lends else self._block
        assert block is not None, "looked at before they are taken back"
        return [(spec, block.bytes) for spec in self._outputs[slot]]

    def any_place(self) -> tuple[TensorSpec, Any]:
        """Return a place in this memory with a few elements of the first output's type."""
        dtype = next((like.dtype for like in self.output_like if like.numel()), torch.uint8)
        name, size = str(dtype).removeprefix("torch."), ALIGNMENT // dtype.itemsize
        return TensorSpec(offset=0, dtype=name, shape=(size,), stride=(1,)), self._block.bytes

    def weight_views(self) -> list[Tensor]:
        """Return the judge's views of the shared parameter values."""
        return [view(spec, self._block.bytes) for spec in self._weights]

    def close(self) -> None:
        """Free all of it."""
        self.take_back()
        self._block.close()


def _slots(
    tensors: Sequence[Any], count: int, begin: int, misalign: int = 0
) -> tuple[list[list[TensorSpec]], list[tuple[int, int]]]:
    """Lay out tensors `count` times in a row from `begin` on; return the layouts, and begin and end of each."""
    layouts, spans = list[list[TensorSpec]](), list[tuple[int, int]]()
    for _ in range(count):
        specs, end = lay_out(tensors, offset=begin + misalign)
        layouts.append(specs)
        spans.append((begin, end))
        begin = end
    return layouts, spans


def encoded(arguments: Any) -> tuple[Any, list[Any]]:
    """Return the arguments as a tree for JSON, and their tensors, which it names by number. Raises PluginError."""
    leaves: list[Any] = []

    def number(value: Any) -> int | None:
        if not hasattr(value, "untyped_storage"):
            return None
        if layout_of(value):
            raise TypeError(f"a {layout_of(value)} tensor cannot be passed to a solution")
        leaves.append(value)
        return len(leaves) - 1

    try:
        return encode_tree(arguments, number), leaves
    except TypeError as error:
        hint = "pass dense tensors, numbers, strings or None, in lists, tuples or dictionaries"
        raise PluginError(f"an argument of the problem: {error}", hint=hint) from error


def slot_bytes(expected: Expected) -> int:
    """Return the size of the arguments and outputs of one call, in bytes."""
    return lay_out([*tensors(expected.arguments), *expected.tensors])[1]
