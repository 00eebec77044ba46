"""New inputs for many slots at once: `get_inputs` as a CUDA graph, which the CPU queues in microseconds.

Drawn one by one, the inputs of a round of 256 short calls take 14 to 28 ms of the CPU's time on an H100. A graph of the
same draws takes 2.2 ms. `get_inputs` can be recorded if it consists of operations of torch on the device, and if its
recording draws the same values for two secret seeds.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from kbench.catalog.containers import tensors as tensor_leaves
from kbench.catalog.problem import seed_torch
from kbench.devices.cuda import recorded
from kbench.judge.exchange import Trial, secret_seed
from kbench.numerics import elements
from kbench.numerics.operators import OperatorMode

LEAST = 8
"""Chosen. Least number of draws to record; fewer are faster one by one."""
PROVEN_BY = 2
"""Number of seeds for which a recording has to equal `get_inputs`: one may agree by chance if a branch depends on
it."""
RECORDABLE = frozenset(
    """
    rand rand_like randn randn_like randint randint_like uniform_ normal_ random_ bernoulli bernoulli_
    empty empty_like empty_strided new_empty new_zeros new_ones zeros zeros_like ones ones_like full full_like
    arange linspace eye fill_ zero_ copy_ clone _to_copy
    add add_ sub sub_ rsub mul mul_ div div_ neg abs sign exp log sqrt pow clamp clamp_ sigmoid tanh relu
    _softmax _log_softmax lt le gt ge eq ne where sum mean triu tril
    view _unsafe_view reshape unsqueeze squeeze expand transpose t permute slice select cat stack detach alias
    """.split()  # noqa: SIM905 - as lines they can be read
)
"""Operations of torch that run on the device alone for all values, so that a CUDA graph may contain them."""


class RecordedDraws:
    """Draws of a trial's inputs for the slots of its arena, recorded once for each number of slots."""

    def __init__(self, trial: Trial):
        self._inputs = trial.reference.inputs
        self._arena = trial.arena
        self._device = trial.reference.device
        self._recordings: dict[int, Callable[[], None]] = {}
        self._can_record: bool | None = None

    def stage(self, calls: int) -> bool:
        """Stage new inputs in the first `calls` slots; return False if they have to be drawn one by one."""
        if calls < LEAST or not self.can_record:
            return False
        if calls not in self._recordings:
            self._recordings[calls] = recorded(lambda: self._draw(calls))
        seed_torch(secret_seed(), self._device)
        self._recordings[calls]()
        return True

    @property
    def can_record(self) -> bool:
        """True if a recording draws what `get_inputs` draws; tested once."""
        if self._can_record is None:
            alone = self._arena.all_tensors and not self._arena.lends and not self._inputs.jitter
            self._can_record = alone and self._is_recordable() and self._is_faithful()
        return self._can_record

    def _draw(self, calls: int) -> None:
        for slot in range(calls):
            self._arena.stage(slot, self._inputs.unseeded())

    def _is_recordable(self) -> bool:
        watch = _Watch(self._device)
        with watch:
            made = self._inputs.unseeded()
        self._arena.stage(0, made)  # allocates the arena's own memory, which must not be the recording's
        return watch.recordable

    def _is_faithful(self) -> bool:
        places = [torch.empty_like(leaf) for leaf in tensor_leaves(self._inputs.unseeded())]
        draw = recorded(lambda: _copy(tensor_leaves(self._inputs.unseeded()), places))

        def agrees(seed: int) -> bool:
            wanted = tensor_leaves(self._inputs.draw(seed))
            seed_torch(seed, self._device)
            draw()
            return all(map(elements.same_bits, wanted, places))

        return all(agrees(secret_seed()) for _ in range(PROVEN_BY))


class _Watch(OperatorMode):
    """Records whether all operations inside a `with` block may be part of a CUDA graph."""

    def __init__(self, device: str):
        super().__init__()
        self._device = device
        self.recordable = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs, made)) if isinstance(leaf, Tensor)]
        self.recordable &= func.overloadpacket.__name__ in RECORDABLE
        self.recordable &= all(tensor.device.type == self._device for tensor in tensors)
        return made


def _copy(tensors: Sequence[Tensor], places: Sequence[Tensor]) -> None:
    for tensor, place in zip(tensors, places, strict=True):
        place.copy_(tensor)
