"""The reference's model in fp64, run on arguments that are widened too: what rounding errors are told by."""

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import Any

from kbench.isolation.inputs import over_tensors
from kbench.isolation.wire import flatten
from kbench.measure.timing import tensor_leaves


class Double:
    """A copy of a model with parameters and buffers in twice their precision."""

    def __init__(self, model: Any):
        self._model = copy.deepcopy(model)
        self._widened = False

    def run(self, arguments: list[Any], changed: Sequence[int]) -> list[Any] | None:
        """Return the tensors of the result, and inputs that it changes; None where it is made for its own precision."""
        import torch

        try:
            if not self._widened:
                self._model._apply(widened)  # noqa: SLF001 - `double` leaves complex parameters as they are
                self._widened = True
            with torch.no_grad(), widening():
                given = [over_tensors(a, widened) for a in arguments]
                outputs = flatten(self._model(*given))
        except (RuntimeError, TypeError, ValueError, AssertionError, AttributeError, LookupError):
            return None
        after = tensor_leaves(given)
        return [leaf for _, leaf in outputs if isinstance(leaf, torch.Tensor)] + [after[number] for number in changed]


def widened(tensor: Any) -> Any:
    """Return a tensor in twice its precision; integers as they are."""
    import torch

    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


@contextlib.contextmanager
def widening() -> Iterator[None]:
    """Make fp64 of what is asked for in 16 or 32 bits: a cast in the reference would lose what the oracle is for."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    wide = dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), torch.float64)
    wide |= dict.fromkeys((torch.complex64, torch.complex32), torch.complex128)

    class Widening(TorchDispatchMode):  # type: ignore[misc]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            """Nothing here is ever compiled: guarding it would import torch._dynamo, which takes seconds."""
            return False

        def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = {n: wide.get(v, v) if n == "dtype" else v for n, v in (kwargs or {}).items()}
            return func(*args, **given)

    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Widening():
            yield
    finally:
        torch.set_default_dtype(default)
