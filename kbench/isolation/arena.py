"""Slots of shared memory for one case: inputs, outputs and parameters, laid out by the judge's own expectation."""

import secrets
from collections.abc import Sequence
from typing import Any

from kbench.isolation.memory import Block, TensorSpec, lay_out
from kbench.isolation.reference import Expected
from kbench.isolation.wire import Message, encode_tree
from kbench.measure import check
from kbench.measure.timing import tensor_leaves

SLOT_BUDGET_BYTES = {"cuda": 1 << 30, "cpu": 1 << 27}
MAX_SLOTS = 16


class Arena:
    """The judge's end of the memory that it shares with one worker: one block, cut into slots and weights.

    `expected` gives shapes, dtypes and strides; `misalign` shifts every slot's first input by so many bytes.
    """

    def __init__(
        self, expected: Expected, weights: Sequence[Any], device: str, *, slots: int | None = None, misalign: int = 0
    ):
        leaves: list[Any] = []

        def number(value: Any) -> int | None:
            if not hasattr(value, "untyped_storage"):
                return None
            leaves.append(value)
            return len(leaves) - 1

        self._arguments = encode_tree(expected.arguments, number)
        _, self.slot_bytes = lay_out([*leaves, *expected.tensors])
        affordable = SLOT_BUDGET_BYTES[device] // max(1, self.slot_bytes)
        self.count = max(1, min(MAX_SLOTS, affordable)) if slots is None else slots
        self._inputs: list[list[TensorSpec]] = []
        self._outputs: list[list[TensorSpec]] = []
        self._output_span: list[tuple[int, int]] = []
        end = 0
        for _ in range(self.count):
            specs, begin = lay_out(leaves, offset=end + misalign)
            self._inputs.append(specs)
            specs, end = lay_out(expected.tensors, offset=begin)
            self._outputs.append(specs)
            self._output_span.append((begin, end))
        self._weights, end = lay_out(weights, offset=end)
        self._block = Block.allocate(end, device)

    def describe(self, mode: str) -> tuple[Message, list[int]]:
        """Return the `bind` request for a worker, and the descriptors that travel with it."""
        message = {
            "op": "bind",
            "mode": mode,
            "blocks": [self._block.descriptor],
            "arguments": self._arguments,
            "slots": [
                {"inputs": [spec.to_json() for spec in inputs], "outputs": [spec.to_json() for spec in outputs]}
                for inputs, outputs in zip(self._inputs, self._outputs, strict=True)
            ],
            "weights": [spec.to_json() for spec in self._weights],
        }
        return message, [] if self._block.fd is None else [self._block.fd]

    def fill(self, slot: int, expected: Expected) -> None:
        """Copy fresh arguments into a slot, and poison its outputs."""
        for leaf, view in zip(tensor_leaves(expected.arguments), self.inputs(slot), strict=True):
            view.copy_(leaf)
        begin, end = self._output_span[slot]
        check.poison(self._block.bytes[begin:end])

    def holds(self, slot: int, expected: Expected) -> bool:
        """Say whether the inputs of a slot are still, bit for bit, those that it was filled with."""
        pairs = zip(tensor_leaves(expected.arguments), self.inputs(slot), strict=True)
        return all(check.same_bits(leaf, view) for leaf, view in pairs)

    def inputs(self, slot: int) -> list[Any]:
        """Return the judge's views of a slot's inputs: what the worker may have written to."""
        return [self._block.view(spec) for spec in self._inputs[slot]]

    def outputs(self, slot: int) -> list[Any]:
        """Return the judge's views of a slot's outputs."""
        return [self._block.view(spec) for spec in self._outputs[slot]]

    def weight_views(self) -> list[Any]:
        """Return the judge's views of the shared parameter values."""
        return [self._block.view(spec) for spec in self._weights]

    def random_slot(self) -> int:
        """Return a random slot: results must not depend on where the inputs lie."""
        return secrets.randbelow(self.count)

    def close(self) -> None:
        """Free all of it."""
        self._block.close()
