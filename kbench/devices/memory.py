"""Memory that one process owns and another one maps, as a backend makes it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemory:
    """A block of memory; `release` frees it, or ends the mapping of another process's."""

    bytes: "Tensor"
    """A uint8 tensor over it."""
    descriptor: dict[str, Any]
    """What another process maps it by: plain JSON, with a file descriptor beside it where `fd` is one."""
    fd: int | None
    release: Callable[[], None]
