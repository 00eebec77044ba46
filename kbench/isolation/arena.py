"""Slots of shared memory for one case: inputs, outputs and parameters, laid out by the judge's own expectation."""

import secrets
from collections.abc import Collection, Sequence
from typing import Any

from kbench.core.errors import PluginError
from kbench.isolation.expected import Expected
from kbench.isolation.memory import Block, TensorSpec, lay_out, layout_of, release_cached
from kbench.isolation.wire import Message, encode_tree
from kbench.measure import check
from kbench.measure.timing import tensor_leaves

SLOT_BUDGET_BYTES = {"cuda": 1 << 30, "cpu": 1 << 27}
MAX_SLOTS = 16


class Arena:
    """The judge's end of the memory that it shares with one worker: one block, cut into slots and weights.

    `expected` gives shapes, dtypes and strides; `misalign` shifts every slot's first input by so many bytes.
    Where it `lends`, it has one slot, and memory for the outputs of a call from `lend` to `take_back` only.
    """

    def __init__(
        self,
        expected: Expected,
        weights: Sequence[Any],
        device: str,
        *,
        slots: int | None = None,
        misalign: int = 0,
        lends: bool = False,
    ):
        self._arguments, leaves = encoded(expected.arguments)
        affordable = SLOT_BUDGET_BYTES[device] // max(1, slot_bytes(expected))
        self.count = max(1, min(MAX_SLOTS, affordable)) if slots is None else slots
        self.lends = lends
        self._device = device
        self._lent: Block | None = None
        self._prints: list[int] = []
        self._inputs: list[list[TensorSpec]] = []
        self._outputs: list[list[TensorSpec]] = []
        self._output_span: list[tuple[int, int]] = []
        end = 0
        for _ in range(self.count):
            specs, begin = lay_out(leaves, offset=end + misalign)
            self._inputs.append(specs)
            specs, end = lay_out(expected.tensors, offset=0 if lends else begin)
            self._outputs.append(specs)
            self._output_span.append((0 if lends else begin, end))
            end = begin if lends else end
        self._weights, end = lay_out(weights, offset=end)
        self._block = Block.allocate(end, device)
        self._told = [self._arguments] * self.count

    def describe(self, mode: str) -> tuple[Message, list[int]]:
        """Return the `bind` request for a worker, and the descriptors that travel with it."""
        message = {
            "op": "bind",
            "mode": mode,
            "blocks": [self._block.descriptor],
            "arguments": self._arguments,
            "slots": [
                {
                    "inputs": [spec.to_json() for spec in inputs],
                    "outputs": [] if self.lends else [spec.to_json() for spec in outputs],
                }
                for inputs, outputs in zip(self._inputs, self._outputs, strict=True)
            ],
            "weights": [spec.to_json() for spec in self._weights],
        }
        return message, [] if self._block.fd is None else [self._block.fd]

    def fill(self, slot: int, expected: Expected) -> None:
        """Copy fresh arguments into a slot, and poison its outputs, unless these are still to be lent."""
        for leaf, view in zip(tensor_leaves(expected.arguments), self.inputs(slot), strict=True):
            view.copy_(leaf)
        if self.lends:
            self._prints = [check.fingerprint(view) for view in self.inputs(slot)]
            return
        begin, end = self._output_span[slot]
        check.poison(self._block.bytes[begin:end])

    def news(self, slot: int, expected: Expected) -> Any:
        """Return the tree of a slot's arguments where something in it that is no tensor is new to the worker."""
        tree, _ = encoded(expected.arguments)
        if tree == self._told[slot]:
            return None
        self._told[slot] = tree
        return tree

    def lend(self) -> tuple[Message, list[int]]:
        """Allocate and poison the outputs' memory; return the request that gives it to a worker, as `describe` does."""
        release_cached(self._device)
        self._lent = Block.allocate(self._output_span[0][1], self._device)
        check.poison(self._lent.bytes)
        specs = [spec.to_json() for spec in self._outputs[0]]
        message = {"op": "lend", "blocks": [self._lent.descriptor], "outputs": specs}
        return message, [] if self._lent.fd is None else [self._lent.fd]

    def take_back(self) -> None:
        """Free the outputs' memory, once the worker has closed it."""
        if self._lent is not None:
            self._lent.close()
        self._lent = None

    def holds(self, slot: int, expected: Expected, but: Collection[int] = ()) -> bool:
        """Say whether the inputs of a slot are still, bit for bit, those that it was filled with, `but` these."""
        views = [(number, view) for number, view in enumerate(self.inputs(slot)) if number not in but]
        if self.lends:
            return all(self._prints[number] == check.fingerprint(view) for number, view in views)
        leaves = tensor_leaves(expected.arguments)
        return all(check.same_bits(leaves[number], view) for number, view in views)

    def inputs(self, slot: int) -> list[Any]:
        """Return the judge's views of a slot's inputs: what the worker may have written to."""
        return [self._block.view(spec) for spec in self._inputs[slot]]

    def outputs(self, slot: int) -> list[Any]:
        """Return the judge's views of a slot's outputs."""
        block = self._lent if self.lends else self._block
        assert block is not None, "looked at before they are taken back"
        return [block.view(spec) for spec in self._outputs[slot]]

    def weight_views(self) -> list[Any]:
        """Return the judge's views of the shared parameter values."""
        return [self._block.view(spec) for spec in self._weights]

    def random_slot(self) -> int:
        """Return a random slot: results must not depend on where the inputs lie."""
        return secrets.randbelow(self.count)

    def close(self) -> None:
        """Free all of it."""
        self.take_back()
        self._block.close()


def encoded(arguments: Any) -> tuple[Any, list[Any]]:
    """Return the arguments as a tree for JSON, and their tensors, which the tree names by number.

    Raises PluginError for what has no place in either.
    """
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


def is_large(expected: Expected, device: str) -> bool:
    """Say whether arguments and outputs of one call alone exceed the budget."""
    return slot_bytes(expected) > SLOT_BUDGET_BYTES[device]


def slot_bytes(expected: Expected) -> int:
    """Return what the arguments and outputs of one call take, in bytes."""
    return lay_out([*tensor_leaves(expected.arguments), *expected.tensors])[1]
