"""How an evaluation ends early: a solution that failed, with the reason for people."""

import math
from typing import Self

from kbench.core.diagnosis import Diagnosis
from kbench.core.model import Status
from kbench.core.printable import printable
from kbench.wire.channel import Message


class RefusalError(Exception):
    """A solution that failed: status, reason and log."""

    def __init__(self, status: Status, reason: str, log: str = ""):
        super().__init__(reason)
        self.status = status
        self.reason = printable(reason)
        self.log = log
        self.diagnosis: Diagnosis | None = None
        self.excess = math.inf
        """Of values that are wrong, the largest error in units of what is allowed; of a claim that is refuted, how many
        times longer a call takes by the judge's clock."""

    @property
    def explained(self) -> str:
        """The reason, behind why where that is known."""
        return self.reason if self.diagnosis is None else f"{self.diagnosis.sentence}; {self.reason}"

    def let_go(self) -> Self:
        """Return it without its frames: they hold the tensors of the call, and the next draw has as many."""
        self.__context__ = None
        return self.with_traceback(None)


def require_untampered(answer: Message, log: str) -> None:
    """Raise RefusalError where a worker tells that clocks or functions of torch were replaced in it."""
    replaced = answer.get("replaced")
    if replaced:
        names = replaced if isinstance(replaced, list) else [replaced]
        shown = ", ".join(f"`{str(name)[:80]}`" for name in names[:3]) + (" and more" if len(names) > 3 else "")
        raise RefusalError(Status.TAMPERED, f"the solution replaced {shown} in its process", log)
