"""What the judge has for the evaluation of one solution: references, workers, the device."""

import contextlib
from typing import Any, Protocol

from kbench.children.worker_start import StartedWorker
from kbench.judge.candidate import Candidate
from kbench.judge.reference.reference import Reference


class JudgeServices(Protocol):
    """What a judge has for its evaluations."""

    @property
    def reference(self) -> Reference:
        """The reference of the open case."""
        ...

    @property
    def device(self) -> str:
        """`cuda` or `cpu`."""
        ...

    def other(self, overrides: dict[str, Any]) -> Reference:
        """Return the reference of another case of the problem."""
        ...

    def derived(self, overrides: dict[str, Any]) -> Reference | None:
        """Return the reference of a shape that the problem does not list; None where that fails."""
        ...

    def fresh_worker(self, compiler: str) -> StartedWorker:
        """Return a worker that has heard of no solution yet."""
        ...

    def reference_opens(self, problem: str) -> contextlib.AbstractContextManager[None]:
        """Have the worker for the reference open the device meanwhile."""
        ...

    def take_reference_worker(self, problem: str) -> Candidate:
        """Return a worker that has opened the device and will run the reference's own model."""
        ...

    def shared(self) -> contextlib.AbstractContextManager[None]:
        """Use the device beside others."""
        ...

    def exclusive(self) -> contextlib.AbstractContextManager[None]:
        """Use the device alone."""
        ...

    def progress(self, **fields: Any) -> None:
        """Tell how far the evaluation is."""
        ...
