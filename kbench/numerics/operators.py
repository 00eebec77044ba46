"""A `with` block that sees each operator of torch inside it."""

from collections.abc import Callable
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class OperatorMode(TorchDispatchMode):
    """Computes every operator inside a `with` block by `compute(function, arguments, keyword arguments)`."""

    def __init__(self, compute: Callable[[Any, Any, dict[str, Any]], Any]):
        super().__init__()  # type: ignore[no-untyped-call] # torch leaves it without types
        self._compute = compute

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._compute(func, args, kwargs or {})

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch need not guard it with its slow `_dynamo`
