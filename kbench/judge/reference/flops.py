"""The arithmetic of a call: its floating-point operations, as torch's own formulas count them."""

from collections.abc import Callable
from typing import Any


def count(call: Callable[[], Any]) -> tuple[Any, int]:
    """Run a call; return what it returned and the FLOPs of the matrix products and convolutions in it.

    The formulas are those of `torch.utils.flop_counter`. Its `FlopCounterMode` is not used, since that imports all of
    torch.compile for its first operator, which takes every judge seconds.
    """
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    class Counter(TorchDispatchMode):  # type: ignore[misc]
        flops = 0

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            """Nothing here is ever compiled, so that torch need not guard it with torch._dynamo."""
            return False

        def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = kwargs or {}
            formula = flop_registry.get(func._overloadpacket)  # noqa: SLF001 - the key that the registry uses
            if formula is None:
                with self:  # under inference_mode, operators that consist of others arrive whole
                    out = func.decompose(*args, **given)
                return func(*args, **given) if out is NotImplemented else out
            out = func(*args, **given)
            self.flops += formula(*args, **given, out_val=out)
            return out

    with Counter() as counter:
        return call(), counter.flops
