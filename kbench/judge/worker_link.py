"""The judge's link to one worker: ask, stop and kill it; each failure comes back as a RefusalError."""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kbench.core.model import Status
from kbench.judge.refusal import RefusalError, UnbuiltError, require_untampered
from kbench.process.channel import Message, WireError
from kbench.process.child_error import ChildError
from kbench.process.observed import Observed
from kbench.process.worker_start import WorkerConfig, WorkerProcess

REQUEST_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SolutionSpec:
    """A solution as the parent describes it to the judge."""

    name: str
    path: str
    problem: str
    builtin: str = ""
    """Name of a built-in solution (`eager`, ...); empty for a file."""
    entry: str = ""
    """Class or function of its file that is judged."""
    artefacts: str = ""
    """The build cache's entry, of which every worker gets a private copy; empty for the reference."""
    compiler: str = ""
    """Compiler that its calls were seen to start, so that it may start programs; empty without one."""
    rehearsed: bool = False
    """True if it was built with all rights: programs that it did not start then are refused now."""
    is_reference: bool = False
    """True for the reference beside a solution: its failure is kbench's, not the solution's."""


class WorkerLink:
    """Connection to a worker: requests with time limits, stops, and the kill."""

    def __init__(self, spec: SolutionSpec, config: WorkerConfig, worker: WorkerProcess):
        self.spec = spec
        self._config = config
        self.observed = Observed()
        """Files and programs that all workers of the solution reported."""
        self._use(worker)
        self._paused: contextlib.ExitStack | None = None
        self.worked_until_ns = 0
        """Time on the judge's clock until which its tree worked before the last stop."""

    @property
    def log(self) -> str:
        """The tail of what the worker printed."""
        return self.worker.log

    @property
    def has_ended(self) -> bool:
        """True once the worker has ended."""
        return self.worker.has_ended

    def _use(self, worker: WorkerProcess) -> None:
        """Ask this worker from now on, and add its reports to those of earlier workers."""
        self.worker = worker
        worker.observed = self.observed

    @contextlib.contextmanager
    def understood(self) -> Iterator[None]:
        """Refuse the solution if an answer that is read inside a `with` block is malformed."""
        try:
            yield
        except WireError as error:
            reason = f"the worker sent a malformed answer: {error}"
            raise RefusalError(Status.PROTOCOL_ERROR, reason, self.log) from error

    def pause(self) -> None:
        """Stop the worker's whole tree until it is asked again: a thread could write a result after the answer."""
        if self._paused is None:
            with self._blamed(), contextlib.ExitStack() as stack:
                self.worked_until_ns = stack.enter_context(self.worker.stopped()).worked_until_ns
                self._paused = stack.pop_all()

    def _resume(self) -> None:
        if self._paused is not None:
            paused, self._paused = self._paused, None
            with self._blamed():
                paused.close()

    @contextlib.contextmanager
    def _blamed(self) -> Iterator[None]:
        try:
            yield
        except ChildError as error:
            raise RefusalError(error.status, error.reason, error.log) from error

    def kill(self) -> None:
        """Kill the worker and all processes that it started, and remove its scratch folder."""
        with contextlib.suppress(RefusalError):
            self._resume()
        self.worker.kill()

    def ask(
        self,
        message: Message,
        fds: Sequence[int] = (),
        timeout_s: float = REQUEST_TIMEOUT_S,
        on_timeout: Status = Status.CALL_TIMEOUT,
    ) -> Message:
        """Send a request (see `kbench.worker.main`) and return the answer. Raises RefusalError."""
        self._resume()
        return self._answer(lambda s: self.worker.request(message, timeout_s=s, fds=fds), timeout_s, on_timeout)

    def _answer(self, request: Callable[[float], Message], timeout_s: float, on_timeout: Status) -> Message:
        try:
            answer: Message = self._refusing(request, timeout_s, on_timeout)
        except RefusalError as refusal:
            if isinstance(refusal.__cause__, ChildError) and refusal.__cause__.status is Status.CALL_TIMEOUT:
                self.kill()  # a late answer must not be read as the next one
            raise
        require_untampered(answer, self.log)
        return answer

    def _refusing(self, request: Callable[[float], Any], timeout_s: float, on_timeout: Status) -> Any:
        """Make a request within the remaining total time; each failure becomes a refusal."""
        deadline = self._config.deadline
        left_s = math.inf if deadline is None else deadline.left_s
        try:
            answer = request(min(left_s, timeout_s))
            self._require_built()
        except ChildError as error:
            self._require_built()
            status, reason = error.status, error.reason
            if status is Status.CALL_TIMEOUT:
                status = on_timeout
                if deadline is not None and left_s < timeout_s:
                    reason = f"not judged in {round(deadline.limit_s, 1):g} s; give it more with `--timeout`"
                    status = Status.TOTAL_TIMEOUT
            elif self.spec.is_reference:
                status = Status.NOT_VERIFIED if status is Status.OUT_OF_MEMORY else Status.HARNESS_ERROR
                reason = f"the reference's own process failed during timing: {reason}"
            raise RefusalError(status, reason, error.log) from error
        return answer

    def _require_built(self) -> None:
        """Raise UnbuiltError if the solution needs rights of a build, and its present files were not built."""
        if self.observed.needs and not self.spec.rehearsed:
            raise UnbuiltError(self.observed.needs[0])
