"""Slots of shared memory for one case: inputs, outputs and parameters, laid out by the judge's own expectation."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kbench.isolation.memory import Block, lay_out
from kbench.isolation.reference import Expected
from kbench.isolation.wire import Message, encode_tree
from kbench.measure import check

SLOT_BUDGET_BYTES = 1 << 30
MAX_SLOTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One set of inputs and outputs: two blocks, and where the tensors lie in them."""

    inputs: Block
    outputs: Block


class Arena:
    """The judge's end of the memory that it shares with one worker.

    `expected` gives shapes, dtypes and strides; `misalign` shifts every input by so many bytes.
    """

    def __init__(
        self,
        expected: Expected,
        weights: Sequence[Any],
        device: str,
        *,
        slots: int | None = None,
        misalign: int = 0,
    ):
        self._device = device
        self._leaves: list[Any] = []
        self._arguments = encode_tree(expected.arguments, self._number)
        self.input_specs, input_bytes = lay_out(self._leaves, offset=misalign)
        self.output_specs, output_bytes = lay_out(expected.tensors)
        self.weight_specs, weight_bytes = lay_out(weights)
        self.slot_bytes = input_bytes + output_bytes
        count = (
            max(1, min(MAX_SLOTS, SLOT_BUDGET_BYTES // max(1, self.slot_bytes))) if slots is None else slots
        )
        self.slots = [
            Slot(inputs=Block.allocate(input_bytes, device), outputs=Block.allocate(output_bytes, device))
            for _ in range(count)
        ]
        self.weights = Block.allocate(weight_bytes, device)

    def _number(self, value: Any) -> int | None:
        import torch

        if not isinstance(value, torch.Tensor):
            return None
        self._leaves.append(value)
        return len(self._leaves) - 1

    def describe(self, mode: str) -> tuple[Message, list[int]]:
        """Return the `bind` request for a worker, and the descriptors that travel with it."""
        blocks = [block for slot in self.slots for block in (slot.inputs, slot.outputs)] + [self.weights]
        message = {
            "op": "bind",
            "mode": mode,
            "blocks": [block.descriptor for block in blocks],
            "slots": [
                {
                    "arguments": self._arguments,
                    "inputs": [[2 * n, spec.to_json()] for spec in self.input_specs],
                    "outputs": [[2 * n + 1, spec.to_json()] for spec in self.output_specs],
                }
                for n in range(len(self.slots))
            ],
            "weights": [[len(blocks) - 1, spec.to_json()] for spec in self.weight_specs],
        }
        return message, [block.fd for block in blocks if block.fd is not None]

    def fill(self, slot: int, expected: Expected) -> int:
        """Copy fresh arguments into a slot, poison its outputs, and return the fingerprint of its inputs."""
        leaves: list[Any] = []
        encode_tree(
            expected.arguments, lambda v: leaves.append(v) or 0 if hasattr(v, "untyped_storage") else None
        )
        for leaf, view in zip(leaves, self.inputs(slot), strict=True):
            view.copy_(leaf)
        check.poison(self.slots[slot].outputs.bytes)
        return self.fingerprint(slot)

    def fingerprint(self, slot: int) -> int:
        """Return one number for all the inputs' bits of a slot."""
        total = 0
        for view in self.inputs(slot):
            total = (total * 31 + check.fingerprint(view)) & 0xFFFF_FFFF_FFFF_FFFF
        return total

    def inputs(self, slot: int) -> list[Any]:
        """Return the judge's views of a slot's inputs: what the worker may have written to."""
        return [self.slots[slot].inputs.view(spec) for spec in self.input_specs]

    def outputs(self, slot: int) -> list[Any]:
        """Return the judge's views of a slot's outputs."""
        return [self.slots[slot].outputs.view(spec) for spec in self.output_specs]

    def weight_views(self) -> list[Any]:
        """Return the judge's views of the shared parameter values."""
        return [self.weights.view(spec) for spec in self.weight_specs]

    def random_slot(self) -> int:
        """Return a random slot: results must not depend on where the inputs lie."""
        return secrets.randbelow(len(self.slots))

    def close(self) -> None:
        """Free all of it."""
        for slot in self.slots:
            slot.inputs.close()
            slot.outputs.close()
        self.weights.close()
