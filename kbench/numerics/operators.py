"""What torch computes inside a `with` statement, operator by operator."""

from torch.utils._python_dispatch import TorchDispatchMode


class OperatorMode(TorchDispatchMode):
    """Base of the modes that see every operator that torch runs inside them.

    Nothing inside is ever compiled, so that torch need not guard it with `torch._dynamo`, whose import takes seconds.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch leaves it without types

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
