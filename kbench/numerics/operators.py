"""Base class for `with` blocks that see each operator of torch inside them."""

from torch.utils._python_dispatch import TorchDispatchMode


class OperatorMode(TorchDispatchMode):
    """Base of the modes that see every operator inside them; torch need not guard it with its slow `_dynamo`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch leaves it without types

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
